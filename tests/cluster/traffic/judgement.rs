//! Judges the calls of all callers.

use harness::{History, Observation};

use super::node::{NETWORK, POOLS};
use super::run::Traffic;

impl Traffic {
    /// Runs GC on each node, and verifies the history and the observations, including those before
    /// and after GC. Returns the last observation.
    pub(crate) fn judge(&self, observe: impl Fn() -> Observation) -> Observation {
        let before = observe();
        let living = self.living();
        for node in &self.nodes {
            let valid = node.containers_of(&living);
            node.collect(&valid).nothing();
            assert_eq!(node.sandbox.records(NETWORK).len(), valid.len());
        }
        let after = Observation {
            collected: true,
            ..observe()
        };
        let mut observations = self.observations.lock().unwrap().clone();
        observations.extend([before, after.clone()]);
        let violations = self.violations(observations);
        assert!(violations.is_empty(), "{violations:#?}");
        let (succeeded, all) = self.history(Vec::new()).adds();
        println!("{succeeded} of {all} ADDs succeeded");
        let errors = self.last_errors();
        let expected = self.nodes.len() * self.callers;
        assert_eq!(
            living.len(),
            expected,
            "each caller leaves one: {errors:#?}"
        );
        after
    }

    /// Deletes all living attachments, and verifies that nothing is left.
    pub(crate) fn delete_all(&self, observe: impl Fn() -> Observation) {
        let living = self.living();
        for node in &self.nodes {
            for container in node.containers_of(&living) {
                node.call("DEL", &container, &POOLS).run().nothing();
            }
        }
        let left = observe();
        let in_index = left.index.unwrap_or_default();
        assert_eq!((left.addresses, in_index), (vec![], vec![]));
    }

    /// Violations of the rules, by the history until now and these observations.
    pub(crate) fn violations(&self, observations: Vec<Observation>) -> Vec<String> {
        let violations = self.history(observations).violations();
        violations.iter().map(ToString::to_string).collect()
    }

    fn history(&self, observations: Vec<Observation>) -> History {
        History::new(self.calls.lock().unwrap().clone(), observations).unwrap()
    }

    /// The living attachments.
    pub(super) fn living(&self) -> Vec<String> {
        let history = self.history(Vec::new());
        history.living().into_iter().map(str::to_owned).collect()
    }
}
