//! The verbose flavour's log: one file per day (UTC). The newest seven are kept.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime};

use harness::{
    ALLOCATOR, CC, Call, Flavour, IPAM_DELEGATED, Node, Sandbox, StoppedClock, assert_has, needs,
};
use serde_json::json;

const DAY: i64 = 24 * 60 * 60;
/// A selector: it has no files except its log.
const SELECTOR: &str = "ipam-ds-ranges";

/// Plugins of the verbose flavour, with a stopped clock.
struct Logs {
    sandbox: Sandbox,
    clock: StoppedClock,
}

impl Logs {
    fn new() -> Self {
        let sandbox = Sandbox::new(Flavour::Verbose);
        let clock = StoppedClock::new(&sandbox);
        Self { sandbox, clock }
    }

    /// An ADD of the selector, at this time.
    fn selector_at(&self, time: i64) -> Call {
        self.clock.set(selector(&self.sandbox), time)
    }

    /// Runs an ADD at noon of each of these days.
    fn run_on_days(&self, days: impl IntoIterator<Item = i64>) {
        for day in days {
            let output = self.selector_at(midnight_before(day) + DAY / 2).run();
            output.result();
            assert_eq!(output.stderr, "", "day {day}");
        }
    }

    fn files(&self) -> Vec<String> {
        self.sandbox.log_files(SELECTOR)
    }
}

/// The file that the link `<plugin>.log` leads to.
fn linked(sandbox: &Sandbox, plugin: &str) -> String {
    let link = sandbox.log_dir().join(format!("{plugin}.log"));
    let target = fs::read_link(link).unwrap();
    target.into_os_string().into_string().unwrap()
}

fn selector(sandbox: &Sandbox) -> Call {
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let config = sandbox.config("1.0.0", &[SELECTOR], &ipam);
    sandbox.call(SELECTOR, "ADD", &config)
}

/// The first second of a UTC day, counted from one in 2024.
fn midnight_before(day: i64) -> i64 {
    (20_000 + day) * DAY
}

/// The names of the files of these days.
fn names(days: impl IntoIterator<Item = i64>) -> Vec<String> {
    let name = |day: i64| {
        let time = u64::try_from(midnight_before(day)).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(time);
        let date = &humantime::format_rfc3339(time).to_string()[..10];
        format!("{SELECTOR}.log.{date}")
    };
    days.into_iter().map(name).collect()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn each_day_has_a_file_and_the_newest_seven_are_kept() {
    needs!(CC);
    let logs = Logs::new();
    fs::create_dir(logs.sandbox.log_dir()).unwrap();
    let log_of_another = logs
        .sandbox
        .log_dir()
        .join("ipam-ds-ranges-two.log.2020-01-01");
    fs::write(&log_of_another, "").unwrap();
    for today in 0..10 {
        // More than one process per day.
        logs.run_on_days([today, today]);
        assert_eq!(logs.files(), names((today - 6).max(0)..=today));
        assert_eq!(linked(&logs.sandbox, SELECTOR), names([today])[0]);
    }
    assert!(log_of_another.exists());
}

#[test]
fn forty_processes_at_midnight_keep_seven_files_and_lose_no_line() {
    needs!(CC);
    let logs = Logs::new();
    logs.run_on_days(0..9);
    let lines = |name: &str| {
        let log = fs::read_to_string(logs.sandbox.log_dir().join(name)).unwrap();
        log.lines().count()
    };
    let of_one_call = lines(&names([8])[0]);

    let start = Barrier::new(40);
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                start.wait();
                let call = logs.selector_at(midnight_before(9));
                let output = call.through(&["sh", "-c", "umask 0; exec \"$0\""]).run();
                output.result();
                assert_eq!(output.stderr, "");
            });
        }
    });
    assert_eq!(logs.files(), names(3..=9));
    let today = &names([9])[0];
    assert_eq!(lines(today), 40 * of_one_call);
    assert_eq!(linked(&logs.sandbox, SELECTOR), *today);
    let entries = harness::names(logs.sandbox.log_dir());
    assert_eq!(entries.len(), 8, "seven files and the link: {entries:?}");
    assert_eq!(mode(&logs.sandbox.log_dir().join(today)), 0o640);
}

#[test]
fn a_call_that_goes_on_after_midnight_logs_to_the_file_of_each_day() {
    needs!(CC);
    let logs = Logs::new();
    logs.run_on_days(-7..0);
    let sandbox = logs
        .sandbox
        .with_script("sleeps", ": > \"$LATER\"; echo '{\"ips\":[]}'");
    let config = sandbox.config("1.0.0", &["sleeps"], &json!({}));
    let call = sandbox.call(IPAM_DELEGATED, "ADD", &config);
    let output = logs
        .clock
        .set(call, midnight_before(1) - 5)
        .env("LATER", sandbox.root().join("later"))
        .through(&["sh", "-c", "umask 0; exec \"$0\""])
        .run();
    output.result();
    assert_eq!(output.stderr, "");
    let [today, tomorrow] = &sandbox.log_files(IPAM_DELEGATED)[..] else {
        panic!("{:?}", sandbox.log_files(IPAM_DELEGATED));
    };
    for (name, text) in [
        (today, "running the delegate"),
        (tomorrow, "delivering the answer"),
    ] {
        let file = sandbox.log_dir().join(name);
        let log = fs::read_to_string(&file).unwrap();
        assert_eq!(log.matches(text).count(), 1, "{name}: {log}");
        assert_eq!(mode(&file), 0o640, "{name}");
    }
    assert_eq!(linked(&sandbox, IPAM_DELEGATED), *tomorrow);
}

#[test]
fn what_somebody_else_has_put_under_the_name_of_the_link_stays() {
    let sandbox = Sandbox::new(Flavour::Verbose);
    fs::create_dir(sandbox.log_dir()).unwrap();
    let name = sandbox.log_dir().join(format!("{SELECTOR}.log"));
    let (other, victim) = (sandbox.root().join("other"), sandbox.root().join("victim"));
    fs::write(&other, "precious").unwrap();
    for link in [None, Some(&other), Some(&victim)] {
        match link {
            None => fs::write(&name, "precious").unwrap(),
            Some(target) => symlink(target, &name).unwrap(),
        }
        let output = selector(&sandbox).run();
        output.result();
        assert_eq!(output.stderr, "");
        assert_eq!(fs::read_link(&name).ok().as_ref(), link);
        fs::remove_file(&name).unwrap();
    }
    assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
    assert!(!victim.exists() && sandbox.log(SELECTOR).contains("called"));
}

#[test]
fn a_link_under_the_name_of_today_or_tomorrow_is_not_followed() {
    needs!(CC);
    for (link, time) in [
        (0, midnight_before(0) + DAY / 2),
        (1, midnight_before(1) - 2),
        (1, midnight_before(1)),
    ] {
        for exists in [true, false] {
            let logs = Logs::new();
            logs.run_on_days([-1]);
            let victim = logs.sandbox.root().join("victim");
            if exists {
                fs::write(&victim, "precious").unwrap();
            }
            let link = logs.sandbox.log_dir().join(&names([link])[0]);
            symlink(&victim, link).unwrap();
            let output = logs.selector_at(time).run();
            output.result();
            output.warns(["it is a symbolic link"]);
            let content = fs::read_to_string(&victim).ok();
            assert_eq!(content.as_deref(), exists.then_some("precious"));
        }
    }
}

#[test]
fn a_full_disk_costs_the_log_and_not_the_call() {
    needs!("root");
    let sandbox = Sandbox::new(Flavour::Verbose);
    let node = Node::new();
    let folder = sandbox.log_dir();
    fs::create_dir(&folder).unwrap();
    let folder = folder.display();
    for (options, fill) in [
        // No block is free.
        (
            "size=16k,mode=750",
            "head -c 20k /dev/zero > $folder/zeros || :",
        ),
        // No inode is free.
        ("nr_inodes=1,mode=750", ":"),
    ] {
        node.sh(&format!(
            "folder={folder}; mount -t tmpfs -o {options} tmpfs $folder; {fill}"
        ));
        let output = selector(&sandbox).run_on(&node);
        output.result();
        let warnings = output.stderr.matches("the log file can't be written");
        assert_eq!(warnings.count(), 1, "{output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
        node.sh(&format!("umount {folder}"));
    }
}

#[test]
fn a_log_folder_that_cant_be_used_never_fails_a_call() {
    needs!("root");
    let sandbox = Sandbox::new(Flavour::Verbose);
    fs::set_permissions(sandbox.root(), Permissions::from_mode(0o755)).unwrap();
    let warns = |call: Call, why: &str| {
        let output = call.run();
        output.result();
        let warning = "the log file can't be written";
        output.warns([warning, why]);
    };
    let relative = selector(&sandbox).env("IPAM_DELEGATED_LOG_DIR", "logs");
    warns(relative, "IPAM_DELEGATED_LOG_DIR is not an absolute path");
    fs::write(sandbox.log_dir(), "a file where the folder should be").unwrap();
    warns(selector(&sandbox), "Not a directory");
    fs::remove_file(sandbox.log_dir()).unwrap();
    fs::create_dir(sandbox.log_dir()).unwrap();
    fs::set_permissions(sandbox.log_dir(), Permissions::from_mode(0o700)).unwrap();
    warns(selector(&sandbox).as_user(65534), "Permission denied");
    fs::set_permissions(sandbox.log_dir(), Permissions::from_mode(0o777)).unwrap();
    warns(selector(&sandbox), "others may write to it");
    assert!(sandbox.log_files(SELECTOR).is_empty());
}

#[test]
fn the_logs_are_in_var_log_cni_by_default() {
    needs!("root");
    let sandbox = Sandbox::new(Flavour::Verbose);
    let node = Node::new();
    selector(&sandbox)
        .without("IPAM_DELEGATED_LOG_DIR")
        .run_on(&node)
        .result();
    let name = node.sh("ls /var/log/cni");
    let [link, file] = &name.lines().collect::<Vec<_>>()[..] else {
        panic!("{name}");
    };
    assert_eq!(*link, "ipam-ds-ranges.log");
    assert!(file.starts_with("ipam-ds-ranges.log.20"), "{name}");
}

/// The command of the operations page for an address at a time, on this node.
fn who_had_it(node: &Node) -> String {
    let page = harness::document("docs/operations.md");
    let blocks = harness::blocks(&page, "sh");
    let mut of_address = blocks.iter().filter(|block| block.contains("until="));
    node.sh(of_address.next().unwrap())
}

#[test]
fn the_command_of_the_manual_says_who_had_an_address_at_a_time() {
    needs!("root", CC);
    let sandbox = Sandbox::new(Flavour::Verbose);
    let clock = StoppedClock::new(&sandbox);
    let node = Node::new();
    let range =
        json!({"subnet": "10.77.0.0/24", "rangeStart": "10.77.0.3", "rangeEnd": "10.77.0.3"});
    let config = sandbox.config(
        "1.1.0",
        &[SELECTOR, ALLOCATOR],
        &json!({"ranges": [[range]]}),
    );
    let run = |command: &str, pod: &str, hour: u64| {
        let time = humantime::parse_rfc3339(&format!("2026-11-24T{hour:02}:59:00Z")).unwrap();
        let time = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let args = format!("IgnoreUnknown=1;K8S_POD_NAME={pod};TEAM=x: reserved y");
        let call = sandbox.chain_call(command, pod, &config);
        let call = call.env("CNI_ARGS", args).without("IPAM_DELEGATED_LOG_DIR");
        let seconds = i64::try_from(time.as_secs()).unwrap();
        assert!(clock.set(call, seconds).run_on(&node).status.success());
    };
    run("ADD", "web-1", 12);
    let of_web = who_had_it(&node);
    assert!(of_web.contains("K8S_POD_NAME=web-1;"), "{of_web}");
    assert!(of_web.contains(" container=web-1 ifname="), "{of_web}");
    run("DEL", "web-1", 13);
    let of_nobody = who_had_it(&node);
    assert_has(&of_nobody, [": released ip=10.77.0.3 "]);
    assert!(of_nobody.contains("K8S_POD_NAME=web-1;"), "{of_nobody}");
    run("ADD", "web-2", 14);
    run("DEL", "web-2", 15);
    run("ADD", "web-3", 16);
    let of_the_second = who_had_it(&node);
    assert_has(&of_the_second, [" container=web-2 "]);
    assert_eq!(of_the_second.lines().count(), 1, "{of_the_second}");
}
