//! The kinds: what `kubectl` shows of them, and what their schemas refuse.

use harness::{KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, needs};

#[test]
fn the_kinds_are_explained() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut api = KubernetesApi::start().unwrap();
    api.install();
    let explained = api.kubectl(&["explain", "addresses.spec"]);
    assert!(explained.contains("The pool's name."), "{explained}");
    let snapshot = api.snapshot();
    api.restore(&snapshot);
}
