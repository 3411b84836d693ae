//! What `ipam-delegated` remembers of an attachment: which delegates ran, and what
//! each found.
//!
//! A record is never needed: without one, a DEL runs what today's configuration
//! names. It holds what came with the ADD, so it is readable by its owner alone.

use cni::{Attachment, DelegateName, IpamResult, NetworkConfig, NetworkName};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of the format. Records of another are foreign.
const FORMAT: u32 = 1;

/// What is remembered of one attachment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Record {
    /// [`FORMAT`].
    format: u32,
    network: String,
    container_id: String,
    ifname: String,
    /// How far it has got.
    pub(crate) state: State,
    /// What the processes of its delegates carry in their environment.
    pub(crate) call: String,
    /// The trace ID of the ADD.
    pub(crate) trace: String,
    /// The boot that the ADD was in, if that could be told.
    pub(crate) boot: Option<String>,
    /// `CNI_NETNS` of the ADD.
    pub(crate) netns: String,
    /// `CNI_ARGS` of the ADD.
    pub(crate) args: String,
    /// The delegates, in order.
    delegates: Vec<String>,
    /// What each of them has handed on, as far as they have run.
    results: Vec<Box<RawValue>>,
    /// The configuration of the ADD, unless it is too large to be kept.
    config: Option<Box<RawValue>>,
}

/// How far an attachment has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// ADD has begun.
    Adding,
    /// ADD has succeeded.
    Added,
    /// DEL has begun.
    Deleting,
}

/// What an ADD is called with, as far as it is remembered.
pub(crate) struct Circumstances {
    pub(crate) call: String,
    pub(crate) trace: String,
    pub(crate) boot: Option<String>,
    pub(crate) netns: String,
    pub(crate) args: String,
}

impl Record {
    /// How large a configuration or a result may be to be kept, in bytes.
    const MOST: usize = 256 << 10;

    /// The record of an ADD that is about to begin.
    pub(crate) fn of_intent(
        config: &NetworkConfig,
        attachment: &Attachment,
        delegates: &[DelegateName],
        circumstances: Circumstances,
    ) -> Self {
        let Circumstances {
            call,
            trace,
            boot,
            netns,
            args,
        } = circumstances;
        let config_is_kept = config.as_bytes().len() <= Self::MOST;
        Self {
            format: FORMAT,
            network: config.name().to_string(),
            container_id: attachment.container_id.to_string(),
            ifname: attachment.ifname.to_string(),
            state: State::Adding,
            call,
            trace,
            boot,
            netns,
            args,
            delegates: delegates.iter().map(ToString::to_string).collect(),
            results: Vec::new(),
            config: config_is_kept.then(|| config.to_raw()),
        }
    }

    /// Notes what the next delegate has handed on. With the last one's, the
    /// attachment is added.
    pub(crate) fn note(&mut self, result: &RawValue) {
        let kept = if result.get().len() <= Self::MOST {
            result.to_owned()
        } else {
            RawValue::NULL.to_owned()
        };
        self.results.push(kept);
        if self.results.len() == self.delegates.len() {
            self.state = State::Added;
        }
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// What is wrong with it: it is torn, of another format, or of another
    /// attachment.
    pub(crate) fn parse(
        json: &[u8],
        network: &NetworkName,
        attachment: &Attachment,
    ) -> Result<Self, String> {
        let it: Self = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        let of = (
            it.network.as_str(),
            it.container_id.as_str(),
            it.ifname.as_str(),
        );
        let Attachment {
            container_id,
            ifname,
        } = attachment;
        if it.format != FORMAT {
            return Err(format!("its format is {}, not {FORMAT}", it.format));
        }
        if of != (network.as_str(), container_id.as_str(), ifname.as_str()) {
            return Err(format!("it is of {} {} on network {}", of.1, of.2, of.0));
        }
        if it.results.len() > it.delegates.len() {
            return Err("it has more results than delegates".to_owned());
        }
        if let Some(name) = it
            .delegates
            .iter()
            .find(|name| name.parse::<DelegateName>().is_err())
        {
            return Err(format!("{name:?} is no delegate's name"));
        }
        // No delegate could be started with them.
        let variables = [&it.call, &it.netns, &it.args];
        if let Some(text) = variables.into_iter().find(|text| text.contains('\0')) {
            return Err(format!("{text:?} can't have been a variable's value"));
        }
        Ok(it)
    }

    /// As it is kept.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a record is JSON")
    }

    /// The delegates that ran or may have run, in order, and what each handed on,
    /// if that is known.
    pub(crate) fn delegates(&self) -> Vec<Ran> {
        let names = self.delegates.iter().filter_map(|name| name.parse().ok());
        let mut earlier: Option<&RawValue> = None;
        names
            .enumerate()
            .map(|(i, name)| {
                let handed_on = self
                    .results
                    .get(i)
                    .map(|raw| &**raw)
                    .filter(|raw| raw.get() != "null");
                let is_last = i + 1 == self.delegates.len();
                let ran = Ran {
                    name,
                    holds_nothing: !is_last
                        && handed_on.is_some_and(|raw| added_none(earlier, raw)),
                    handed_on: handed_on.filter(|_| !is_last).map(ToOwned::to_owned),
                };
                earlier = handed_on;
                ran
            })
            .collect()
    }

    /// The chain's answer, if it has got that far.
    pub(crate) fn answer(&self) -> Option<&RawValue> {
        let last = self.results.last().filter(|raw| raw.get() != "null")?;
        (self.results.len() == self.delegates.len()).then_some(last)
    }

    /// Whether it has the configuration of the ADD.
    pub(crate) fn has_config(&self) -> bool {
        self.config.is_some()
    }

    /// The configuration of the ADD.
    pub(crate) fn config(&self) -> Option<NetworkConfig> {
        let json = self.config.as_ref()?.get().as_bytes().to_vec();
        NetworkConfig::parse(json).ok()
    }
}

/// A delegate that ran.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) name: DelegateName,
    /// What it handed on, if others came after it.
    pub(crate) handed_on: Option<Box<RawValue>>,
    /// Whether it gave no address: a selector.
    pub(crate) holds_nothing: bool,
}

/// Whether a result has no address that the earlier one doesn't have.
fn added_none(earlier: Option<&RawValue>, result: &RawValue) -> bool {
    let ips = |raw: &RawValue| -> Option<Vec<_>> {
        let result = IpamResult::read("result", raw).ok()?;
        Some(result.ips.iter().map(cni::IpConfig::ip).collect())
    };
    let earlier = earlier.and_then(ips).unwrap_or_default();
    ips(result).is_some_and(|ips| ips.iter().all(|ip| earlier.contains(ip)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::attachment;

    fn record(results: &[&str]) -> Record {
        let json = r#"{"cniVersion":"1.0.0","name":"net","ipam":{"x":1.50}}"#;
        let config = NetworkConfig::parse(json.as_bytes().to_vec()).unwrap();
        let delegates = ["s", "a", "b"].map(|name| name.parse().unwrap());
        let circumstances = Circumstances {
            call: "id".into(),
            trace: "t".into(),
            boot: Some("b".into()),
            netns: "/run/netns/c1".into(),
            args: "A=1".into(),
        };
        let mut record = Record::of_intent(&config, &attachment(), &delegates, circumstances);
        for result in results {
            record.note(&RawValue::from_string((*result).to_owned()).unwrap());
        }
        record
    }

    const RESULTS: [&str; 3] = [
        r#"{"ips":[],"pools":[1]}"#,
        r#"{"ips":[{"address":"10.0.0.2/24"}]}"#,
        r#"{"ips":[{"address":"10.0.0.2/24"},{"address":"fd00::2/64"}]}"#,
    ];

    fn parse(json: &[u8]) -> Result<Record, String> {
        Record::parse(json, &"net".parse().unwrap(), &attachment())
    }

    #[test]
    fn a_record_reads_back_as_it_was() {
        for n in 0..=3 {
            let record = record(&RESULTS[..n]);
            let back = parse(&record.to_json()).unwrap();
            assert_eq!(back.to_json(), record.to_json());
            assert_eq!(
                back.state,
                if n == 3 { State::Added } else { State::Adding }
            );
            assert_eq!(
                back.config().unwrap().as_bytes(),
                br#"{"cniVersion":"1.0.0","name":"net","ipam":{"x":1.50}}"#
            );
            assert_eq!(
                back.answer().map(RawValue::get),
                (n == 3).then_some(RESULTS[2])
            );
        }
    }

    #[test]
    fn a_selector_is_told_from_an_allocator_by_what_it_gave() {
        let of = |n: usize| -> Vec<(bool, bool)> {
            let ran = record(&RESULTS[..n]).delegates();
            ran.iter()
                .map(|r| (r.holds_nothing, r.handed_on.is_some()))
                .collect()
        };
        assert_eq!(of(3), [(true, true), (false, true), (false, false)]);
        // Of what hasn't answered, nothing is known.
        assert_eq!(of(1), [(true, true), (false, false), (false, false)]);
        assert_eq!(of(0), [(false, false); 3]);
    }

    #[test]
    fn torn_and_foreign_records_are_none() {
        let whole = record(&RESULTS).to_json();
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_err(), "cut off at {end}");
        }
        let text = String::from_utf8(whole).unwrap();
        for (from, to) in [
            (r#""format":1"#, r#""format":2"#),
            (r#""containerId":"c1""#, r#""containerId":"c2""#),
            (r#""network":"net""#, r#""network":"other""#),
            (r#"["s","a","b"]"#, r#"["s","a"]"#),
            (r#"["s","a","b"]"#, r#"["s","../a","b"]"#),
            (r#""state":"added""#, r#""state":"unknown""#),
            (r#"{"format""#, r#"{"more":1,"format""#),
            (r#""args":"A=1""#, r#""args":"A=1\u0000""#),
            (r#""call":"id""#, r#""call":"i\u0000""#),
            (r#""netns":"/run"#, r#""netns":"\u0000"#),
        ] {
            assert!(text.contains(from), "{from} in {text}");
            assert!(
                parse(text.replacen(from, to, 1).as_bytes()).is_err(),
                "{to}"
            );
        }
    }

    #[test]
    fn what_is_very_large_is_not_kept() {
        let large = format!(r#"{{"x":"{}"}}"#, "y".repeat(Record::MOST));
        let record = record(&[RESULTS[0], &large, RESULTS[2]]);
        assert!(record.to_json().len() < 2_000);
        assert!(record.delegates()[1].handed_on.is_none());
        assert!(!record.delegates()[1].holds_nothing);
    }
}
