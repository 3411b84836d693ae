//! Fuzz target of results: a delegate's stdout, and `prevResult`.

use std::net::IpAddr;

use bolero::TypeGenerator;
use cni::{IpamResult, JsonOutput, SpecVersion, code};
use fuzz::{Document, check};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::seeds;

/// A result, and the version that it is written in.
#[derive(Clone, Debug, TypeGenerator)]
struct Input {
    result: Document,
    version: u8,
}

impl Input {
    fn version(&self) -> SpecVersion {
        SpecVersion::ALL[usize::from(self.version) % SpecVersion::ALL.len()]
    }
}

#[test]
fn what_is_printed_is_an_object_or_refused() {
    check!(Document, |document| {
        let bytes = document.of(&seeds::results());
        let is_object =
            serde_json::from_slice::<Value>(&bytes).is_ok_and(|value| value.is_object());
        match JsonOutput::try_from(bytes.clone()) {
            Ok(printed) => {
                assert_eq!(bytes.trim_ascii(), printed.json().get().as_bytes());
                assert!(printed.json().get().starts_with('{'));
                assert_eq!(printed.into_bytes(), bytes);
            }
            Err(reason) => assert!(!is_object && !reason.is_empty(), "{reason}"),
        }
    });
}

#[test]
fn a_result_is_written_in_any_version_and_reads_back_the_same() {
    check!(Input, |input| {
        let bytes = input.result.of(&seeds::results());
        let Ok(raw) = serde_json::from_slice::<Box<RawValue>>(&bytes) else {
            return;
        };
        let result = match IpamResult::read("prevResult", &raw) {
            Ok(result) => result,
            Err(error) => {
                assert_eq!(error.code, code::INVALID_CONFIG);
                assert!(error.msg.starts_with("prevResult"), "{error}");
                return;
            }
        };
        let written = result.to_raw(input.version());
        let again = IpamResult::read("again", &written).unwrap();
        assert_eq!(ips(&again), ips(&result));
        assert_eq!(again.routes.len(), result.routes.len());
        assert_eq!(again.to_raw(input.version()).get(), written.get());
        let Ok(value) = serde_json::from_str::<Value>(written.get()) else {
            return;
        };
        assert_eq!(value["cniVersion"], input.version().as_str());
        for ip in value["ips"].as_array().unwrap() {
            let has_version = input.version() < SpecVersion::V1_0_0;
            assert_eq!(ip.get("version").is_some(), has_version, "{ip}");
        }
    });
}

fn ips(result: &IpamResult) -> Vec<IpAddr> {
    result.ips.iter().map(cni::IpConfig::ip).collect()
}
