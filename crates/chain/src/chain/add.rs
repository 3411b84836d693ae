//! ADD of an attachment: its record is made before the first delegate runs, and removed if the ADD is
//! undone.

use std::io;

use cni::{Attachment, Error, JsonOutput, code};

use crate::call::Delegates;
use crate::chain::{Chain, earlier_add};
use crate::record::{Intent, Line, RecordFile};
use crate::run::Addition;

impl Chain<'_> {
    /// ADD: runs the delegates in order. The result is the last one's, as it came, or,
    /// with `"result": "merge"`, all of theirs; without `pools` and `facts`.
    ///
    /// # Errors
    ///
    /// The failed delegate's, with its name, after all up to it have been undone; code
    /// 110 if the attachment is on the network already; code 106 if it was cancelled.
    pub fn add(&self, attachment: &Attachment) -> Result<JsonOutput, Error> {
        self.add_and(attachment, |_| Ok(()))
    }

    /// ADD, which also delivers the result: `deliver` receives it while the attachment is
    /// still locked. If `deliver` fails, the ADD is undone.
    ///
    /// # Errors
    ///
    /// As [`Self::add`]; code 5 if the result could not be delivered, which no delegate has caused.
    pub fn add_and(
        &self,
        attachment: &Attachment,
        deliver: impl FnOnce(&JsonOutput) -> io::Result<()>,
    ) -> Result<JsonOutput, Error> {
        let record_file = earlier_add::clear(self, attachment)?;
        let file = record_file.as_ref();
        let names = &self.settings.delegates;
        // A main plugin that is chained behind another one passes its own: what the other plugins
        // of the network have made, which isn't this chain's.
        let config = self.config.without_prev_result();
        let intent = Intent::new(&config, attachment, names, self.environment);
        let mut first = vec![Line::Adding(Box::new(intent))];
        first.extend(self.caller_line.clone().map(Line::Caller));
        // Before the first delegate runs, so that a DEL or a GC finds what was done, whatever
        // happens to this process.
        if let Some(file) = file {
            file.append(&first);
        }
        let must_be_recorded = self.caller_line.is_some();
        let is_whole = || file.is_some_and(RecordFile::is_whole);
        let path = self.records.file(attachment);
        let not_recorded = || format!("{}: the attachment can't be recorded", path.display());
        if must_be_recorded && !is_whole() {
            file.map(RecordFile::remove);
            return Err(Error::new(code::IO, not_recorded()));
        }
        let addition = Addition {
            delegates: Delegates {
                cancellation: self.cancellation,
                ..self.delegates(self.environment.clone(), file)
            },
            names,
            answer: self.settings.answer,
            config: &config,
            file,
        };
        let added = addition.run(|result| {
            // By a record that lacks lines, the next ADD or a GC would undo this one.
            if !is_whole() && (must_be_recorded || !file.is_none_or(RecordFile::remove)) {
                return Err(io::Error::other(not_recorded()));
            }
            deliver(result)
        });
        added.map_err(|failed| {
            if !failed.may_hold {
                file.map(RecordFile::remove);
            }
            self.with_record(attachment, failed.error)
        })
    }
}
