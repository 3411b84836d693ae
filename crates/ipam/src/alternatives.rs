//! STATUS has no container. So a selector whose pools depend on it lists, as `alternatives` of its
//! result, the pools that it would choose for each kind of container. An allocator behind it fails
//! if it can't serve any of them.

use cni::{Call, DelegateName, Error, IpamResult, NetworkConfig, Object, code};

use crate::Pools;

/// The key of a selector's answer to STATUS: a list for each kind of container, with its pools.
pub const ALTERNATIVES: &str = "alternatives";

/// The delegates of the chain that calls this plugin, in their order; none if it is called without a chain.
///
/// # Errors
///
/// Code 7, naming the key and the value.
pub fn delegates(config: &NetworkConfig) -> Result<Vec<DelegateName>, Error> {
    let delegates: Option<_> = config.ipam()?.read("ipam", "delegates")?;
    Ok(delegates.unwrap_or_default())
}

/// The answer of a selector to STATUS: `prevResult` with `alternatives`, each the pools of one ADD.
///
/// # Errors
///
/// Code 7 if `prevResult` is invalid, naming the key.
pub fn with_alternatives(
    config: &NetworkConfig,
    alternatives: &[Vec<Object>],
) -> Result<IpamResult, Error> {
    let mut result = config.prev_result()?.unwrap_or_default();
    // Those of an earlier selector stay: each ADD gets pools of both.
    if result.other(ALTERNATIVES).is_none() {
        result.set_other(ALTERNATIVES, alternatives);
    }
    Ok(result)
}

/// STATUS of the allocator `plugin`: succeeds if it can serve the pools of an ADD. They are empty
/// if the selectors print none on STATUS.
///
/// # Errors
///
/// Code 50 if no ADD gets pools; the errors of `serve`, if it fails for all alternatives.
pub fn serve_any_add(
    call: &Call<'_>,
    plugin: &str,
    serve: impl FnMut(Pools) -> Result<(), Error>,
) -> Result<(), Error> {
    let given = call.config.section("prevResult")?.unwrap_or_default();
    let delegates = delegates(&call.config)?;
    let is_behind_allocator =
        |pair: &[DelegateName]| pair[0].allocates() && pair[1].as_str() == plugin;
    let has_pools = match given.read::<Vec<Object>>("prevResult", "pools")? {
        _ if given.field("prevResult", ALTERNATIVES)?.is_some() => true,
        Some(pools) => !pools.is_empty(),
        None => delegates
            .first()
            .is_some_and(|first| first.as_str() != plugin),
    };
    if !has_pools || delegates.windows(2).any(is_behind_allocator) {
        return Err(Error::new(code::UNAVAILABLE, without_pools().msg));
    }
    with_any_pools(&call.config, serve)
}

/// STATUS of an allocator that needs no pools: succeeds if `serve` does with those of any ADD.
///
/// # Errors
///
/// Code 7 if `prevResult` is invalid, naming the key; the errors of `serve`, if it fails for all
/// alternatives.
pub fn with_any_pools(
    config: &NetworkConfig,
    mut serve: impl FnMut(Pools) -> Result<(), Error>,
) -> Result<(), Error> {
    let given = config.section("prevResult")?.unwrap_or_default();
    let pools: Vec<Object> = given.read("prevResult", "pools")?.unwrap_or_default();
    let alternatives: Option<Vec<Vec<Object>>> = given.read("prevResult", ALTERNATIVES)?;
    let mut errors = Vec::new();
    for more in alternatives.unwrap_or_else(|| vec![Vec::new()]) {
        match serve(Pools::new([&pools[..], &more[..]].concat())) {
            Ok(()) => return Ok(()),
            Err(error) => errors.push(error),
        }
    }
    Error::all_as_one(errors)
}

/// The error of an allocator without pools: no selector is before it, or another allocator is
/// between.
pub fn without_pools() -> Error {
    Error::config(
        "prevResult.pools is missing or empty: \
         a selector such as ipam-ds-ranges must come before this allocator",
    )
}

#[cfg(test)]
mod tests {
    use cni::{Environment, SpecVersion};

    use super::*;

    fn config(keys: &str) -> NetworkConfig {
        let json = format!(r#"{{"cniVersion":"1.1.0","name":"n",{keys}}}"#);
        NetworkConfig::parse(json.into_bytes()).unwrap()
    }

    /// The names of the pools that STATUS of `ipam-da-x` tries, up to those called `good`.
    fn tried(delegates: &str, prev_result: &str) -> Result<Vec<String>, String> {
        let ipam = format!(r#""ipam":{{"delegates":[{delegates}]}}"#);
        let environment = Environment::default();
        let config = config(&format!(r#"{ipam},"prevResult":{prev_result}"#));
        let mut tried = Vec::new();
        let call = Call::new(config, &environment);
        let served = serve_any_add(&call, "ipam-da-x", |pools| {
            let entries = pools.entries().iter();
            let names = entries.filter_map(|pool| pool.read::<String>("", "name").unwrap());
            let names = names.collect::<Vec<_>>().join("+");
            let is_good = names.is_empty() || names.ends_with("good");
            tried.push(names.clone());
            is_good.then_some(()).ok_or_else(|| Error::new(5, names))
        });
        served.map(|()| tried).map_err(|error| error.msg)
    }

    #[test]
    fn one_alternative_is_enough_and_the_pools_before_it_belong_to_each() {
        let all = r#"{"pools":[{"name":"a"}],"alternatives":[[{"name":"b"}],[{"name":"good"}],[{"name":"c"}]]}"#;
        let tried_all = tried(r#""ipam-ds-y","ipam-da-x""#, all);
        assert_eq!(tried_all.unwrap(), ["a+b", "a+good"]);
        let bad = all.replace("good", "d");
        let none = tried(r#""ipam-ds-y","ipam-da-x""#, &bad);
        assert_eq!(none.unwrap_err(), "a+b; a+d; a+c");
    }

    #[test]
    fn an_allocator_that_no_selector_can_give_pools_is_refused() {
        let of_any = |delegates: &str, prev: &str| tried(delegates, prev).is_ok();
        let good = r#"{"pools":[{"name":"good"}]}"#;
        let behind = r#""ipam-ds-y","ipam-da-x""#;
        // A selector that is not ours may print nothing.
        assert!(of_any(behind, "{}") && of_any(behind, "null") && of_any(behind, good));
        assert!(!of_any(behind, r#"{"pools":[]}"#));
        assert!(!of_any(r#""ipam-da-x","ipam-ds-y""#, "{}"));
        let again = r#""ipam-ds-y","ipam-da-x","ipam-da-x""#;
        let behind_other = r#""ipam-ds-y","ipam-da-z","ipam-da-x""#;
        assert!(!of_any(again, good) && !of_any(behind_other, good));
        let each_its = r#""ipam-ds-y","ipam-da-x","ipam-ds-y","ipam-da-x""#;
        assert!(of_any(each_its, good));
    }

    #[test]
    fn the_alternatives_of_an_earlier_selector_stay() {
        let pool = |name: &str| {
            let mut pool = Object::new();
            pool.set("name", name);
            vec![vec![pool]]
        };
        let first = with_alternatives(&config(r#""x":1"#), &pool("a")).unwrap();
        let prev = first.to_raw(SpecVersion::V1_1_0);
        let later = config(&format!(r#""prevResult":{}"#, prev.get()));
        let second = with_alternatives(&later, &pool("b")).unwrap();
        assert_eq!(
            second.other(ALTERNATIVES).unwrap().get(),
            r#"[[{"name":"a"}]]"#
        );
    }
}
