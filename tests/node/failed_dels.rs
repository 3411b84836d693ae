//! A DEL that has failed since an engine was away: podman never repeats it, containerd and CRI-O often
//! don't. `ipamctl gc` does.

use std::fs;

use harness::{
    BUSYBOX, ContainerRuntime, KUBERNETES_PROGRAMS, PodSandboxes, Podman, Sandbox, needs,
};
use serde_json::{Value, json};

/// The allocator, which can't be asked while the file `away` exists beside the folder of this
/// sandbox's plugins.
fn with_engine(sandbox: &Sandbox) {
    let away = sandbox.root().join("away");
    let script = format!(
        "#!/bin/sh\n[ ! -e {} ] || {{ echo '{{\"code\":11,\"msg\":\"the engine is away\"}}'; exit 1; }}\n\
         exec \"${{0%/*}}/ipam-da-host-local\"\n",
        away.display()
    );
    sandbox.write_executable("engine", &script);
}

const DELEGATES: [&str; 2] = ["ipam-ds-rules", "engine"];

fn rules() -> Value {
    json!([{"pools": ["web"]}])
}

/// Stops the only container while the engine is away, lets the engine come back, and expects that
/// only `ipamctl gc` releases the address.
fn stop_while_the_engine_is_away(sandbox: &Sandbox, stop: impl FnOnce()) {
    let away = sandbox.root().join("away");
    assert_eq!(sandbox.reserved("pools").len(), 1);
    fs::write(&away, "").unwrap();
    stop();
    fs::remove_file(&away).unwrap();
    assert_eq!(sandbox.reserved("pools").len(), 1, "its DEL has failed");
    let records = sandbox.records("testnet");
    assert_eq!(records.len(), 1);
    let record = sandbox.state_dir().join("testnet").join(&records[0]);
    assert!(fs::read_to_string(record).unwrap().contains("deleting"));

    let gc = sandbox.ipamctl(&["gc"]).run();
    gc.ends(0);
    assert!(sandbox.reserved("pools").is_empty(), "{gc:?}");
    assert!(sandbox.records("testnet").is_empty(), "{gc:?}");
}

#[test]
fn podman() {
    let Some(podman) = Podman::new(&rules()) else {
        return;
    };
    let sandbox = &podman.sandbox;
    with_engine(sandbox);
    let conflist = sandbox.conf_dir().join("testnet.conflist");
    let mut list: Value = serde_json::from_slice(&fs::read(&conflist).unwrap()).unwrap();
    list["plugins"][0]["ipam"]["delegates"] = json!(DELEGATES);
    fs::write(&conflist, list.to_string()).unwrap();
    podman.start("web");
    stop_while_the_engine_is_away(sandbox, || {
        let remove = ["rm", "--force", "--time=0", "web"];
        podman.command(&remove).output().unwrap();
    });
}

/// Runs a pod sandbox with a runtime of Kubernetes.
fn of_kubernetes(runtime: ContainerRuntime) {
    needs!("root", KUBERNETES_PROGRAMS, BUSYBOX);
    for program in runtime.needs() {
        needs!(program);
    }
    let sandbox = Sandbox::default();
    with_engine(&sandbox);
    let pods = PodSandboxes::new(runtime, sandbox, &rules(), &DELEGATES);
    let Some(pods) = pods else { return };
    let id = pods.start("web");
    stop_while_the_engine_is_away(&pods.sandbox, || {
        pods.stop(&id);
    });
    pods.remove(&id);
}

#[test]
fn containerd_2_3() {
    of_kubernetes(ContainerRuntime::Containerd);
}

#[test]
fn crio() {
    of_kubernetes(ContainerRuntime::Crio);
}
