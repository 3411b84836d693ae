//! Reserves an address from each of several pools, or from none.

use cni::{Error, code};

/// Calls `reserve` for each pool, in order. If one fails, `release` is called for the
/// reservations made so far, the last one first, and the failure is returned. If `release`
/// fails, the failure's code is 114, and its details say what may be left.
///
/// Both functions receive `store`, which keeps the reservations.
///
/// ```
/// let pools = [vec![1, 2], vec![], vec![3]];
/// let mut reserved: Vec<i32> = Vec::new();
/// let result = ipam::all_or_nothing(
///     &mut reserved,
///     pools,
///     |reserved, mut pool| {
///         let ip = pool.pop().ok_or_else(|| cni::Error::new(11, "the pool is full"))?;
///         reserved.push(ip);
///         Ok(ip)
///     },
///     |reserved, ip| {
///         reserved.retain(|reserved_ip| reserved_ip != ip);
///         Ok(())
///     },
/// );
/// assert_eq!(result.unwrap_err().msg, "the pool is full");
/// assert!(reserved.is_empty());
/// ```
///
/// # Errors
///
/// The first failure of `reserve`; code 114 if a reservation was not released.
pub fn all_or_nothing<S, P, R>(
    store: &mut S,
    pools: impl IntoIterator<Item = P>,
    mut reserve: impl FnMut(&mut S, P) -> Result<R, Error>,
    mut release: impl FnMut(&mut S, &R) -> Result<(), Error>,
) -> Result<Vec<R>, Error> {
    let mut reserved = Vec::new();
    for pool in pools {
        match reserve(store, pool) {
            Ok(reservation) => reserved.push(reservation),
            Err(mut failure) => {
                for reservation in reserved.iter().rev() {
                    if let Err(error) = release(store, reservation) {
                        failure.code = code::UNKNOWN_OUTCOME;
                        failure = failure.with_line(&format!("not released: {error}"));
                    }
                }
                return Err(failure);
            }
        }
    }
    Ok(reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events, in order.
    type Story = Vec<String>;

    /// Runs with pools that behave as their names say.
    fn run(pools: &[&str]) -> (Result<String, Error>, Story) {
        let mut story = Story::new();
        let result = all_or_nothing(
            &mut story,
            pools.iter().copied(),
            |story, pool| {
                story.push(format!("reserve {pool}"));
                match pool {
                    "full" => Err(Error::new(11, "full")),
                    _ => Ok(pool),
                }
            },
            |story, pool| {
                story.push(format!("release {pool}"));
                match *pool {
                    "stuck" => Err(Error::new(5, "disk on fire")),
                    _ => Ok(()),
                }
            },
        );
        (result.map(|all| all.join(" ")), story)
    }

    #[test]
    fn each_pool_yields_one_in_order() {
        let (result, story) = run(&["a", "b"]);
        assert_eq!(result, Ok("a b".to_owned()));
        assert_eq!(story, ["reserve a", "reserve b"]);
        assert_eq!(run(&[]).0, Ok(String::new()));
    }

    #[test]
    fn a_failure_releases_what_was_reserved_last_first_and_reserves_no_more() {
        let (result, story) = run(&["a", "stuck", "b", "full", "c"]);
        let error = result.unwrap_err();
        let code = code::UNKNOWN_OUTCOME;
        assert_eq!((error.code, error.msg.as_str()), (code, "full"));
        assert_eq!(run(&["a", "full"]).0.unwrap_err().code, 11);
        assert_eq!(error.details, "not released: disk on fire (code 5)");
        assert_eq!(
            story,
            [
                "reserve a",
                "reserve stuck",
                "reserve b",
                "reserve full",
                "release b",
                "release stuck",
                "release a",
            ]
        );
    }
}
