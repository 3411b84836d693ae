//! `release`: with the chain of the record or of the conflist, or only the file.

use std::fs;

use harness::{Sandbox, assert_has, needs};
use serde_json::json;

use super::{THERE, add, id, json_of, with};

#[test]
fn an_attachment_is_released_by_its_address_and_by_the_beginning_of_its_containers_id() {
    let (sandbox, config) = with(&[]);
    for words in [
        &["10.77.0.2"][..],
        &["a1"],
        &["10.77.0.4", "--network", "testnet"],
    ] {
        add(&sandbox, &config, &id("a1"), THERE);
        let output = sandbox.ipamctl(&["release"]).args(words).run();
        // It prints the full ID.
        output
            .ends(0)
            .prints([&id("a1"), "the chain of its record"]);
        sandbox.holds_nothing("testnet");
    }
}

#[test]
fn every_delegate_of_the_record_is_asked_even_without_a_conflist() {
    let sandbox = Sandbox::default().with_script(
        "ipam-ds-noting",
        r#"[ "$CNI_COMMAND" = DEL ] && echo "$CNI_CONTAINERID $CNI_ARGS" > "$CNI_PATH/noted"
cat > /dev/null; echo '{"cniVersion":"1.0.0","ips":[],"pools":[{"subnet":"10.5.0.0/24"}]}'"#,
    );
    let delegates = ["ipam-ds-noting", "ipam-da-host-local"];
    let config = sandbox.config("1.0.0", &delegates, &json!({}));
    add(&sandbox, &config, &id("a1"), THERE);
    let output = sandbox.ipamctl(&["release", "a1"]).run();
    output.ends(0);
    let noted = fs::read_to_string(sandbox.plugins().join("noted")).unwrap();
    assert_has(&noted, [&id("a1"), "K8S_POD_NAME=web-1"]);
    assert_eq!(sandbox.reserved("testnet"), [""; 0]);
}

#[test]
fn a_reservation_of_the_reference_host_local_is_shown_and_released_by_its_own_del() {
    needs!("host-local");
    let sandbox = Sandbox::default().with_reference("host-local");
    let ipam =
        json!({"type": "host-local", "dataDir": sandbox.data_dir(), "subnet": "10.2.0.0/28"});
    let config = json!({"cniVersion": "1.0.0", "name": "plain", "type": "bridge", "ipam": ipam});
    sandbox.write_conflist("plain.conflist", &config);
    sandbox
        .call("host-local", "ADD", &config)
        .container(&id("b1"))
        .run()
        .result();
    let pools = json_of(&sandbox, &["pools"]);
    assert_eq!(
        (&pools[0]["size"], &pools[0]["reserved"]),
        (&json!(13), &json!(1))
    );
    let output = sandbox.ipamctl(&["release", "b1"]).run();
    output.ends(0);
    assert_eq!(sandbox.reserved("plain"), [""; 0]);
    assert!(!sandbox.state_dir().join("plain").exists());
}
