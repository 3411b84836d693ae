//! Runs one delegate: finds it, gives it its input, and takes its output.

use std::borrow::Cow;
use std::path::Path;
use std::time::{Duration, Instant};

use cni::{
    Cancellation, Command, DELEGATE, DelegateName, Environment, LinkedPlugin, NetworkConfig,
    ROLLBACK,
};
use serde_json::value::RawValue;

use crate::call::{Deadline, Event, Failure, InstalledPlugin, Outcome, ProcessRun, StderrTail};
use crate::chain::Chain;
use crate::record::RecordFile;
use crate::settings::Settings;

/// The longest that a delegate's DEL within an ADD may take without `delegateTimeout`: it can't
/// be cancelled, and may wait for a lock. If it fails, the attachment stays recorded.
const MOST_FOR_UNDOING: Duration = Duration::from_secs(10);

/// A call of a delegate.
#[derive(Clone)]
pub(crate) struct DelegateCall<'a> {
    pub(crate) name: &'a DelegateName,
    pub(crate) command: Command,
    /// Its configuration, `prevResult` included.
    pub(crate) config: Cow<'a, NetworkConfig>,
}

impl<'a> DelegateCall<'a> {
    /// A call with this configuration. `prev_result` replaces its `prevResult`.
    pub(crate) fn new(
        name: &'a DelegateName,
        command: Command,
        config: &'a NetworkConfig,
        prev_result: Option<&'a RawValue>,
    ) -> Self {
        let config = match prev_result {
            Some(prev_result) => Cow::Owned(config.with_prev_result(prev_result)),
            None => Cow::Borrowed(config),
        };
        Self {
            name,
            command,
            config,
        }
    }
}

/// The delegates of a chain, as they are installed on the node.
pub(crate) struct InstalledDelegates<'a, 'b> {
    pub(crate) chain: &'a Chain<'b>,
    /// The environment of the delegates, without `CNI_COMMAND`.
    environment: Environment,
    cancellation: Option<&'b dyn Cancellation>,
    /// `delegateTimeout`: the longest that each may take.
    timeout: Option<Duration>,
    /// True within an ADD: a delegate's time is bounded even without `delegateTimeout`.
    is_bounded: bool,
    /// The attachment's record, whose lock they inherit.
    record: Option<&'a RecordFile>,
}

impl<'a, 'b> InstalledDelegates<'a, 'b> {
    pub(crate) fn new(chain: &'a Chain<'b>, environment: Environment) -> Self {
        let environment = if chain.is_one_plugin {
            environment
        } else {
            environment.with(DELEGATE, "1")
        };
        Self {
            chain,
            environment,
            cancellation: None,
            timeout: chain.settings.timeout,
            is_bounded: false,
            record: None,
        }
    }

    /// The same delegates, which inherit the lock of this record.
    pub(crate) fn holding(mut self, record: Option<&'a RecordFile>) -> Self {
        self.record = record;
        self
    }

    /// The same delegates, with this cancellation.
    pub(crate) fn cancelled_by(mut self, cancellation: Option<&'b dyn Cancellation>) -> Self {
        self.cancellation = cancellation;
        self
    }

    /// The same delegates, each with a bound of its time, for the DEL within an ADD: it undoes
    /// this ADD, or an earlier one.
    pub(crate) fn bounded(mut self) -> Self {
        self.is_bounded = true;
        self
    }

    /// The same delegates, with `delegateTimeout` of this recorded configuration.
    pub(crate) fn timed_as(mut self, recorded: &NetworkConfig) -> Self {
        let settings = Settings::to_release(recorded, &self.environment);
        self.timeout = settings.ok().and_then(|settings| settings.timeout);
        self
    }

    /// Runs a delegate. One that may be too old for the network's version is asked for its
    /// versions, and run again.
    pub(crate) fn run(&mut self, call: &DelegateCall<'_>) -> Outcome {
        let mut versions = self.chain.versions.take();
        let outcome = versions.run(call, &mut |call| self.run_once(call));
        self.chain.versions.replace(versions);
        outcome
    }

    /// True if the chain's call is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.is_some_and(Cancellation::is_cancelled)
    }

    /// Begins the rollback of an ADD. From now on, the cancellation is ignored, each delegate's
    /// time is bounded, and a delegate is told that only this call is undone.
    pub(crate) fn begin_rollback(&mut self) {
        self.cancellation = None;
        self.is_bounded = true;
        self.environment = self.environment.clone().with(ROLLBACK, "1");
    }

    /// The longest that the next delegate may take.
    fn limit(&self) -> Option<Duration> {
        let most = self.is_bounded.then_some(MOST_FOR_UNDOING);
        let deadline = self.chain.deadline;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let limits = [self.timeout.or(most), self.chain.longest, left];
        limits.into_iter().flatten().min()
    }

    /// Runs a delegate, without a second attempt in another version.
    pub(crate) fn run_once(&mut self, call: &DelegateCall<'_>) -> Outcome {
        if self.is_cancelled() {
            return Outcome::Failed(Failure::cancelled());
        }
        let limit = self.limit();
        if limit == Some(Duration::ZERO) {
            return Outcome::Failed(Failure::out_of_time());
        }
        let found = match self.chain.plugins.find(call.name) {
            Ok(found) => found,
            Err(failure) => return Outcome::Failed(failure),
        };
        let started = Instant::now();
        let command = call.command.as_str();
        let environment = self.environment.clone().with("CNI_COMMAND", command);
        self.chain.tell(&Event::Started {
            delegate: call.name,
            command: call.command,
            executable: found.executable(),
            prev_result: call.config.raw_prev_result(),
        });
        let mut outcome = match (&found, found.executable()) {
            // One that is linked can't be terminated.
            (_, Some(path)) if self.timeout.is_some() => {
                self.execute(path, call, &environment, limit)
            }
            (InstalledPlugin::File(path), _) => self.execute(path, call, &environment, limit),
            (InstalledPlugin::Linked(plugin, _), _) => {
                self.call(*plugin, call, &environment, limit)
            }
        };
        // A delegate of a cancelled call counts as cancelled, whatever it printed.
        if let Outcome::Failed(failure) = &mut outcome
            && self.is_cancelled()
            && !failure.is_refusal()
        {
            failure.count_as_cancelled();
        }
        self.chain.tell(&Event::Ended {
            delegate: call.name,
            command: call.command,
            outcome: &outcome,
            took: started.elapsed(),
        });
        outcome
    }

    /// Calls a linked plugin. Its time is bounded if it can't be cancelled.
    fn call(
        &self,
        plugin: &dyn LinkedPlugin,
        call: &DelegateCall<'_>,
        environment: &Environment,
        limit: Option<Duration>,
    ) -> Outcome {
        let bound = limit.filter(|_| self.cancellation.is_none());
        let deadline = match bound.map(Deadline::after).transpose() {
            Ok(deadline) => deadline,
            Err(error) => {
                let what = Path::new("a timer for its time limit");
                return Outcome::Failed(Failure::not_started(what, &error));
            }
        };
        let cancellation = match &deadline {
            Some(deadline) => Some(deadline as &dyn Cancellation),
            None => self.cancellation,
        };
        let config = call.config.clone().into_owned();
        let output = plugin.call(environment, config, cancellation);
        let mut stderr = StderrTail::default();
        if !output.stderr.is_empty() {
            self.tell_of_stderr(call.name, &output.stderr);
            stderr.add(&output.stderr);
        }
        let failure = match output.answer {
            Ok(Some(output)) => return Outcome::Result(output),
            Ok(None) => return Outcome::Nothing,
            Err(error) => Failure::printed(error, &stderr.into_text()),
        };
        Outcome::Failed(match bound.zip(deadline) {
            Some((limit, deadline)) if deadline.is_cancelled() && !failure.is_refusal() => {
                Failure::timed_out(limit)
            }
            _ => failure,
        })
    }

    /// Executes a delegate's file, and terminates it when its time is up.
    fn execute(
        &self,
        executable: &Path,
        call: &DelegateCall<'_>,
        environment: &Environment,
        limit: Option<Duration>,
    ) -> Outcome {
        let run = ProcessRun {
            executable,
            arguments: &[],
            environment,
            stdin: call.config.as_bytes(),
            timeout: limit,
            cancellation: self.cancellation,
            record: self.record,
        };
        match run.to_its_end(&mut |bytes| self.tell_of_stderr(call.name, bytes)) {
            Err(error) => Outcome::Failed(Failure::not_started(executable, &error)),
            Ok(output) => Outcome::from(output),
        }
    }

    fn tell_of_stderr(&self, delegate: &DelegateName, bytes: &[u8]) {
        self.chain.tell(&Event::Stderr { delegate, bytes });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;

    use super::*;
    use crate::call::{Observer, Plugins};
    use crate::tests::{LinkedExample, config};

    /// A linked plugin that writes this to stderr.
    const fn writes(stderr: &'static str) -> LinkedExample {
        LinkedExample { name: "p", stderr }
    }

    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);

    impl Observer for Told {
        fn event(&self, event: &Event<'_>) {
            if let Event::Stderr { delegate, bytes } = event {
                let text = String::from_utf8_lossy(bytes);
                self.0.lock().unwrap().push(format!("{delegate}: {text}"));
            }
        }
    }

    #[test]
    fn the_stderr_of_a_linked_delegate_is_told_if_there_is_any() {
        let config = config(r#","ipam":{"delegates":["p"]}"#);
        let environment = Environment::default().with("CNI_PATH", "/nowhere");
        for (stderr, told) in [("", &[][..]), ("careful", &["p: careful".to_owned()])] {
            let observer = Told::default();
            let plugin = writes(stderr);
            let linked: [&dyn LinkedPlugin; 1] = [&plugin];
            let plugins = Plugins::in_cni_path(&environment).unwrap();
            let chain = Chain::new(&config, &environment, plugins.and_linked(&linked));
            chain.unwrap().observed_by(&observer).status().unwrap();
            assert_eq!(*observer.0.lock().unwrap(), told);
        }
    }

    #[test]
    fn a_linked_delegate_whose_time_cant_be_limited_is_not_run() {
        let config = config(r#","ipam":{"delegates":["p"]}"#);
        let environment = Environment::default().with("CNI_PATH", "/nowhere");
        let observer = Told::default();
        let linked: [&dyn LinkedPlugin; 1] = [&writes("run")];
        let plugins = Plugins::in_cni_path(&environment).unwrap();
        let chain = Chain::new(&config, &environment, plugins.and_linked(&linked));
        let mut chain = chain.unwrap();
        // No timer has so many seconds.
        chain.settings.timeout = Some(Duration::MAX);
        let error = chain.observed_by(&observer).status().unwrap_err();
        assert!(
            error.to_string().contains("a timer for its time limit"),
            "{error}"
        );
        assert!(observer.0.lock().unwrap().is_empty());
    }

    #[test]
    fn the_callers_limit_bounds_each_delegate_and_executes_no_linked_one() {
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join("p");
        fs::write(&executable, "#!/bin/sh\nexec sleep 100\n").unwrap();
        fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
        let environment = Environment::default()
            .with("CNI_PATH", folder.path())
            .with("PATH", std::env::var_os("PATH").unwrap_or_default());
        static LINKED: LinkedExample = writes("linked");
        for timeout in ["", r#","delegateTimeout":"1h""#] {
            let config = config(&format!(r#","ipam":{{"delegates":["p"]{timeout}}}"#));
            let plugins = Plugins::in_cni_path(&environment).unwrap();
            let chain = Chain::new(&config, &environment, plugins).unwrap();
            let limited = chain.with_longest(Duration::from_millis(50));
            let error = limited.status().unwrap_err();
            assert!(error.msg.contains("did not end within 50ms"), "{error}");
        }
        let config = config(r#","ipam":{"delegates":["p"]}"#);
        let observer = Told::default();
        let own = |_: &Path| Some(&LINKED as &dyn LinkedPlugin);
        let plugins = Plugins::in_cni_path(&environment).unwrap();
        let chain = Chain::new(&config, &environment, plugins.and_own_executable(&own)).unwrap();
        let limited = chain.with_longest(Duration::from_secs(60));
        limited.observed_by(&observer).status().unwrap();
        assert_eq!(*observer.0.lock().unwrap(), ["p: linked"]);
    }

    #[test]
    fn a_delegate_whose_time_is_limited_is_executed_even_if_it_is_linked() {
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join("p");
        fs::write(&executable, "#!/bin/sh\necho executed >&2\n").unwrap();
        fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
        let environment = Environment::default().with("CNI_PATH", folder.path());
        static LINKED: LinkedExample = writes("linked");
        for (timeout, told) in [
            ("", "p: linked"),
            (r#","delegateTimeout":"1m""#, "p: executed\n"),
        ] {
            let config = config(&format!(r#","ipam":{{"delegates":["p"]{timeout}}}"#));
            let observer = Told::default();
            let own = |_: &Path| Some(&LINKED as &dyn LinkedPlugin);
            let plugins = Plugins::in_cni_path(&environment).unwrap();
            let chain = Chain::new(&config, &environment, plugins.and_own_executable(&own));
            chain.unwrap().observed_by(&observer).status().unwrap();
            assert_eq!(*observer.0.lock().unwrap(), [told]);
        }
    }
}
