//! Record of an attachment: the delegates that ran, their results, and how far ADD or DEL has
//! got.
//!
//! A record is a list of events, one JSON object a line. DEL needs none: without one, it runs the
//! delegates of today's configuration. It holds the configuration and the variables of the ADD, so
//! only its owner may read it.

use std::time::SystemTime;

use cni::{Attachment, DelegateName, Error, NetworkConfig, NetworkName};
use serde_json::value::RawValue;

use crate::record::line::{FORMAT, Intent, Line};
use crate::record::namespace::{Namespace, NamespaceId};

/// The record of an attachment.
#[derive(Clone, Debug)]
pub struct AttachmentRecord {
    /// Progress of the attachment.
    pub state: RecordState,
    /// Start of the ADD.
    pub added: SystemTime,
    /// Start of the first DEL.
    pub deleting: Option<SystemTime>,
    /// Trace ID of the ADD.
    pub trace: String,
    /// `CNI_NETNS` of the ADD.
    pub netns: String,
    /// `CNI_ARGS` of the ADD.
    pub args: String,
    /// The delegates of the ADD, in order.
    pub delegates: Vec<RecordedDelegate>,
    /// The lines of the chain's caller, in the order in which they were written
    /// ([`crate::Chain::with_caller_line`]).
    pub caller_lines: Vec<Box<RawValue>>,
    /// True if the chain's caller runs the plugins itself ([`crate::OwnRecord`]): no chain undoes
    /// the attachment.
    pub is_undone_by_caller: bool,
    pub(crate) netns_id: Option<NamespaceId>,
    config: Box<RawValue>,
}

/// Progress of an attachment, by its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordState {
    /// ADD has begun and has not ended; or it has failed, and was not undone.
    Adding,
    /// ADD has succeeded, and no DEL has begun.
    Added,
    /// DEL has begun and has not ended, or has failed.
    Deleting,
}

/// A delegate of a recorded ADD.
#[derive(Clone, Debug)]
pub struct RecordedDelegate {
    /// The name in `ipam.delegates`.
    pub name: DelegateName,
    /// Its result; `None` if it is not recorded.
    pub result: Option<Box<RawValue>>,
}

impl AttachmentRecord {
    /// The record that begins with this line.
    ///
    /// # Errors
    ///
    /// The time of its ADD is damaged.
    pub(crate) fn new(intent: Intent) -> Result<Self, String> {
        let delegates = intent.delegates.into_iter();
        Ok(Self {
            state: RecordState::Adding,
            added: time(&intent.at)?,
            deleting: None,
            trace: intent.trace,
            netns: intent.netns,
            args: intent.args,
            delegates: delegates
                .map(|name| RecordedDelegate { name, result: None })
                .collect(),
            caller_lines: Vec::new(),
            is_undone_by_caller: intent.is_undone_by_caller,
            netns_id: intent.netns_id,
            config: intent.config,
        })
    }

    /// Reads a record from its whole lines, and whether bytes of another one follow. `None` without
    /// any byte: nothing has begun.
    ///
    /// # Errors
    ///
    /// The reason why it can't be used: damage, such as a first line that was cut off, another
    /// format, another attachment.
    pub(crate) fn parse(
        lines: &[u8],
        is_torn: bool,
        network: &NetworkName,
        attachment: &Attachment,
    ) -> Option<Result<Self, String>> {
        let has_begun = !lines.is_empty() || is_torn;
        has_begun.then(|| Self::of_lines(lines, network, attachment))
    }

    fn of_lines(
        lines: &[u8],
        network: &NetworkName,
        attachment: &Attachment,
    ) -> Result<Self, String> {
        let mut lines = lines
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| serde_json::from_slice(line).map_err(|error| error.to_string()));
        let first = lines.next().ok_or("its first line was not written")??;
        let Line::Adding(intent) = first else {
            return Err("its first line is no intent".to_owned());
        };
        if intent.format != FORMAT {
            return Err(format!("its format is {}, not {FORMAT}", intent.format));
        }
        let recorded = (&intent.container_id, &intent.ifname);
        let is_own = recorded == (&attachment.container_id, &attachment.ifname);
        if intent.network != *network || !is_own {
            return Err(format!(
                "it is the record of {} {} on network {}",
                intent.container_id, intent.ifname, intent.network
            ));
        }
        let mut record = Self::new(*intent)?;
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
                let mut delegates = self.delegates.iter_mut();
                let next = delegates.find(|delegate| delegate.result.is_none());
                next.ok_or("it has more results than delegates")?.result = Some(result);
            }
            Line::Added {} if self.state == RecordState::Adding => self.state = RecordState::Added,
            Line::Added {} => {}
            Line::Deleting { at } => {
                self.state = RecordState::Deleting;
                let at = time(&at)?;
                self.deleting.get_or_insert(at);
            }
            Line::Caller(line) => self.caller_lines.push(line),
        }
        Ok(())
    }

    /// The state of the network namespace of the ADD.
    pub fn namespace(&self) -> Namespace {
        Namespace::of(&self.netns, self.netns_id.as_ref())
    }

    /// Start of the current state.
    pub fn since(&self) -> SystemTime {
        self.deleting.unwrap_or(self.added)
    }

    /// The configuration of the ADD.
    ///
    /// # Errors
    ///
    /// It is damaged.
    pub fn config(&self) -> Result<NetworkConfig, Error> {
        NetworkConfig::parse_to_release(self.config.get().as_bytes().to_vec())
    }

    /// The configuration of the ADD as it is recorded.
    pub fn raw_config(&self) -> &RawValue {
        &self.config
    }

    /// The error of a chain that is to undo what only the caller undoes ([`crate::OwnRecord`]).
    pub(crate) fn refusal(&self, attachment: &Attachment) -> Error {
        Error::config(format!(
            "{attachment} is undone only by the program that has made it"
        ))
    }

    /// The chain's result, if ADD has got that far.
    pub fn answer(&self) -> Option<&RawValue> {
        self.delegates.last()?.result.as_deref()
    }
}

/// The time of an event.
fn time(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::attachment;
    use cni::Environment;
    use state_files::whole_lines;

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
        let mut intent = Intent::new(&config, &attachment(), &delegates, &Environment::default());
        intent.args = "A=1".into();
        intent.netns = "/run/netns/c1".into();
        let mut bytes = Line::Adding(Box::new(intent)).to_bytes();
        for result in results {
            let raw = RawValue::from_string((*result).to_owned()).unwrap();
            bytes.extend(Line::Result(raw).to_bytes());
        }
        if results.len() == 3 {
            bytes.extend(Line::Added {}.to_bytes());
        }
        bytes
    }

    fn parse(content: &[u8]) -> Result<AttachmentRecord, String> {
        let lines = whole_lines(content);
        let is_torn = lines.len() < content.len();
        let network = "net".parse().unwrap();
        let parsed = AttachmentRecord::parse(lines, is_torn, &network, &attachment());
        parsed.unwrap_or_else(|| Err("nothing".to_owned()))
    }

    fn number_of_results(record: &AttachmentRecord) -> usize {
        let results = record.delegates.iter().filter_map(|of| of.result.as_ref());
        results.count()
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
            let is_adding = record.state == RecordState::Adding;
            assert_eq!(is_adding, n < 3);
            let config = record.config().unwrap();
            let raw = record.raw_config().get();
            assert_eq!(raw.as_bytes(), config.as_bytes());
            assert_eq!(number_of_results(&record), n);
        }
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
                assert_eq!(number_of_results(&record), (lines - 1).min(3));
                assert_eq!(record.state == RecordState::Added, lines == 5);
            }
        }
    }

    #[test]
    fn damaged_and_foreign_records_are_refused() {
        let text = String::from_utf8(written(&RESULTS)).unwrap();
        for (from, to) in [
            (r#""format":3"#, r#""format":2"#),
            (r#""containerId":"c1""#, r#""containerId":"c2""#),
            (r#""network":"net""#, r#""network":"other""#),
            (r#"["s","a","b"]"#, r#"["s","a"]"#),
            (r#"["s","a","b"]"#, r#"["s","../a","b"]"#),
            (r#"{"added":{}}"#, r#"{"unknown":{}}"#),
            (r#""at":""#, r#""at":"x"#),
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
}
