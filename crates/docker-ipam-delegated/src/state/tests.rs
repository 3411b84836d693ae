//! Values for tests.

use crate::state::pool::{Facts, LOCAL, Pool};

impl Pool {
    /// A pool without a network configuration, for tests.
    pub(crate) fn example(subnet: &str) -> Self {
        Self {
            space: LOCAL.parse().unwrap(),
            conflist: None,
            subnet: subnet.parse().unwrap(),
            range: None,
            facts: Facts::new(),
            is_given: true,
            gateway: "10.1.0.1".parse().unwrap(),
            config: r#"{"cniVersion":"1.0.0","name":"n","type":"t","ipam":{"stateDir":"/x"}}"#
                .to_owned(),
        }
    }
}
