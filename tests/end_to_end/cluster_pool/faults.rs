//! Tests the faults of an API server that this folder's tests use.

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, needs};

use super::objects::{address, allowed, path, refused};

#[test]
fn an_api_server_is_stopped_set_back_and_unheard() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut api = KubernetesApi::start().unwrap();
    api.install();
    let [first, second] = ["10.0.0.1", "10.0.0.2"].map(|ip| address(ip, "worker-1"));
    let exists = |api: &KubernetesApi, object| {
        let words = ["get", &path(object), "--ignore-not-found", "-o", "name"];
        !api.kubectl(&words).is_empty()
    };

    api.apply(&first);
    let snapshot = api.snapshot();
    api.apply(&second);
    api.kubectl(&["delete", &path(&first)]);
    api.restore(&snapshot);
    assert!(exists(&api, &first) && !exists(&api, &second));

    let words = ["get", "ipaddr", "--request-timeout=2s"];
    api.pause_api_server();
    assert!(!api.try_kubectl(&words).status.success());
    api.continue_api_server();
    allowed(&api.try_kubectl(&words));
    api.stop_api_server();
    refused(&api.try_kubectl(&words), "refused");
    api.start_api_server();
    allowed(&api.try_kubectl(&words));

    let proxy = ApiProxy::start(&api);
    let node = api.kubeconfig_of_node("worker-1");
    let behind = api.kubeconfig_for_server(&node, "proxied", &proxy.url());
    proxy.decide(|request| match request.method.as_str() {
        "POST" => Fate::AnswerLost,
        _ => Fate::Answered,
    });
    assert!(!api.try_create(&behind, &second).status.success());
    assert!(exists(&api, &second));
    let requests = proxy.take_requests();
    let posted = requests.iter().filter(|request| request.method == "POST");
    for request in posted {
        let path = request.path.split('?').next().unwrap();
        assert_eq!(path, "/apis/ipam-delegated.io/v1/addresses");
        assert!(!request.body.is_empty());
    }
    proxy.decide(|_| Fate::Refused(429, vec!["Retry-After: 1".to_owned()], "{}".to_owned()));
    assert!(!api.kubectl_with(&behind, &words).status.success());
    proxy.decide(|_| Fate::Answered);
    allowed(&api.kubectl_with(&behind, &["delete", &path(&second)]));
    assert!(!exists(&api, &second));
}
