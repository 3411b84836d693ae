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

use crate::call::plugins::Plugins;
use crate::chain::Chain;
use crate::record::attachments;
use crate::run::tool_release::{Released, WhenBusy};
use crate::tests::{LinkedExample, attachment, config};

mod after_an_add;

/// The answer to a command with a configuration: a result, nothing, or the code of an error.
type Answer = fn(Command, &NetworkConfig) -> Result<Option<&'static str>, u64>;

/// The linked delegate `p`.
struct Fake {
    answer: Mutex<Answer>,
    /// True if it waits until it is cancelled.
    waits: bool,
    log: Mutex<Vec<String>>,
}

impl Fake {
    fn new(answer: Answer) -> Self {
        Self {
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
        "p"
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
            chain.release(&attachment(), WhenBusy::Refuse, refuse)
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

#[test]
fn a_second_add_is_refused_unless_check_says_that_the_address_is_lost() {
    let site = Site::new(WORKS);
    site.add("").unwrap();
    let error = site.add("").unwrap_err();
    assert_eq!(error.code, code::ALREADY_ALLOCATED);
    assert!(!error.details.contains("could not tell"), "{error:?}");
    site.delegate.answers(FAILS);
    let error = site.add("").unwrap_err();
    assert_eq!(error.code, code::ALREADY_ALLOCATED);
    assert!(error.details.contains("CHECK could not tell"), "{error:?}");
    site.delegate.answers(|command, config| match command {
        Command::Check => Err(code::NOT_RESERVED),
        _ => WORKS(command, config),
    });
    site.add("").unwrap();
    let commands = site.delegate.log().into_iter();
    let commands: Vec<String> = commands
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(commands, ["ADD", "CHECK", "CHECK", "CHECK", "ADD"]);
}

#[test]
fn del_gets_the_args_of_the_runtime_and_else_those_of_the_add() {
    let mut site = Site::new(FAILS);
    site.environment = site.environment.with("CNI_ARGS", "A=1");
    site.add("").unwrap();
    site.delegate.log();
    for (args, given) in [("B=2", "B=2"), ("", "A=1")] {
        site.environment = site.environment.with("CNI_ARGS", args);
        site.del("").unwrap_err();
        assert_eq!(site.delegate.log(), [format!("DEL {given} {RESULT}")]);
    }
}

#[test]
fn del_gets_the_addresses_of_the_record_if_the_runtime_gives_none() {
    let site = Site::new(FAILS);
    site.add("").unwrap();
    site.delegate.log();
    let other = r#"{"ips":[{"address":"10.0.0.9/24"}]}"#;
    for (given, gets) in [
        ("", RESULT),
        (
            r#"{"ips":[],"y":2}"#,
            r#"{"y":2,"ips":[{"address":"10.0.0.2/24"}],"x":1}"#,
        ),
        (other, other),
    ] {
        let keys = match given {
            "" => String::new(),
            given => format!(r#","prevResult":{given}"#),
        };
        site.del(&keys).unwrap_err();
        assert_eq!(site.delegate.log(), [format!("DEL  {gets}")]);
    }
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
fn a_delegate_that_is_gone_does_not_stop_del_if_the_configuration_names_it_no_more() {
    let mut site = Site::new(WORKS);
    site.add("").unwrap();
    site.is_installed = false;
    let error = site.del("").unwrap_err();
    assert_eq!(error.code, code::DELEGATE_NOT_FOUND);
    assert!(site.is_recorded());
    site.del(r#","ipam":{"delegates":["q"]}"#).unwrap();
    assert!(!site.is_recorded());
}

#[test]
fn del_that_fails_with_the_former_configuration_is_tried_with_todays_if_check_confirms_it() {
    const FORMER: &str = r#","vlan":1,"ipam":{"delegates":["p"]}"#;
    const TODAY: &str = r#","vlan":2,"ipam":{"delegates":["p"]}"#;
    fn is_former(config: &NetworkConfig) -> bool {
        String::from_utf8_lossy(config.as_bytes()).contains("\"vlan\":1")
    }
    let site = Site::new(|command, config| match command {
        Command::Del if is_former(config) => Err(code::IO),
        Command::Check => Err(code::NOT_RESERVED),
        _ => WORKS(command, config),
    });
    site.add(FORMER).unwrap();
    let error = site.del(TODAY).unwrap_err();
    assert_eq!(error.code, code::TRY_AGAIN_LATER);
    assert!(site.is_recorded());
    site.delegate.answers(|command, config| match command {
        Command::Del if is_former(config) => Err(code::IO),
        _ => WORKS(command, config),
    });
    site.del(TODAY).unwrap();
    assert!(!site.is_recorded());
}
