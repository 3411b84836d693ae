//! Record of an attachment: the delegates that ran, their results, and how far ADD or DEL has
//! got.
//!
//! A record is a list of events, one JSON object a line. It is never required: without
//! one, DEL runs the delegates of today's configuration. It holds the configuration and
//! the variables of the ADD, so only its owner may read it.

use std::time::SystemTime;

use cni::{Attachment, DelegateName, IpamResult, NetworkConfig, NetworkName};
use serde_json::value::RawValue;
use state_files::whole_lines;

use crate::call_id::CallId;
use crate::record::line::{FORMAT, Intent, Line};

/// The record of an attachment.
#[derive(Clone, Debug)]
pub struct AttachmentRecord {
    /// Progress of the attachment.
    pub state: RecordState,
    /// Start of the ADD.
    pub added: SystemTime,
    /// Start of the last DEL.
    pub deleting: Option<SystemTime>,
    /// Trace ID of the ADD.
    pub trace: String,
    /// ID of the boot of the ADD, if it is known.
    pub boot: Option<String>,
    /// `CNI_NETNS` of the ADD.
    pub netns: String,
    /// `CNI_ARGS` of the ADD.
    pub args: String,
    /// The delegates of the ADD, in order.
    pub delegates: Vec<DelegateAnswer>,
    /// The lines of the chain's caller, in the order in which they were written
    /// ([`crate::Chain::with_caller_line`]).
    pub caller_lines: Vec<Box<RawValue>>,
    config: Option<Box<RawValue>>,
    /// The call of the ADD.
    pub(crate) call: CallId,
    /// Number of the lines with results.
    results: usize,
}

/// Progress of an attachment, by its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordState {
    /// ADD has begun and has not ended; or it has failed, and was not undone.
    Adding,
    /// ADD has succeeded.
    Added,
    /// DEL has begun and has not ended, or has failed.
    Deleting,
}

impl RecordState {
    /// The state as a word: `adding`, `added`, `deleting`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Adding => "adding",
            Self::Added => "added",
            Self::Deleting => "deleting",
        }
    }
}

/// A delegate of a recorded ADD.
#[derive(Clone, Debug)]
pub struct DelegateAnswer {
    /// Its name.
    pub name: DelegateName,
    /// Its result; `None` if it is not recorded.
    pub result: Option<Box<RawValue>>,
}

impl AttachmentRecord {
    /// The record that begins with this line.
    pub(crate) fn new(intent: Intent) -> Self {
        let delegates = intent.delegates.into_iter();
        Self {
            state: RecordState::Adding,
            added: intent.call.id.started(),
            deleting: None,
            trace: intent.trace,
            boot: intent.boot,
            netns: intent.netns,
            args: intent.args,
            delegates: delegates
                .map(|name| DelegateAnswer { name, result: None })
                .collect(),
            caller_lines: Vec::new(),
            config: intent.config,
            call: intent.call.id,
            results: 0,
        }
    }

    /// Reads a record. A last line without a line feed was not written.
    ///
    /// # Errors
    ///
    /// The reason why it can't be used: damage, another format, another attachment.
    pub(crate) fn parse(
        content: &[u8],
        network: &NetworkName,
        attachment: &Attachment,
    ) -> Result<Self, String> {
        let mut lines = whole_lines(content)
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| serde_json::from_slice(line).map_err(|error| error.to_string()));
        let intent = match lines.next() {
            None => return Err("its first line was not written".to_owned()),
            Some(Ok(Line::Adding(intent))) => *intent,
            Some(Ok(_)) => return Err("its first line is no intent".to_owned()),
            Some(Err(reason)) => return Err(reason),
        };
        if intent.format != FORMAT {
            return Err(format!("its format is {}, not {FORMAT}", intent.format));
        }
        let Attachment {
            container_id,
            ifname,
        } = attachment;
        if (&intent.network, &intent.container_id, &intent.ifname)
            != (network, container_id, ifname)
        {
            return Err(format!(
                "it is the record of {} {} on network {}",
                intent.container_id, intent.ifname, intent.network
            ));
        }
        // No process can be started with a NUL in a variable.
        let variables = [&intent.netns, &intent.args];
        if let Some(text) = variables.into_iter().find(|text| text.contains('\0')) {
            return Err(format!("{text:?} can't have been a variable's value"));
        }
        let mut record = Self::new(intent);
        for line in lines {
            record.note(line?)?;
        }
        Ok(record)
    }

    /// Takes note of a further line.
    pub(crate) fn note(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Adding(_) => return Err("it has two intents".to_owned()),
            Line::Result(result) => {
                let delegate = self.delegates.get_mut(self.results);
                let delegate = delegate.ok_or("it has more results than delegates")?;
                // The result of one that was too large is `null`.
                delegate.result = Some(result).filter(|raw| raw.get() != RawValue::NULL.get());
                self.results += 1;
            }
            Line::Added {} if self.state == RecordState::Adding => self.state = RecordState::Added,
            Line::Added {} => {}
            Line::Deleting(call) => {
                self.state = RecordState::Deleting;
                self.deleting = Some(call.id.started());
            }
            Line::Caller(line) => self.caller_lines.push(line),
        }
        Ok(())
    }

    /// Start of the current state.
    pub fn since(&self) -> SystemTime {
        self.deleting.unwrap_or(self.added)
    }

    /// The configuration of the ADD, if it is recorded.
    pub fn config(&self) -> Option<NetworkConfig> {
        NetworkConfig::parse(self.config.as_ref()?.get().as_bytes().to_vec()).ok()
    }

    /// The configuration of the ADD as it is recorded.
    pub fn raw_config(&self) -> Option<&RawValue> {
        self.config.as_deref()
    }

    /// True if the delegate of this number, from 0, has answered, even if its answer was too large
    /// to be recorded.
    pub fn has_answered(&self, number: usize) -> bool {
        number < self.results
    }

    /// The chain's result, if ADD has got that far.
    pub fn answer(&self) -> Option<&RawValue> {
        self.delegates.last()?.result.as_deref()
    }

    /// The delegates of the ADD, in order, with their parts in it.
    pub(crate) fn recorded_delegates(&self) -> Vec<RecordedDelegate<'_>> {
        let last = self.delegates.len().saturating_sub(1);
        let mut prev_result: Option<&RawValue> = None;
        let delegates = self.delegates.iter().enumerate();
        let recorded = delegates.map(|(i, DelegateAnswer { name, result })| {
            let result = result.as_deref();
            let delegate = RecordedDelegate {
                name,
                result,
                is_last: i == last,
                holds_nothing: i != last
                    && result.is_some_and(|result| added_none(prev_result, result)),
            };
            prev_result = result;
            delegate
        });
        recorded.collect()
    }
}

/// A delegate of a recorded ADD.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedDelegate<'a> {
    pub(crate) name: &'a DelegateName,
    /// Its result, if it is recorded.
    pub(crate) result: Option<&'a RawValue>,
    /// True if no delegate came after it.
    pub(crate) is_last: bool,
    /// True if it added no address: a selector.
    pub(crate) holds_nothing: bool,
}

impl<'a> RecordedDelegate<'a> {
    /// The `prevResult` of the next delegate, if there was one.
    pub(crate) fn next_prev_result(&self) -> Option<&'a RawValue> {
        self.result.filter(|_| !self.is_last)
    }

    /// The result of a selector.
    pub(crate) fn selection(&self) -> Option<&'a RawValue> {
        self.result.filter(|_| self.holds_nothing)
    }
}

/// True if a result has no address that `prevResult` doesn't have.
fn added_none(prev_result: Option<&RawValue>, result: &RawValue) -> bool {
    let ips = |raw: &RawValue| -> Option<Vec<_>> {
        let result = IpamResult::read("result", raw).ok()?;
        Some(result.ips.iter().map(cni::IpConfig::ip).collect())
    };
    let earlier = prev_result.and_then(ips).unwrap_or_default();
    ips(result).is_some_and(|ips| ips.iter().all(|ip| earlier.contains(ip)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_id::CallId;
    use crate::record::line::MOST;
    use crate::tests::attachment;

    const RESULTS: [&str; 3] = [
        r#"{"ips":[],"pools":[1]}"#,
        r#"{"ips":[{"address":"10.0.0.2/24"}]}"#,
        r#"{"ips":[{"address":"10.0.0.2/24"},{"address":"fd00::2/64"}]}"#,
    ];

    /// The bytes of a record with so many results.
    fn written(results: &[&str]) -> Vec<u8> {
        let json = r#"{"cniVersion":"1.0.0","name":"net","ipam":{"x":1.50}}"#;
        let config = NetworkConfig::parse(json.as_bytes().to_vec()).unwrap();
        let delegates = ["s", "a", "b"].map(|name| name.parse().unwrap());
        let mut intent = Intent::new(&config, &attachment(), &delegates, CallId::new());
        intent.args = "A=1".into();
        intent.netns = "/run/netns/c1".into();
        let mut bytes = Line::Adding(Box::new(intent)).to_bytes();
        for result in results {
            let raw = RawValue::from_string((*result).to_owned()).unwrap();
            bytes.extend(Line::result(&raw).to_bytes());
        }
        if results.len() == 3 {
            bytes.extend(Line::Added {}.to_bytes());
        }
        bytes
    }

    fn parse(content: &[u8]) -> Result<AttachmentRecord, String> {
        AttachmentRecord::parse(content, &"net".parse().unwrap(), &attachment())
    }

    #[test]
    fn a_record_reads_back_as_it_was() {
        for n in 0..=3 {
            let record = parse(&written(&RESULTS[..n])).unwrap();
            assert_eq!(record.state == RecordState::Added, n == 3);
            assert_eq!(
                record.config().unwrap().as_bytes(),
                br#"{"cniVersion":"1.0.0","name":"net","ipam":{"x":1.50}}"#
            );
            let answer = record.answer().map(RawValue::get);
            assert_eq!(answer, (n == 3).then_some(RESULTS[2]));
            assert_eq!(record.args, "A=1");
            let state = if n == 3 { "added" } else { "adding" };
            assert_eq!(record.state.as_str(), state);
            let config = record.config().unwrap();
            let raw = record.raw_config().unwrap().get();
            assert_eq!(raw.as_bytes(), config.as_bytes());
            let answered = (0..4).filter(|number| record.has_answered(*number));
            assert_eq!(answered.count(), n);
        }
        assert_eq!(RecordState::Deleting.as_str(), "deleting");
    }

    #[test]
    fn a_selector_is_told_from_an_allocator_by_its_result() {
        let of = |n: usize| -> Vec<(bool, bool)> {
            let record = parse(&written(&RESULTS[..n])).unwrap();
            let delegates = record.recorded_delegates();
            delegates
                .iter()
                .map(|delegate| {
                    let is_handed_on = delegate.next_prev_result().is_some();
                    (delegate.holds_nothing, is_handed_on)
                })
                .collect()
        };
        assert_eq!(of(3), [(true, true), (false, true), (false, false)]);
        // Nothing is known of a delegate without a result.
        assert_eq!(of(1), [(true, true), (false, false), (false, false)]);
        assert_eq!(of(0), [(false, false); 3]);
    }

    #[test]
    fn a_line_that_is_cut_off_was_not_written() {
        let whole = written(&RESULTS);
        let ends: Vec<usize> = (0..=whole.len())
            .filter(|end| *end == 0 || whole[end - 1] == b'\n')
            .collect();
        for end in 0..=whole.len() {
            let lines = ends.iter().filter(|line| (1..=end).contains(*line)).count();
            let record = parse(&whole[..end]);
            assert_eq!(record.is_err(), lines == 0, "cut off at {end}");
            if let Ok(record) = record {
                assert_eq!(record.results, (lines - 1).min(3));
                assert_eq!(record.state == RecordState::Added, lines == 5);
            }
        }
    }

    #[test]
    fn damaged_and_foreign_records_are_refused() {
        let text = String::from_utf8(written(&RESULTS)).unwrap();
        for (from, to) in [
            (r#""format":2"#, r#""format":3"#),
            (r#""containerId":"c1""#, r#""containerId":"c2""#),
            (r#""network":"net""#, r#""network":"other""#),
            (r#"["s","a","b"]"#, r#"["s","a"]"#),
            (r#"["s","a","b"]"#, r#"["s","../a","b"]"#),
            (r#"{"added":{}}"#, r#"{"unknown":{}}"#),
            (r#""args":"A=1""#, r#""args":"A=1\u0000""#),
            (r#""id":""#, r#""id":"x"#),
            (r#""netns":"/run"#, r#""netns":"\u0000"#),
        ] {
            assert!(text.contains(from), "{from} in {text}");
            let damaged = text.replacen(from, to, 1);
            assert!(parse(damaged.as_bytes()).is_err(), "{to}");
        }
        let twice = format!("{text}{text}");
        assert!(parse(twice.as_bytes()).is_err());
    }

    #[test]
    fn a_result_of_several_lines_is_one_line() {
        let pretty = "{\n  \"ips\": [],\n  \"x\": \"a\\nb\"\n}";
        let record = parse(&written(&[pretty])).unwrap();
        let result = record.delegates[0].result.as_ref().unwrap().get();
        assert_eq!(result, pretty.replace('\n', " "));
    }

    #[test]
    fn a_very_large_result_is_left_out() {
        let large = format!(r#"{{"x":"{}"}}"#, "y".repeat(MOST));
        let bytes = written(&[RESULTS[0], &large, RESULTS[2]]);
        assert!(bytes.len() < 2_000);
        let record = parse(&bytes).unwrap();
        assert!(record.recorded_delegates()[1].next_prev_result().is_none());
        assert!(!record.recorded_delegates()[1].holds_nothing);
    }
}
