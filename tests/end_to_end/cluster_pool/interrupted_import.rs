//! `ipamctl import` is interrupted: nothing is given until it is run again.

use std::fs;

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, Output, needs};
use serde_json::{Value, json};

use super::api_cluster::ApiCluster;
use super::lost_answers::{heal, last};
use crate::cluster::pool_cluster::PoolCluster;

/// Imports these pools with this configuration's kubeconfig.
pub(super) fn import(cluster: &dyn PoolCluster, config: &Value, pools: &Value) -> Output {
    let file = cluster.sandbox().root().join("pools.json");
    fs::write(&file, pools.to_string()).unwrap();
    cluster.ipamctl(config, &["import", "--replace", file.to_str().unwrap()])
}

fn defined(cluster: &dyn PoolCluster) -> Value {
    let defined = cluster.defined().into_iter();
    defined.collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn an_import_that_is_interrupted_anywhere_is_made_up_for_by_the_next() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let api_cluster = ApiCluster::default();
    let proxy = ApiProxy::start(&api_cluster.api);
    let cluster: &dyn PoolCluster = &api_cluster;
    let config = cluster.config("n1", &cluster.addresses(), &json!([{"name": "red"}]));
    let direct = cluster.as_administrator(&config);
    let proxied = api_cluster.behind(&proxy, &direct);
    let pools = |vlan: usize| {
        let subnet = |second: u8| format!("10.{second}.0.0/24");
        json!({"red": {"subnet": subnet(1), "vlan": vlan}, "blue": {"subnet": subnet(2), "vlan": vlan}})
    };
    let first = import(cluster, &direct, &pools(24));
    assert!(first.status.success(), "{first:?}");
    cluster.add("living", &config).result();

    heal(&proxy);
    let second = import(cluster, &proxied, &pools(23));
    assert!(second.status.success(), "{second:?}");
    let requests = heal(&proxy);
    let proxied = cluster.within("1s", &proxied);
    assert!(requests > 10);
    let (mut interrupted, mut refused_adds) = (0, 0);
    for number in 0..requests {
        let wanted = pools(if number % 2 == 0 { 24 } else { 23 });
        let before = defined(cluster);
        proxy.decide(last(number, Fate::AnswerLost));
        let output = import(cluster, &proxied, &wanted);
        heal(&proxy);
        let restores = api_cluster.objects("restores");
        let is_import = |restore: &Value| restore["metadata"]["name"] == "import";
        if !restores.iter().any(is_import) {
            cluster.add("c", &config).result();
            cluster.del("c", &config).nothing();
        } else {
            interrupted += 1;
            assert!(!output.status.success(), "{number}: {output:?}");
            let added = cluster.add("c", &config);
            if added.status.success() {
                // The restore that claims look for doesn't exist yet, so no pool was written.
                cluster.del("c", &config).nothing();
                assert_eq!(defined(cluster), before, "{number}");
            } else {
                added.refused(11, "pools are being imported, or an import was interrupted");
                refused_adds += 1;
            }
            let refused = import(cluster, &direct, &wanted);
            let hint = "kubectl delete restores.ipam-delegated.io/import";
            assert!(refused.stderr.contains(hint), "{refused:?}");
            api_cluster.delete("restores", "import");
        }
        let again = import(cluster, &direct, &wanted);
        assert!(again.status.success(), "{number}: {again:?}");
        cluster.add("c", &config).result();
        cluster.del("c", &config).nothing();
        assert_eq!(defined(cluster), wanted, "{number}");
    }
    assert!(
        interrupted > 3 && refused_adds > 3,
        "{interrupted}, {refused_adds}"
    );
    assert_eq!(cluster.reserved("red").len(), 1);
}
