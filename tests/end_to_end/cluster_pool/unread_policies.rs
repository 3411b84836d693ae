//! After its start, the API server may refuse a deletion for half a minute, because it hasn't found
//! the kind of its policy's parameters.

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, ProxiedRequest, needs};
use serde_json::json;

use super::api_cluster::ApiCluster;
use super::lost_answers::heal;
use crate::cluster::pool_cluster::PoolCluster;

#[test]
fn a_node_has_reconciled_while_the_mark_of_the_cluster_cant_be_deleted_and_an_add_deletes_it() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let proxy = ApiProxy::start(&cluster.api);
    let shared: &dyn PoolCluster = &cluster;
    shared.define("lan", &json!({"subnet": "10.55.0.0/29"}));
    let config = shared.config("n1", &shared.addresses(), &json!([{"name": "lan"}]));
    let config = cluster.behind(&proxy, &config);
    shared.add("before", &config).result();
    let begin = ["reconcile", "--begin", "n1"];
    let begun = shared.ipamctl(&shared.as_administrator(&config), &begin);
    assert!(begun.status.success(), "{begun:?}");

    proxy.decide(|request: &ProxiedRequest| {
        let is_decided = request.method == "DELETE" && request.path.ends_with("restores/cluster");
        let message = "ValidatingAdmissionPolicy 'restores.ipam-delegated.io' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'ipam-delegated.io/v1, Kind=Restore'";
        let body = json!({
            "kind": "Status", "status": "Failure", "reason": "Invalid", "code": 422,
            "message": message,
        });
        match is_decided {
            true => Fate::Refused(422, Vec::new(), body.to_string()),
            false => Fate::Answered,
        }
    });
    let impatient = shared.within("3s", &config);
    let output = shared.ipamctl(&impatient, &["reconcile"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        output.stderr.contains("nothing new is given yet"),
        "{output:?}"
    );
    let refused = shared.add("after", &impatient);
    refused.refused(11, "failed to configure policy");
    heal(&proxy);
    shared.add("after", &config).result();
    assert_eq!(cluster.objects("restores"), [json!(null); 0]);
}
