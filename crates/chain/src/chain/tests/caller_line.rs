//! Tests of the caller's line in a chain's record.

use serde_json::value::RawValue;

use super::*;
use crate::record::{AttachmentRecord, records};

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
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
