//! Dry run of a chain's first delegates: their answers to ADD, without a record.

use cni::{Command, DelegateName};

use crate::call::delegate_call::DelegateCall;
use crate::call::installed_delegates::InstalledDelegates;
use crate::call::outcome::Outcome;
use crate::chain::Chain;

impl Chain<'_> {
    /// Runs ADD of the delegates, in order, up to the first that `runs` refuses or that
    /// fails; returns those that ran, each with its outcome. Nothing is recorded and
    /// nothing undone: only selectors, which hold nothing, may run.
    pub fn dry_run(&self, runs: impl Fn(&DelegateName) -> bool) -> Vec<(DelegateName, Outcome)> {
        let mut installed = InstalledDelegates::new(self, self.environment.clone());
        let mut ran: Vec<(DelegateName, Outcome)> = Vec::new();
        let names = self.settings.delegates.iter();
        for name in names.take_while(|name| runs(name)) {
            let prev_result = match ran.last() {
                None => None,
                Some((_, Outcome::Result(output))) => Some(output.json()),
                Some(_) => break,
            };
            let call = DelegateCall::new(name, Command::Add, self.config, prev_result);
            let outcome = installed.run(&call);
            ran.push((name.clone(), outcome));
        }
        ran
    }
}
