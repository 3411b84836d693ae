//! Record of an attachment: the delegates that ran, and their results.
//!
//! A record is a list of events, one JSON object a line. It is never required: without
//! one, DEL runs the delegates of today's configuration. It holds the configuration and
//! the variables of the ADD, so only its owner may read it.

use cni::{Attachment, DelegateName, IpamResult, NetworkConfig, NetworkName};
use serde_json::value::RawValue;

use crate::record_line::{FORMAT, Intent, Line, RecordedCall, whole_lines};

/// A record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) intent: Intent,
    results: Vec<Box<RawValue>>,
    /// True if ADD has succeeded.
    is_added: bool,
    /// The last call that began a DEL.
    deleting: Option<RecordedCall>,
    /// The lines of the chain's caller, in the order in which they were written.
    pub(crate) caller_lines: Vec<Box<RawValue>>,
}

impl Record {
    /// The record that begins with this line.
    pub(crate) fn new(intent: Intent) -> Self {
        Self {
            intent,
            results: Vec::new(),
            is_added: false,
            deleting: None,
            caller_lines: Vec::new(),
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
            .map(|line| serde_json::from_slice(line).map_err(|e| e.to_string()));
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
                "it is of {} {} on network {}",
                intent.container_id, intent.ifname, intent.network
            ));
        }
        // No process can be started with a NUL in a variable.
        if let Some(text) = [&intent.netns, &intent.args]
            .into_iter()
            .find(|text| text.contains('\0'))
        {
            return Err(format!("{text:?} can't have been a variable's value"));
        }
        let mut it = Self::new(intent);
        for line in lines {
            it.note(line?)?;
        }
        Ok(it)
    }

    /// Takes note of a further line.
    pub(crate) fn note(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Adding(_) => return Err("it has two intents".to_owned()),
            Line::Result(result) => self.results.push(result),
            Line::Added {} => self.is_added = true,
            Line::Deleting(call) => self.deleting = Some(call),
            Line::Caller(line) => self.caller_lines.push(line),
        }
        if self.results.len() > self.intent.delegates.len() {
            return Err("it has more results than delegates".to_owned());
        }
        Ok(())
    }

    /// True if the attachment as a whole is to be undone: ADD has succeeded, or the runtime
    /// has asked for DEL. Otherwise, only what this ADD did.
    pub(crate) fn is_whole_attachment(&self) -> bool {
        self.is_added || self.deleting.is_some()
    }

    /// True if ADD has succeeded, and no DEL has begun.
    pub(crate) fn stands(&self) -> bool {
        self.is_added && self.deleting.is_none()
    }

    /// The last call that began a DEL.
    pub(crate) fn deleting(&self) -> Option<&RecordedCall> {
        self.deleting.as_ref()
    }

    /// The delegates of the ADD, in order.
    pub(crate) fn delegates(&self) -> Vec<RecordedDelegate<'_>> {
        let mut earlier: Option<&RawValue> = None;
        let last = self.intent.delegates.len().saturating_sub(1);
        let names = self.intent.delegates.iter().enumerate();
        names
            .map(|(i, name)| {
                let result = self.result(i);
                let delegate = RecordedDelegate {
                    name,
                    holds_nothing: i != last && result.is_some_and(|it| added_none(earlier, it)),
                    handed_on: result.filter(|_| i != last),
                    result,
                };
                earlier = result;
                delegate
            })
            .collect()
    }

    fn result(&self, delegate: usize) -> Option<&RawValue> {
        let result = self.results.get(delegate)?;
        Some(&**result).filter(|raw| raw.get() != RawValue::NULL.get())
    }

    /// The chain's result, if ADD has got that far.
    pub(crate) fn answer(&self) -> Option<&RawValue> {
        self.result(self.intent.delegates.len().checked_sub(1)?)
    }

    /// The configuration of the ADD.
    pub(crate) fn config(&self) -> Option<NetworkConfig> {
        let json = self.intent.config.as_ref()?.get().as_bytes().to_vec();
        NetworkConfig::parse(json).ok()
    }
}

/// A delegate of a recorded ADD.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedDelegate<'a> {
    pub(crate) name: &'a DelegateName,
    /// Its result, if it is recorded.
    pub(crate) result: Option<&'a RawValue>,
    /// Its result, if a delegate came after it.
    pub(crate) handed_on: Option<&'a RawValue>,
    /// True if it added no address: a selector.
    pub(crate) holds_nothing: bool,
}

impl<'a> RecordedDelegate<'a> {
    /// The result of a selector: what it chose.
    pub(crate) fn chosen(&self) -> Option<&'a RawValue> {
        self.handed_on.filter(|_| self.holds_nothing)
    }
}

/// True if a result has no address that the earlier one doesn't have.
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
    use crate::call_id::CallId;
    use crate::record_line::MOST;
    use crate::testing::attachment;

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
        let call = RecordedCall { id: CallId::new() };
        let mut intent = Intent::new(&config, &attachment(), &delegates, call);
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

    fn parse(content: &[u8]) -> Result<Record, String> {
        Record::parse(content, &"net".parse().unwrap(), &attachment())
    }

    #[test]
    fn a_record_reads_back_as_it_was() {
        for n in 0..=3 {
            let record = parse(&written(&RESULTS[..n])).unwrap();
            assert_eq!(record.stands(), n == 3);
            assert_eq!(
                record.config().unwrap().as_bytes(),
                br#"{"cniVersion":"1.0.0","name":"net","ipam":{"x":1.50}}"#
            );
            let answer = record.answer().map(RawValue::get);
            assert_eq!(answer, (n == 3).then_some(RESULTS[2]));
            assert_eq!(record.intent.args, "A=1");
        }
    }

    #[test]
    fn a_selector_is_told_from_an_allocator_by_its_result() {
        let of = |n: usize| -> Vec<(bool, bool)> {
            let record = parse(&written(&RESULTS[..n])).unwrap();
            let delegates = record.delegates();
            delegates
                .iter()
                .map(|it| (it.holds_nothing, it.handed_on.is_some()))
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
            let lines = ends.iter().filter(|it| (1..=end).contains(*it)).count();
            let record = parse(&whole[..end]);
            assert_eq!(record.is_err(), lines == 0, "cut off at {end}");
            if let Ok(record) = record {
                assert_eq!(record.results.len(), (lines - 1).min(3));
                assert_eq!(record.stands(), lines == 5);
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
        let result = record.delegates()[0].result.unwrap().get().to_owned();
        assert_eq!(result, pretty.replace('\n', " "));
    }

    #[test]
    fn a_very_large_result_is_left_out() {
        let large = format!(r#"{{"x":"{}"}}"#, "y".repeat(MOST));
        let bytes = written(&[RESULTS[0], &large, RESULTS[2]]);
        assert!(bytes.len() < 2_000);
        let record = parse(&bytes).unwrap();
        assert!(record.delegates()[1].handed_on.is_none());
        assert!(!record.delegates()[1].holds_nothing);
    }
}
