//! Valid documents for the targets to change, from `seeds.json`.

use std::sync::LazyLock;

use serde_json::Value;

static ALL: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("seeds.json")).expect("it is JSON"));

/// Network configurations that all plugins accept.
pub(crate) fn configurations() -> Vec<Value> {
    of("configurations")
}

/// Results of delegates.
pub(crate) fn results() -> Vec<Value> {
    of("results")
}

/// Network configurations with pools and rules.
pub(crate) fn catalogues() -> Vec<Value> {
    of("catalogues")
}

/// Files of `poolsDir`.
pub(crate) fn pool_files() -> Vec<Value> {
    of("pool_files")
}

fn of(kind: &str) -> Vec<Value> {
    ALL[kind].as_array().expect("an array").clone()
}
