//! Tests of records that the chain's caller opens.

use std::fs;

use super::*;
use crate::record::attachment_record::{AttachmentRecord, RecordState};
use crate::record::listing::{is_locked, record_of};
use crate::tests::{attachment, config, names};

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
