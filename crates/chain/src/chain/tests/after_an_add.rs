//! Tests of commands that use the record of an ADD.

use super::*;
use crate::record::{RecordState, record_of};
use crate::tests::until_free;

/// What delegates get of a CHECK after an ADD with these keys.
fn log_of_check(site: &Site, keys: &str) -> Vec<String> {
    site.add(keys).unwrap();
    site.delegate.log();
    let keys = format!(r#","prevResult":{{"ips":[]}}{keys}"#);
    site.with(&keys, |chain| chain.check(&attachment()))
        .unwrap();
    site.delegate.log()
}

#[test]
fn check_gets_the_pools_that_a_selector_has_selected_on_add() {
    let site = Site::new(|command, _| match command {
        Command::Add => Ok(Some(r#"{"ips":[],"pools":[{"name":"x"}]}"#)),
        _ => Ok(None),
    });
    let log = log_of_check(&site, r#","ipam":{"delegates":["p","p"]}"#);
    assert!(!log[0].contains("pools"), "{log:?}");
    assert!(log[1].contains(r#""pools":[{"name":"x"}]"#), "{log:?}");
}

#[test]
fn check_gets_the_pools_of_each_place_of_a_selector() {
    let mut site = Site::new(|command, config| match command {
        Command::Add => Ok(Some(match config.raw_prev_result().map(|raw| raw.get()) {
            None => r#"{"ips":[],"pools":[{"name":"x"}]}"#,
            Some(prev_result) if prev_result.contains(r#""x""#) => {
                r#"{"ips":[],"pools":[{"name":"y"}]}"#
            }
            Some(_) => RESULT,
        })),
        _ => Ok(None),
    });
    site.delegate.name = "ipam-ds-p";
    let keys = r#","ipam":{"delegates":["ipam-ds-p","ipam-ds-p","ipam-ds-p"]}"#;
    let log = log_of_check(&site, keys);
    assert!(log[1].contains(r#""pools":[{"name":"x"}]"#), "{log:?}");
    assert!(log[2].contains(r#""pools":[{"name":"y"}]"#), "{log:?}");
}

#[test]
fn a_delegate_that_holds_nothing_by_its_name_keeps_no_record_if_its_del_fails() {
    for name in ["ipam-df-p", "ipam-ds-p", "ipam-dc-p", "p"] {
        let mut site = Site::new(FAILS);
        site.delegate.name = name;
        let keys = format!(r#","ipam":{{"delegates":["{name}"]}}"#);
        site.add(&keys).unwrap();
        let deleted = site.del(&keys);
        assert_eq!(deleted.is_err(), name == "p", "{name}");
        assert_eq!(site.is_recorded(), name == "p", "{name}");
    }
}

#[test]
fn an_add_that_undoes_an_earlier_one_has_a_record_of_its_own() {
    let site = Site::new(|_, _| Err(code::IO));
    site.add("").unwrap_err();
    assert!(site.is_recorded());
    site.delegate.log();
    site.delegate.answers(WORKS);
    site.add("").unwrap();
    assert_eq!(site.delegate.log(), ["DEL  -", "ADD  -"]);
    let records = site.folder.path().join("records");
    let record = record_of(&records, config("").name(), &attachment()).unwrap();
    assert_eq!(record.unwrap().content.unwrap().state, RecordState::Added);
}

#[test]
fn a_failed_add_stays_recorded_if_a_delegate_before_the_failed_one_is_not_undone() {
    let site = Site::new(FAILS);
    let keys = r#","ipam":{"delegates":["p","missing"]}"#;
    let error = site.add(keys).unwrap_err();
    assert_eq!(error.code, code::DELEGATE_NOT_FOUND);
    assert!(site.is_recorded());
}

#[test]
fn a_release_without_its_runtime_has_the_args_of_the_add() {
    let mut site = Site::new(FAILS);
    site.environment = site.environment.with("CNI_ARGS", "A=1");
    site.add("").unwrap();
    site.delegate.log();
    site.environment = site.environment.with("CNI_ARGS", "B=2");
    site.gc().unwrap_err();
    assert_eq!(site.delegate.log()[0], format!("DEL A=1 {RESULT}"));
    site.release(None).unwrap_err();
    assert_eq!(site.delegate.log()[0], format!("DEL A=1 {RESULT}"));
}

#[test]
fn a_release_may_wait_for_a_call_to_end() {
    let site = Site::new(WORKS);
    site.add("").unwrap();
    let file = fs::File::open(site.network().join("c1:eth0.json")).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(file);
        });
        let released = until_free(|| {
            site.with("", |chain| {
                chain.release(&attachment(), WhenBusy::Wait, LONG, |_| None)
            })
        });
        assert_eq!(released.unwrap(), Released::Done);
    });
}

#[test]
fn a_record_that_can_not_be_read_is_not_released() {
    let site = Site::new(WORKS);
    fs::create_dir(site.folder.path().join("records")).unwrap();
    symlink("n", site.network()).unwrap();
    let Released::Refused(reason) = site.release(None).unwrap() else {
        panic!("it is released");
    };
    assert!(reason.contains("record /"), "{reason}");
    assert!(site.delegate.log().is_empty());
}

#[test]
fn what_another_plugin_of_the_network_has_made_is_neither_answered_nor_recorded_nor_undone() {
    let site = Site::new(FAILS);
    let networks =
        r#","prevResult":{"interfaces":[{"name":"veth1"}],"ips":[{"address":"10.0.0.9/24"}]}"#;
    site.add(networks).unwrap();
    assert_eq!(site.delegate.log(), ["ADD  -"]);
    let records = site.folder.path().join("records");
    let record = record_of(&records, config("").name(), &attachment()).unwrap();
    let content = record.unwrap().content.unwrap();
    let keys = [r#""prevResult""#, "10.0.0.9"];
    assert!(
        !keys
            .iter()
            .any(|key| content.raw_config().get().contains(key))
    );
    // An answer that nobody reads.
    site.delegate.answers(WORKS);
    site.del("").unwrap();
    site.delegate.log();
    let nobody = |_: &JsonOutput| Err(std::io::ErrorKind::BrokenPipe.into());
    site.with(networks, |chain| chain.add_and(&attachment(), nobody))
        .unwrap_err();
    assert_eq!(site.delegate.log(), ["ADD  -", &format!("DEL  {RESULT}")]);
}

#[test]
fn a_recorded_prev_result_of_the_network_is_not_the_chains() {
    let site = Site::new(|_, _| Err(code::IO));
    site.add("").unwrap_err();
    site.delegate.log();
    let file = site.network().join("c1:eth0.json");
    let recorded = fs::read_to_string(&file).unwrap();
    let older = r#""config":{"prevResult":{"ips":[{"address":"10.0.0.9/24"}]},"#;
    fs::write(&file, recorded.replacen(r#""config":{"#, older, 1)).unwrap();
    site.del("").unwrap_err();
    assert_eq!(site.delegate.log(), ["DEL  -"]);
}

#[test]
fn gc_keeps_what_is_alive_and_hands_it_on_as_valid() {
    let mut site = Site::new(|command, config| match command {
        Command::Gc => {
            let valid = config.valid_attachments().unwrap();
            (valid == [attachment()]).then_some(None).ok_or(code::IO)
        }
        _ => WORKS(command, config),
    });
    // A namespace that isn't the host's own.
    let there = "/proc/self/ns/uts";
    site.environment = site.environment.with("CNI_NETNS", there);
    site.add("").unwrap();
    site.gc().unwrap();
    assert!(site.is_recorded());
    // Its DEL has begun.
    site.delegate.answers(FAILS);
    site.del("").unwrap_err();
    site.delegate.answers(WORKS);
    site.gc().unwrap();
    assert!(!site.is_recorded());
}

#[test]
fn gc_keeps_what_it_can_not_judge_and_undoes_what_its_namespace_does_not_prove() {
    let mut site = Site::new(WORKS);
    let path = site.folder.path().join("netns");
    let reaches = |path: &std::path::Path| {
        let _ = fs::remove_file(path);
        symlink("/proc/self/ns/uts", path).unwrap();
    };
    reaches(&path);
    site.environment = site.environment.with("CNI_NETNS", &path);
    site.add("").unwrap();
    // A link that leads nowhere now, as into a folder of another mount namespace.
    fs::remove_file(&path).unwrap();
    symlink("/nowhere/netns", &path).unwrap();
    site.gc().unwrap();
    assert!(site.is_recorded());
    // A record that can't be used.
    reaches(&path);
    let file = site.network().join("c1:eth0.json");
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, "damaged\n").unwrap();
    site.gc().unwrap();
    assert!(site.is_recorded());
    fs::write(&file, whole).unwrap();
    site.del("").unwrap();
    // The host's own namespace.
    site.environment = site.environment.with("CNI_NETNS", "/proc/self/ns/net");
    site.add("").unwrap();
    site.gc().unwrap();
    assert!(!site.is_recorded());
}

#[test]
fn a_record_whose_first_line_was_cut_off_is_damaged_to_a_list_as_to_a_call() {
    let site = Site::new(WORKS);
    site.add("").unwrap();
    site.delegate.log();
    let records = site.folder.path().join("records");
    fs::write(site.network().join("c1:eth0.json"), r#"{"adding""#).unwrap();
    let listed = record_of(&records, config("").name(), &attachment()).unwrap();
    let reason = listed.unwrap().content.unwrap_err();
    assert_eq!(reason, "its first line was not written");
    site.gc().unwrap();
    assert_eq!(commands(&site), ["GC"]);
    site.del("").unwrap();
    assert!(!site.is_recorded());
}

#[test]
fn a_refusal_names_the_plugin_that_has_recorded_the_attachment() {
    let site = Site::new(WORKS);
    site.add(r#","type":"bridge","runtimeConfig":{"x":1}"#)
        .unwrap();
    let refusal = |keys: &str| {
        let error = site.add(keys).unwrap_err();
        assert_eq!(error.code, code::ALREADY_ALLOCATED);
        error.msg
    };
    assert!(refusal(r#","type":"bridge""#).ends_with("another ADD needs a DEL first"));
    let other = refusal(r#","type":"egress""#);
    let parts = [
        r#""bridge" of the conflist"#,
        r#""egress" has"#,
        "stateDir",
        "dataDir",
    ];
    assert!(parts.iter().all(|part| other.contains(part)), "{other}");
    let alike = refusal(r#","type":"bridge","vlan":7"#);
    let parts = [r#"a plugin "bridge""#, "stateDir", "needs a DEL first"];
    assert!(parts.iter().all(|part| alike.contains(part)), "{alike}");
}
