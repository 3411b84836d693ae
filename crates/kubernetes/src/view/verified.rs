//! Properties of pools that are verified once on each node.

use std::time::Duration;

use super::{View, one_of_many};

/// A property of a pool that stays true until its spec changes (see [`crate::Item::spec_id`]), or
/// etcd is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verified {
    /// No node has a block of the pool.
    WithoutBlocks,
    /// No other pool has or holds an address of the pool. A later pool that overlaps with it is
    /// refused.
    Apart,
    /// The pool existed while no restore did: so every later restore is noted in its status, unless
    /// etcd is restored without `ipamctl reconcile --begin`.
    BeforeRestores,
}

impl Verified {
    fn file(self, pool: &str) -> String {
        match self {
            Self::WithoutBlocks => format!("noblock_{pool}"),
            Self::Apart => format!("apart_{pool}"),
            Self::BeforeRestores => format!("unrestored_{pool}"),
        }
    }
}

impl View {
    /// Verifies a property of the pool with this spec, unless a call of this node has done so. Of
    /// many calls at the same time, one verifies, and the others wait for it, for at most this
    /// time.
    pub(crate) fn verify<E>(
        &self,
        what: Verified,
        (pool, spec): (&str, &str),
        at_most: Duration,
        mut verify: impl FnMut() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let Some(folder) = &self.folder else {
            return verify();
        };
        let file = what.file(pool);
        let known = || {
            let noted = folder.read(&file).ok()?;
            (noted == spec.as_bytes()).then_some(true)
        };
        if let Some(holds) = known() {
            return Ok(holds);
        }
        one_of_many(folder, at_most, known, || {
            let holds = verify()?;
            if holds && let Err(error) = folder.replace(&file, spec.as_bytes()) {
                tracing::debug!(%error, pool, ?what, "this will be verified again");
            }
            Ok(holds)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};

    const WAIT: Duration = Duration::from_secs(9);

    fn view(folder: &Path) -> View {
        View::open(folder, Path::new("/kubeconfig"), WAIT)
    }

    fn verify(view: &View, spec: &str, outcome: Result<bool, ()>) -> (Result<bool, ()>, u32) {
        let mut verified = 0;
        let found = view.verify(Verified::Apart, ("blue", spec), WAIT, || {
            verified += 1;
            outcome
        });
        (found, verified)
    }

    #[test]
    fn only_a_property_that_holds_is_noted_and_only_for_its_spec() {
        let folder = tempfile::tempdir().unwrap();
        let view = view(folder.path());
        assert_eq!(verify(&view, "u/1", Err(())), (Err(()), 1));
        assert_eq!(verify(&view, "u/1", Ok(false)), (Ok(false), 1));
        assert_eq!(verify(&view, "u/1", Ok(true)), (Ok(true), 1));
        assert_eq!(verify(&view, "u/1", Err(())), (Ok(true), 0));
        assert_eq!(verify(&view, "u/2", Ok(false)), (Ok(false), 1));
        assert_eq!(verify(&View::none(), "u/1", Ok(true)), (Ok(true), 1));
    }

    #[test]
    fn of_many_calls_at_once_one_verifies() {
        let folder = tempfile::tempdir().unwrap();
        let verified = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let holds =
                        view(folder.path()).verify(Verified::Apart, ("blue", "u/1"), WAIT, || {
                            verified.fetch_add(1, Ordering::Relaxed);
                            Ok::<_, ()>(true)
                        });
                    assert_eq!(holds, Ok(true));
                });
            }
        });
        assert_eq!(verified.into_inner(), 1);
    }
}
