//! Tests of records that the chain's caller opens.

use std::fs;

use cni::LinkedPlugin;
use tempfile::TempDir;

use super::*;
use crate::call::Plugins;
use crate::chain::Chain;
use crate::record::{AttachmentRecord, RecordState, is_locked, record_of, records};
use crate::tests::{LinkedExample, attachment, config, names};

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn begin(folder: &Path) -> Result<OwnRecord, Error> {
    let environment = Environment::default().with("CNI_NETNS", "/run/netns/c");
    let plugins = names(&["bridge", "tuning"]);
    let (config, attachment) = (config(""), attachment());
    OwnRecord::begin(
        folder,
        &config,
        &attachment,
        &plugins,
        &environment,
        raw("1"),
    )
}

fn open(folder: &Path) -> OwnRecord {
    let opened = OwnRecord::open(folder, config("").name(), &attachment());
    opened.unwrap().unwrap()
}

fn read(folder: &Path) -> Option<AttachmentRecord> {
    let record = record_of(folder, config("").name(), &attachment()).unwrap();
    record.map(|record| record.content.unwrap())
}

#[test]
fn each_step_is_read_back_as_from_a_chains_record() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let record = begin(folder).unwrap();
    assert_eq!(read(folder).unwrap().state, RecordState::Adding);
    record
        .note_added(&[raw("{}"), raw(r#"{"ips":[]}"#)])
        .unwrap();
    drop(record);
    let added = read(folder).unwrap();
    assert_eq!(added.state, RecordState::Added);
    assert_eq!(
        (added.netns.as_str(), added.answer().unwrap().get()),
        ("/run/netns/c", r#"{"ips":[]}"#)
    );
    let record = open(folder);
    record.note_deleting();
    let deleting = read(folder).unwrap();
    assert_eq!(deleting.state, RecordState::Deleting);
    assert_eq!(deleting.caller_lines.last().unwrap().get(), "1");
    record.remove();
    assert!(read(folder).is_none());
    assert!(
        OwnRecord::open(folder, config("").name(), &attachment())
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_record_is_locked_as_long_as_it_is_open_and_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let record = begin(folder.path()).unwrap();
    let path = record.path.clone();
    assert!(is_locked(&path).unwrap());
    drop(record);
    assert!(!is_locked(&path).unwrap());
    let error = begin(folder.path()).err().unwrap();
    assert_eq!(error.code, code::ALREADY_ALLOCATED);
    assert!(read(folder.path()).is_some());
}

#[test]
fn a_folder_in_the_place_of_a_record_is_no_missing_record() {
    let folder = tempfile::tempdir().unwrap();
    let (network, attachment) = (config(""), attachment());
    let path = Records::new(folder.path(), network.name()).file(&attachment);
    fs::create_dir_all(path).unwrap();
    let opened = OwnRecord::open(folder.path(), network.name(), &attachment);
    assert_eq!(opened.err().unwrap().code, code::IO);
}

const LINKED: [&dyn LinkedPlugin; 1] = [&LinkedExample::named("p")];

fn environment(folder: &TempDir) -> Environment {
    Environment::default()
        .with("CNI_PATH", "/nowhere")
        .with("IPAM_DELEGATED_STATE_DIR", folder.path().join("records"))
}

fn chain<'a>(config: &'a NetworkConfig, environment: &'a Environment) -> Chain<'a> {
    let plugins = Plugins::in_cni_path(environment).unwrap();
    Chain::new(config, environment, plugins.and_linked(&LINKED)).unwrap()
}

fn record(folder: &TempDir) -> Option<AttachmentRecord> {
    let listed = records(&folder.path().join("records"), config("").name()).unwrap();
    listed
        .into_iter()
        .next()
        .map(|record| record.content.unwrap())
}

#[test]
fn the_callers_lines_are_in_the_record_until_the_attachment_is_released() {
    let folder = tempfile::tempdir().unwrap();
    let (config, environment) = (
        config(r#","ipam":{"delegates":["p"]}"#),
        environment(&folder),
    );
    let chain = chain(&config, &environment).with_caller_line(raw(r#"{"pool": "a"}"#));
    chain.add(&attachment()).unwrap();
    assert_eq!(
        record(&folder).unwrap().caller_lines.last().unwrap().get(),
        r#"{"pool": "a"}"#
    );
    chain.del(&attachment()).unwrap();
    assert!(record(&folder).is_none());
}

#[test]
fn an_add_with_a_callers_line_fails_if_it_can_not_be_recorded() {
    let folder = tempfile::tempdir().unwrap();
    // The network's folder can't be made.
    fs::create_dir(folder.path().join("records")).unwrap();
    fs::write(folder.path().join("records/n"), "").unwrap();
    let (config, environment) = (
        config(r#","ipam":{"delegates":["p"]}"#),
        environment(&folder),
    );
    chain(&config, &environment).add(&attachment()).unwrap();
    let chain = chain(&config, &environment).with_caller_line(raw("1"));
    let error = chain.add(&attachment()).unwrap_err();
    assert_eq!(error.code, code::IO, "{error}");
}
