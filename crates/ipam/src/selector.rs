//! A selector: one function, with which every command is answered.

use cni::{About, Attachment, Call, Error, Object, Plugin, Reply};

use crate::Pools;

/// A plugin that chooses pools and holds nothing. [`SelectorPlugin`] makes a [`Plugin`]
/// of it.
pub trait Selector: Sync {
    /// Its name, version and purpose.
    fn about(&self) -> About;

    /// The pools for a call, as JSON objects.
    ///
    /// It is called for each command. Only on ADD can it rely on everything that the
    /// runtime says of the container: on GC and STATUS there is no container, and a
    /// runtime may pass less on DEL and CHECK.
    ///
    /// # Errors
    ///
    /// The reason why no pool can be chosen. Only ADD fails by it.
    fn pools(&self, call: &Call<'_>) -> Result<Vec<Object>, Error>;

    /// STATUS: refuses if ADD would be refused for every container.
    ///
    /// # Errors
    ///
    /// The error of any ADD.
    fn status(&self, _: &Call<'_>) -> Result<(), Error> {
        Ok(())
    }
}

/// The plugin of a selector.
///
/// On every command its result is `prevResult` with the pools after those of earlier
/// selectors. If there are none to choose on a command other than ADD, nothing is
/// printed: the chain then uses the selector's result of ADD, which it has recorded.
#[derive(Clone, Copy, Debug)]
pub struct SelectorPlugin<T>(pub T);

impl<T: Selector> SelectorPlugin<T> {
    fn select(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let pools = self.0.pools(call)?;
        Pools::append(&call.config, pools).map(Reply::Result)
    }
}

/// The reply of a selector to another command than ADD: nothing if it can't choose pools, which is
/// logged. An allocator releases addresses without them.
pub fn pools_or_nothing(reply: Result<Reply, Error>) -> Reply {
    reply.unwrap_or_else(|error| {
        tracing::debug!(%error, "no pools are printed");
        Reply::Nothing
    })
}

impl<T: Selector> Plugin for SelectorPlugin<T> {
    fn about(&self) -> About {
        self.0.about()
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.select(call)
    }

    fn del(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(pools_or_nothing(self.select(call)))
    }

    fn check(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(pools_or_nothing(self.select(call)))
    }

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(pools_or_nothing(self.select(call)))
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        self.0.status(call)?;
        Ok(pools_or_nothing(self.select(call)))
    }
}

#[cfg(test)]
mod tests {
    use cni::{Environment, NetworkConfig};

    use super::*;

    /// Selects the pool whose name the network configuration has in `pool`.
    struct ByKey;

    impl Selector for ByKey {
        fn about(&self) -> About {
            About {
                name: "by-key",
                version: "0",
                summary: "",
            }
        }

        fn pools(&self, call: &Call<'_>) -> Result<Vec<Object>, Error> {
            let name: Option<String> = call.config.read("pool")?;
            let mut pool = Object::new();
            pool.set("name", &name.ok_or_else(|| Error::config("no pool"))?);
            Ok(vec![pool])
        }
    }

    /// The `pools` that each command prints; an error is its message.
    fn printed(keys: &str) -> Vec<Result<Option<String>, String>> {
        let environment = Environment::default();
        let json = format!(r#"{{"cniVersion":"1.1.0","name":"n"{keys}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let call = Call::new(config, &environment);
        let attachment = Attachment {
            container_id: "c1".parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        };
        let plugin = SelectorPlugin(ByKey);
        let replies = [
            plugin.add(&attachment, &call),
            plugin.del(&attachment, &call),
            plugin.check(&attachment, &call),
            plugin.gc(&call),
            plugin.status(&call),
        ];
        let pools = |reply: Reply| match reply {
            Reply::Result(result) => result.other("pools").map(|pools| pools.get().to_owned()),
            _ => None,
        };
        replies
            .into_iter()
            .map(|reply| reply.map(pools).map_err(|error| error.msg))
            .collect()
    }

    #[test]
    fn every_command_prints_the_pools_after_those_of_earlier_selectors() {
        let keys = r#","pool":"blue","prevResult":{"pools":[{"name":"red"}]}"#;
        let both = r#"[{"name":"red"},{"name":"blue"}]"#;
        assert_eq!(printed(keys), vec![Ok(Some(both.to_owned())); 5]);
    }

    #[test]
    fn a_selector_that_finds_no_pool_fails_add_alone() {
        let printed = printed("");
        assert_eq!(printed[0], Err("no pool".to_owned()));
        assert_eq!(printed[1..], vec![Ok(None); 4]);
    }
}
