//! `ipamctl import --from-whereabouts` is interrupted: DEL releases what was claimed until then.

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, ProxiedRequest, needs};

use super::{DELEGATES, cluster};
use crate::cluster_pool::lost_answers::heal;

fn is_write(request: &ProxiedRequest) -> bool {
    request.method != "GET"
}

/// Loses the answer to the write with this number, from 0, and all later requests.
fn last_write(number: usize) -> impl FnMut(&ProxiedRequest) -> Fate + Send + 'static {
    let mut left = Some(number);
    move |request| match (left, is_write(request)) {
        (None, _) => Fate::RequestLost,
        (Some(_), false) => Fate::Answered,
        (Some(number), true) => {
            left = number.checked_sub(1);
            left.map_or(Fate::AnswerLost, |_| Fate::Answered)
        }
    }
}

#[test]
fn what_an_interrupted_import_has_claimed_is_released_by_the_del_of_its_pod() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = cluster();
    let proxy = ApiProxy::start(&cluster.api);
    let kubeconfig = proxy.kubeconfig_like(&cluster.api, &cluster.api.kubeconfig());
    let import = || cluster.administer_as(&kubeconfig, &["import", "--from-whereabouts"]);
    // The node has an index of its addresses.
    let n1 = cluster.config("n1", &DELEGATES, "lan");
    cluster.call("ADD", "c-own", &n1).result();
    let of_web = || {
        let mut addresses = cluster.addresses();
        addresses.retain(|name| name == "lan.10.40.0.7" || name.starts_with("lan6."));
        addresses
    };
    let end_web = || {
        let call = cluster.sandbox.call("ipam-delegated", "DEL", &n1);
        let call = call.container("c-web").env("CNI_IFNAME", "net1");
        call.run().nothing();
        assert!(of_web().is_empty(), "{:?}", of_web());
    };
    proxy.decide(|_| Fate::Answered);
    import();
    let writes = proxy
        .take_requests()
        .iter()
        .filter(|request| is_write(request))
        .count();
    assert_eq!(of_web().len(), 2);
    end_web();
    let mut interrupted = 0;
    for number in 0..writes {
        proxy.decide(last_write(number));
        let output = import();
        heal(&proxy);
        println!("{number}: {output:?}");
        interrupted += of_web().len();
        cluster.call("DEL", "c-other", &n1).nothing();
        end_web();
    }
    assert!(interrupted > writes, "{interrupted} of {writes}");
    import();
    let registration = &cluster.api.get("ipamnodes.ipam-delegated.io", &["n1"])[0];
    let annotations = registration["metadata"]["annotations"].to_string();
    assert!(!annotations.contains("taken-over"), "{annotations}");
    end_web();
}
