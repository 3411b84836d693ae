//! Configurations and calls that many tests make.

use serde_json::{Value, json};

use crate::{ALLOCATOR, Call, IPAM_DELEGATED, Output, Sandbox};

/// The chain of most tests.
pub const RANGES_CHAIN: [&str; 2] = ["ipam-ds-ranges", ALLOCATOR];

/// Routes with which a result is larger than a pipe's buffer.
pub fn many_routes() -> Value {
    let subnets = (0..4000).map(|n| format!("10.{}.{}.0/24", n / 250, n % 250));
    subnets.map(|dst| json!({ "dst": dst })).collect()
}

/// The chain by rules.
pub const RULES_CHAIN: [&str; 2] = ["ipam-ds-rules", ALLOCATOR];

impl Sandbox {
    /// A call of `ipam-delegated` for a container.
    pub fn chain_call(&self, command: &str, container: &str, config: &Value) -> Call {
        self.call(IPAM_DELEGATED, command, config)
            .container(container)
    }

    /// Runs `ipam-delegated` for a container.
    pub fn run_for(&self, command: &str, container: &str, config: &Value) -> Output {
        self.chain_call(command, container, config).run()
    }

    /// Runs `ipam-delegated` for the container `c1`.
    pub fn run(&self, command: &str, config: &Value) -> Output {
        self.call(IPAM_DELEGATED, command, config).run()
    }

    /// A call of `ipam-delegated` for the container of a pod, `<namespace>-<pod>`.
    pub fn pod_call(&self, command: &str, config: &Value, namespace: &str, pod: &str) -> Call {
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={pod}");
        self.chain_call(command, &format!("{namespace}-{pod}"), config)
            .env("CNI_ARGS", args)
    }

    /// Runs `ipam-delegated` for the container of a pod, as in [`Self::pod_call`].
    pub fn run_for_pod(&self, command: &str, config: &Value, namespace: &str, pod: &str) -> Output {
        self.pod_call(command, config, namespace, pod).run()
    }

    /// Asserts that a network has neither a reservation nor a record.
    #[track_caller]
    pub fn holds_nothing(&self, network: &str) {
        let left = (self.reserved(network), self.records(network));
        assert_eq!(left, (vec![], vec![]));
    }

    /// A configuration of a chain whose selector gives the pool 10.1.0.0/24. `more` has further
    /// keys of `ipam`. For GC, no attachment is valid.
    pub fn config_of_one_range(&self, version: &str, delegates: &[&str], more: &Value) -> Value {
        let mut ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
        let keys = ipam.as_object_mut().unwrap();
        keys.extend(more.as_object().unwrap().clone());
        let mut config = self.config(version, delegates, &ipam);
        config["cni.dev/valid-attachments"] = json!([]);
        config
    }

    /// As [`Self::config_of_one_range`], of the selector by ranges and the allocator.
    pub fn config_of_ranges(&self, version: &str) -> Value {
        self.config_of_one_range(version, &RANGES_CHAIN, &json!({}))
    }

    /// A configuration of the allocator without a chain: `pools` as a selector prints them. For
    /// GC, no attachment is valid.
    pub fn allocator_config(&self, pools: &Value) -> Value {
        let mut config = self.config("1.1.0", &[], &json!({}));
        config["prevResult"] = json!({"ips": [], "pools": pools});
        config["cni.dev/valid-attachments"] = json!([]);
        config
    }

    /// A call of the allocator without a chain, for a container.
    pub fn allocator_call(&self, command: &str, container: &str, pools: &Value) -> Call {
        self.call(ALLOCATOR, command, &self.allocator_config(pools))
            .container(container)
    }
}
