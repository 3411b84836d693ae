//! Tests of a chain with its records: linked delegates that answer as they are told.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use cni::{
    Cancellation, Command, Environment, Error, JsonOutput, LinkedOutput, LinkedPlugin,
    NetworkConfig, code,
};
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::call::Plugins;
use crate::chain::Chain;
use crate::chain::release::Released;
use crate::record::WhenBusy;
use crate::record::attachments;
use crate::tests::{LinkedExample, attachment, config};

mod after_an_add;
mod caller_line;
mod unfinished;

/// The answer to a command with a configuration: a result, nothing, or the code of an error.
type Answer = fn(Command, &NetworkConfig) -> Result<Option<&'static str>, u64>;

/// A linked delegate, by default `p`.
struct Fake {
    name: &'static str,
    answer: Mutex<Answer>,
    /// True if it waits until it is cancelled.
    waits: bool,
    log: Mutex<Vec<String>>,
}

impl Fake {
    fn new(answer: Answer) -> Self {
        Self {
            name: "p",
            answer: Mutex::new(answer),
            waits: false,
            log: Mutex::default(),
        }
    }

    fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// The calls since the last look, as `<command> <CNI_ARGS> <prevResult>`.
    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

impl LinkedPlugin for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    fn call(
        &self,
        environment: &Environment,
        config: NetworkConfig,
        cancellation: Option<&dyn Cancellation>,
    ) -> LinkedOutput {
        let command = environment.text("CNI_COMMAND");
        let args = environment.text("CNI_ARGS");
        let prev_result = config.raw_prev_result().map_or("-", |raw| raw.get());
        let mut log = self.log.lock().unwrap();
        log.push(format!("{command} {args} {prev_result}"));
        while self.waits && !cancellation.unwrap().is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let answer = (self.answer.lock().unwrap())(command.parse().unwrap(), &config);
        LinkedOutput {
            answer: match answer {
                Ok(None) => Ok(None),
                Ok(Some(json)) => Ok(Some(
                    JsonOutput::try_from(json.as_bytes().to_vec()).unwrap(),
                )),
                Err(code) => Err(Error::new(code, "no")),
            },
            stderr: Vec::new(),
        }
    }
}

/// More than any delegate of a test takes.
const LONG: Duration = Duration::from_secs(60);

const RESULT: &str = r#"{"ips":[{"address":"10.0.0.2/24"}],"x":1}"#;

/// It prints a result on ADD.
const WORKS: Answer = |command, _| Ok((command == Command::Add).then_some(RESULT));

/// It prints a result on ADD, and fails with code 5 on other commands.
const FAILS: Answer = |command, _| match command {
    Command::Add => Ok(Some(RESULT)),
    _ => Err(code::IO),
};

/// A folder of records, and the delegate.
struct Site {
    folder: TempDir,
    environment: Environment,
    delegate: Fake,
    /// True if `p` is installed. `q` always is.
    is_installed: bool,
}

impl Site {
    fn new(answer: Answer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("records");
        let environment = Environment::default()
            .with("CNI_PATH", "/nowhere")
            .with("IPAM_DELEGATED_STATE_DIR", records);
        Self {
            folder,
            environment,
            delegate: Fake::new(answer),
            is_installed: true,
        }
    }

    /// Runs `f` with a chain of `p` with these further keys of the configuration.
    fn with<T>(&self, keys: &str, f: impl FnOnce(Chain<'_>) -> T) -> T {
        let config = match keys.contains("\"ipam\"") {
            true => config(keys),
            false => config(&format!(r#"{keys},"ipam":{{"delegates":["p"]}}"#)),
        };
        let linked: [&dyn LinkedPlugin; 2] = [&LinkedExample::named("q"), &self.delegate];
        let linked = &linked[..1 + usize::from(self.is_installed)];
        let plugins = Plugins::in_cni_path(&self.environment).unwrap();
        f(Chain::new(&config, &self.environment, plugins.and_linked(linked)).unwrap())
    }

    fn add(&self, keys: &str) -> Result<(), Error> {
        self.with(keys, |chain| chain.add(&attachment()).map(|_| ()))
    }

    fn del(&self, keys: &str) -> Result<(), Error> {
        self.with(keys, |chain| chain.del(&attachment()))
    }

    /// GC of a runtime that has no attachment.
    fn gc(&self) -> Result<(), Error> {
        self.with(r#","cni.dev/valid-attachments":[]"#, |chain| chain.gc())
    }

    /// A tool's release.
    fn release(&self, reason: Option<&str>) -> Result<Released, Error> {
        let refuse = |_: Option<&_>| reason.map(str::to_owned);
        self.with("", |chain| {
            chain.release(&attachment(), WhenBusy::Refuse, LONG, refuse)
        })
    }

    fn network(&self) -> PathBuf {
        self.folder.path().join("records/n")
    }

    fn is_recorded(&self) -> bool {
        let records = self.folder.path().join("records");
        !attachments(&records, config("").name()).unwrap().is_empty()
    }
}

#[test]
fn a_tool_releases_nothing_that_a_call_works_on_or_that_it_refuses() {
    let site = Site::new(WORKS);
    site.add("").unwrap();
    site.delegate.log();
    let file = fs::File::open(site.network().join("c1:eth0.json")).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let Released::Refused(reason) = site.release(None).unwrap() else {
        panic!("it is released");
    };
    assert!(reason.contains("is still running"), "{reason}");
    drop(file);
    assert_eq!(
        site.release(Some("no")).unwrap(),
        Released::Refused("no".to_owned())
    );
    assert!(site.delegate.log().is_empty() && site.is_recorded());
    assert_eq!(site.release(None).unwrap(), Released::Done);
    assert_eq!(site.delegate.log(), [format!("DEL  {RESULT}")]);
    assert!(!site.is_recorded());
}

#[test]
fn a_release_that_fails_keeps_the_record_and_leaves_no_empty_one() {
    let site = Site::new(FAILS);
    site.add("").unwrap();
    let error = site.release(None).unwrap_err();
    assert_eq!(error.code, code::IO);
    assert!(
        error.details.contains("recorded, for the next"),
        "{error:?}"
    );
    assert!(site.is_recorded());
    site.delegate.answers(WORKS);
    assert_eq!(site.release(None).unwrap(), Released::Done);
    // Without a record.
    assert_eq!(
        site.release(Some("no")).unwrap(),
        Released::Refused("no".to_owned())
    );
    assert!(!site.network().exists());
    site.delegate.answers(FAILS);
    let error = site.release(None).unwrap_err();
    assert_eq!(error.code, code::IO);
    assert!(!error.details.contains("recorded"), "{error:?}");
    assert!(!site.network().exists());
}

#[test]
fn gc_undoes_a_stale_attachment_and_tells_of_its_failure_once() {
    let site = Site::new(FAILS);
    site.add("").unwrap();
    site.delegate.log();
    let error = site.gc().unwrap_err();
    assert_eq!(error.code, code::IO);
    assert!(!error.msg.contains("has begun"), "{error}");
    let log = site.delegate.log();
    assert_eq!(log[0], format!("DEL  {RESULT}"));
    assert_eq!(log[1], "GC  -");
    assert!(site.is_recorded());
    site.delegate.answers(WORKS);
    site.gc().unwrap();
    assert!(!site.is_recorded());
}

#[test]
fn a_folder_that_is_named_like_a_record_is_no_add_that_has_begun() {
    let site = Site::new(WORKS);
    site.add("").unwrap();
    site.del("").unwrap();
    fs::create_dir_all(site.network().join("c1:eth0.json")).unwrap();
    site.gc().unwrap();
}

#[test]
fn gc_that_can_not_read_the_records_runs_no_delegate_and_says_so_once() {
    let site = Site::new(WORKS);
    fs::create_dir(site.folder.path().join("records")).unwrap();
    symlink("n", site.network()).unwrap();
    let error = site.gc().unwrap_err();
    assert_eq!(error.code, code::TRY_AGAIN_LATER);
    assert_eq!(error.msg.matches("record /").count(), 1, "{error}");
    assert!(site.delegate.log().is_empty());
}

/// The commands that the delegate has got since the last look.
fn commands(site: &Site) -> Vec<String> {
    let log = site.delegate.log().into_iter();
    log.map(|line| line.split(' ').next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_second_add_is_refused_as_long_as_the_network_namespace_may_be_there() {
    let mut site = Site::new(WORKS);
    let netns = site.folder.path().join("netns");
    fs::write(&netns, "").unwrap();
    site.environment = site.environment.with("CNI_NETNS", &netns);
    site.add("").unwrap();
    let error = site.add("").unwrap_err();
    assert_eq!(error.code, code::ALREADY_ALLOCATED);
    assert_eq!(commands(&site), ["ADD"]);
    fs::remove_file(&netns).unwrap();
    site.add("").unwrap();
    assert_eq!(commands(&site), ["DEL", "ADD"]);
    // There was none at this ADD, so nobody can tell.
    let error = site.add("").unwrap_err();
    assert_eq!(error.code, code::ALREADY_ALLOCATED);
}

#[test]
fn an_add_after_a_del_that_has_failed_undoes_the_earlier_one_first() {
    let site = Site::new(FAILS);
    site.add("").unwrap();
    site.del("").unwrap_err();
    commands(&site);
    let error = site.add("").unwrap_err();
    assert_eq!(error.code, code::IO);
    assert_eq!(commands(&site), ["DEL"]);
    site.delegate.answers(WORKS);
    site.add("").unwrap();
    assert_eq!(commands(&site), ["DEL", "ADD"]);
}

#[test]
fn del_uses_the_record_alone() {
    let mut site = Site::new(FAILS);
    site.environment = site.environment.with("CNI_ARGS", "A=1");
    site.add(r#","vlan":1"#).unwrap();
    site.delegate.log();
    site.environment = site.environment.with("CNI_ARGS", "B=2");
    site.delegate.answers(|command, config| {
        let text = String::from_utf8_lossy(config.as_bytes());
        let is_recorded = text.contains(r#""vlan":1"#) && !text.contains("dataDir");
        if is_recorded {
            WORKS(command, config)
        } else {
            Err(code::IO)
        }
    });
    let today = r#","vlan":2,"prevResult":{"ips":[{"address":"10.0.0.9/24"}]},
        "ipam":{"delegates":["q"],"dataDir":"/elsewhere"}"#;
    site.del(today).unwrap();
    assert_eq!(site.delegate.log(), [format!("DEL A=1 {RESULT}")]);
    assert!(!site.is_recorded());
}

#[test]
fn del_without_a_recorded_result_gets_that_of_the_runtime() {
    let site = Site::new(|_, _| Err(code::IO));
    site.add("").unwrap_err();
    site.delegate.log();
    site.del(r#","prevResult":{"ips":[]}"#).unwrap_err();
    assert_eq!(site.delegate.log(), [r#"DEL  {"ips":[]}"#]);
}

#[test]
fn a_linked_delegate_that_ends_after_its_time_has_timed_out_unless_it_refuses() {
    let keys = r#","ipam":{"delegates":["p"],"delegateTimeout":"20ms"}"#;
    let failing: [(Answer, u64); 2] = [
        (|_, _| Err(code::IO), code::TRY_AGAIN_LATER),
        (|_, _| Err(code::ALREADY_ALLOCATED), code::ALREADY_ALLOCATED),
    ];
    for (answer, code) in failing {
        let mut site = Site::new(answer);
        site.delegate.waits = true;
        let error = site.add(keys).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        let is_late = error.msg.contains("did not end within 20ms");
        assert_eq!(is_late, code == code::TRY_AGAIN_LATER, "{error}");
    }
    let keys = r#","ipam":{"delegates":["p"],"delegateTimeout":"1h"}"#;
    let error = Site::new(|_, _| Err(code::IO)).add(keys).unwrap_err();
    assert_eq!(error.code, code::IO, "{error}");
}

#[test]
fn a_failed_add_stays_recorded_only_if_it_may_hold_an_address() {
    let failing: [(Answer, bool); 5] = [
        (|_, _| Err(code::IO), true),
        (|_, _| Err(code::INVALID_CONFIG), false),
        (|_, _| Err(code::ALREADY_ALLOCATED), false),
        (|_, _| Ok(None), false),
        (
            |command, _| match command {
                Command::Add => Err(code::IO),
                _ => Ok(None),
            },
            false,
        ),
    ];
    for (i, (answer, is_recorded)) in failing.into_iter().enumerate() {
        let site = Site::new(answer);
        site.add("").unwrap_err();
        assert_eq!(site.is_recorded(), is_recorded, "{i}");
    }
}

#[test]
fn a_record_stays_until_its_delegate_is_installed_again() {
    let mut site = Site::new(WORKS);
    site.add("").unwrap();
    site.is_installed = false;
    let error = site.del(r#","ipam":{"delegates":["q"]}"#).unwrap_err();
    assert_eq!(error.code, code::DELEGATE_NOT_FOUND);
    assert!(site.is_recorded());
    site.is_installed = true;
    site.del(r#","ipam":{"delegates":["q"]}"#).unwrap();
    assert!(!site.is_recorded());
}

#[test]
fn an_add_whose_outcome_is_unknown_stays_recorded_though_the_rollback_has_succeeded() {
    let site = Site::new(|command, _| match command {
        Command::Add => Err(code::UNKNOWN_OUTCOME),
        _ => Ok(None),
    });
    site.add("").unwrap_err();
    assert!(site.is_recorded());
    site.del("").unwrap();
    assert!(!site.is_recorded());
}
