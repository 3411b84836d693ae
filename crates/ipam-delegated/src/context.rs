//! What a call of the orchestrator has to do with: its settings, its delegates,
//! its records.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process;
use std::time::UNIX_EPOCH;

use cni::{Attachment, Call, DelegateName, Error, OneFile, TRACEPARENT};

use crate::ages::Ages;
use crate::config::Settings;
use crate::delegates::{Installed, Variable};
use crate::executables::Executables;
use crate::failure;
use crate::interrupt::Interrupt;
use crate::orphans::CALL;
use crate::records::Records;
use crate::recursion;

/// Says what to read instead of `/proc`.
const PROC: &str = "IPAM_DELEGATED_PROC";

/// One call of the orchestrator.
pub(crate) struct Context<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) settings: Settings,
    pub(crate) records: Records,
    executables: Executables<'a>,
    /// What tells the call apart from others.
    pub(crate) id: String,
}

impl<'a> Context<'a> {
    /// Reads the settings, and refuses what can't be run.
    pub(crate) fn new(call: &'a Call<'a>, others: OneFile<'a>) -> Result<Self, Error> {
        let settings = Settings::read(call)?;
        let executables = Executables::new(call.search_path()?, others, settings.call_directly);
        recursion::refuse(call, &settings.delegates, &executables)?;
        let now = UNIX_EPOCH.elapsed().unwrap_or_default();
        Ok(Self {
            records: Records::new(&settings.state_dir, call.config.name()),
            settings,
            executables,
            id: format!("{}-{}", process::id(), now.as_nanos()),
            call,
        })
    }

    /// The delegates, for the call of this id, with these variables besides those
    /// that we have received.
    pub(crate) fn delegates<'b>(
        &'b self,
        id: &str,
        variables: Vec<Variable>,
        interrupt: Option<&'b Interrupt>,
    ) -> Ages<Installed<'b, 'a>> {
        let mut environment = vec![
            (TRACEPARENT, self.call.trace.to_variable()),
            (CALL, id.into()),
        ];
        environment.extend(variables);
        Ages::new(Installed {
            executables: &self.executables,
            environment,
            timeout: self.settings.timeout,
            interrupt,
        })
    }

    /// Whether the delegate is called without being executed.
    pub(crate) fn calls_directly(&self, name: &DelegateName) -> bool {
        self.executables
            .find(name)
            .is_ok_and(|executable| executable.is_this_one())
    }

    /// An error that says where what has not been undone is recorded.
    pub(crate) fn with_record(&self, attachment: &Attachment, error: Error) -> Error {
        match self.records.standing(attachment) {
            Some(file) => failure::recorded_in(error, &file),
            None => error,
        }
    }

    /// What the machine calls its last boot.
    pub(crate) fn boot(&self) -> Option<String> {
        let proc = self.call.variable(PROC).unwrap_or_else(|| "/proc".into());
        let mut file = File::open(Path::new(&proc).join("sys/kernel/random/boot_id")).ok()?;
        // A UUID and a line's end: one read gets it.
        let mut id = [0; 64];
        let length = file.read(&mut id).ok()?;
        let id = str::from_utf8(&id[..length]).ok()?.trim();
        Some(id.to_owned()).filter(|id| !id.is_empty())
    }

    /// A variable, as text; empty if it is missing.
    pub(crate) fn text(&self, variable: &str) -> String {
        let value = self.call.variable(variable).unwrap_or_default();
        value.to_string_lossy().into_owned()
    }
}
