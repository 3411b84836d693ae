//! Lines of the chain's caller in the record of an attachment.

use cni::{Attachment, Error, code};
use serde_json::value::RawValue;

use crate::chain::Chain;
use crate::record::folder::Found;
use crate::record::line::Line;
use crate::record::lock::IfMissing;

impl Chain<'_> {
    /// Appends a line of the caller to the record of an attachment. A call that works on the
    /// attachment is waited for, at most two seconds.
    ///
    /// # Errors
    ///
    /// Code 5 if there is no record, or it can't be written; code 11 if it is not known whether
    /// there is one, or a call still works on the attachment.
    pub fn append_caller_line(
        &self,
        attachment: &Attachment,
        line: Box<RawValue>,
    ) -> Result<(), Error> {
        let failed = |reason: &str| {
            let path = self.records.file(attachment);
            Error::new(code::IO, format!("record {}: {reason}", path.display()))
        };
        let locked = match self.lock_record(attachment, IfMissing::Leave)? {
            Found::Missing => return Err(failed("it is missing")),
            Found::Unusable(error) => return Err(failed(&error.to_string())),
            Found::Record(locked) => locked,
        };
        match locked.content {
            None => return Err(failed("it is empty")),
            Some(Err(reason)) => return Err(failed(&reason)),
            Some(Ok(_)) => {}
        }
        locked.file.append(&[Line::Caller(line)]);
        match locked.file.is_whole() {
            true => Ok(()),
            false => Err(failed("it can't be written")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cni::{Environment, LinkedPlugin, NetworkConfig};

    use super::*;
    use crate::call::plugins::Plugins;
    use crate::chain::Chain;
    use crate::record::{AttachmentRecord, records};
    use crate::tests::{LinkedExample, attachment, config};

    fn line(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    const LINKED: [&dyn LinkedPlugin; 1] = [&LinkedExample("p")];

    fn environment(folder: &tempfile::TempDir) -> Environment {
        Environment::default()
            .with("CNI_PATH", "/nowhere")
            .with("IPAM_DELEGATED_STATE_DIR", folder.path().join("records"))
    }

    fn chain<'a>(config: &'a NetworkConfig, environment: &'a Environment) -> Chain<'a> {
        let plugins = Plugins::in_cni_path(environment).unwrap();
        Chain::new(config, environment, plugins.and_linked(&LINKED)).unwrap()
    }

    fn record(folder: &tempfile::TempDir) -> Option<AttachmentRecord> {
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
        let chain = chain(&config, &environment).with_caller_line(line(r#"{"pool": "a"}"#));
        assert!(chain.append_caller_line(&attachment(), line("1")).is_err());
        chain.add(&attachment()).unwrap();
        assert_eq!(
            record(&folder).unwrap().caller_line().unwrap().get(),
            r#"{"pool": "a"}"#
        );
        chain
            .append_caller_line(&attachment(), line("\"answered\""))
            .unwrap();
        let lines = record(&folder).unwrap().caller_lines;
        let lines: Vec<&str> = lines.iter().map(|line| line.get()).collect();
        assert_eq!(lines, [r#"{"pool": "a"}"#, "\"answered\""]);
        chain.del(&attachment()).unwrap();
        assert!(record(&folder).is_none());
        assert!(chain.append_caller_line(&attachment(), line("1")).is_err());
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
        let chain = chain(&config, &environment).with_caller_line(line("1"));
        let error = chain.add(&attachment()).unwrap_err();
        assert_eq!(error.code, code::IO, "{error}");
    }
}
