//! All plugins in one multi-call executable: fewer executables run, and everything else is the
//! same.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;

use harness::{Call, Flavour, Form, Output, PLUGINS, RANGES_CHAIN, Sandbox, example, needs};
use rustix::process::Signal;
use serde_json::{Value, json};

use harness::waiting::{held_lock, output_while, wait_for, wait_until_the_lock_is_wanted};

fn config(sandbox: &Sandbox, more: &Value) -> Value {
    let mut ipam = json!({"ranges": [[{"subnet": "10.1.0.0/29"}]]});
    let keys = ipam.as_object_mut().unwrap();
    keys.extend(more.as_object().unwrap().clone());
    sandbox.config("1.1.0", &RANGES_CHAIN, &ipam)
}

/// The executables that a successful ADD starts, in order.
fn executed(sandbox: &Sandbox, config: &Value) -> Vec<String> {
    let trace = sandbox.root().join("trace");
    let options = ["-f", "-s", "999", "-e", "trace=execve"];
    let call = sandbox.call("ipam-delegated", "ADD", config);
    call.traced(&trace, &options).run().result();
    sandbox.run("DEL", config).nothing();
    let trace = fs::read_to_string(trace).unwrap();
    trace
        .lines()
        .filter(|line| line.ends_with("= 0"))
        .filter_map(|line| {
            let path = line.split('"').nth(1)?;
            Some(Path::new(path).file_name()?.to_str()?.to_owned())
        })
        .collect()
}

#[test]
fn a_delegate_is_called_directly_only_if_it_is_the_same_file() {
    needs!("trace");
    let one_file = Sandbox::in_form(Flavour::Normal, Form::OneFile);
    let separate = Sandbox::in_form(Flavour::Normal, Form::Separate);
    let nothing = json!({});
    let all = ["ipam-delegated", "ipam-ds-ranges", "ipam-da-host-local"];
    assert_eq!(executed(&separate, &config(&separate, &nothing)), all);
    assert_eq!(executed(&one_file, &config(&one_file, &nothing)), all[..1]);
    let limited = json!({"delegateTimeout": 60});
    assert_eq!(executed(&one_file, &config(&one_file, &limited)), all);
    // A copy with the same bytes is another file. So is another plugin with that name which comes
    // first in CNI_PATH.
    let selector = one_file.plugins().join("ipam-ds-ranges");
    let copied = fs::canonicalize(&selector).unwrap();
    fs::remove_file(&selector).unwrap();
    fs::copy(copied, &selector).unwrap();
    assert_eq!(executed(&one_file, &config(&one_file, &nothing)), all[..2]);
}

#[test]
fn a_name_that_no_plugin_has_is_refused() {
    let sandbox = Sandbox::in_form(Flavour::Normal, Form::OneFile);
    let file = fs::canonicalize(sandbox.plugins().join("ipam-delegated")).unwrap();
    let itself = file.ancestors().nth(2).unwrap().join("ipam-plugins");
    let output = Call::new(itself).env("CNI_COMMAND", "VERSION").run();
    assert_eq!(output.code(), 4);
    for name in PLUGINS {
        output.prints([name]);
        output.warns([name]);
    }
}

/// Calls of all kinds, with the outcome and the log of each.
fn story(form: Form, flavour: Flavour) -> Vec<String> {
    let sandbox = Sandbox::in_form(flavour, form).with_script(
        "complains",
        "echo the fan is loud >&2; [ $CNI_COMMAND != ADD ] || echo '{\"ips\":[]}'",
    );
    let chain = ["complains", "ipam-ds-ranges", "ipam-da-host-local"];
    let good = json!({
        "ranges": [[{"subnet": "10.1.0.0/30"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
    });
    let good = sandbox.config("1.1.0", &chain, &good);
    let mut none_valid = good.clone();
    none_valid["cni.dev/valid-attachments"] = json!([]);
    let bad = json!({"ranges": [[{"subnet": "10.1.0.1/30"}]]});
    let bad = sandbox.config("1.1.0", &chain, &bad);
    let bad_args = json!({"ranges": [[{"subnet": "10.1.0.0/30"}]], "routes": 7});
    let bad_args = sandbox.config("1.1.0", &chain, &bad_args);
    let mut old = good.clone();
    old["cniVersion"] = json!("0.3.1");
    let mut said = Vec::new();
    let mut call = |command: &str, container: &str, config: &Value| {
        let output = sandbox
            .call("ipam-delegated", command, config)
            .container(container)
            .env(
                "TRACEPARENT",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            )
            .run();
        said.push(told(&sandbox, command, &output));
    };
    call("VERSION", "a", &good);
    call("STATUS", "a", &good);
    call("ADD", "a", &good);
    call("CHECK", "a", &good);
    call("ADD", "b", &good);
    call("STATUS", "a", &good);
    call("ADD", "c", &bad);
    call("ADD", "c", &bad_args);
    call("DEL", "a", &good);
    call("DEL", "a", &bad);
    call("ADD", "c", &old);
    call("GC", "-", &none_valid);
    call("ADD", "d", &json!({"cniVersion": "1.1.0", "name": "n"}));
    said.push(format!("{:?}", sandbox.reservations("testnet")));
    for plugin in PLUGINS {
        let log = sandbox.log(plugin);
        said.extend(log.lines().map(|line| without_chance(&sandbox, line)));
    }
    said
}

fn told(sandbox: &Sandbox, command: &str, output: &Output) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = output;
    let stderr: Vec<String> = stderr
        .lines()
        .map(|line| without_chance(sandbox, line))
        .collect();
    let stdout = without_chance(sandbox, stdout);
    format!("{command}: {status}\n{stdout}\n{}", stderr.join("\n"))
}

/// A line without the parts that differ in each run: time, process, duration, folder.
fn without_chance(sandbox: &Sandbox, text: &str) -> String {
    let text = text.replace(sandbox.root().to_str().unwrap(), "…");
    let words = text.split(' ').map(|word| {
        let is_time = word.ends_with('Z') && word.contains('T') && word.contains(':');
        let rest = match word.split_once("pid=") {
            Some((before, after)) => {
                let digits = after.trim_start_matches(|c: char| c.is_ascii_digit());
                format!("{before}pid={digits}")
            }
            None => word.to_owned(),
        };
        match rest {
            _ if is_time => "<time>".to_owned(),
            rest if rest.starts_with("milliseconds=") => "<milliseconds>".to_owned(),
            rest => rest,
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn both_forms_say_the_same() {
    for flavour in [Flavour::Normal, Flavour::Verbose] {
        let [separate, one_file] = [Form::Separate, Form::OneFile].map(|form| story(form, flavour));
        for (separate, one_file) in separate.iter().zip(&one_file) {
            assert_eq!(separate, one_file);
        }
        assert_eq!(separate.len(), one_file.len());
        let expected = if flavour == Flavour::Verbose { 100 } else { 14 };
        assert!(separate.len() >= expected, "{}", separate.len());
    }
}

#[test]
fn a_panic_is_the_delegates_failure_and_stays_recorded_until_the_del() {
    let sandbox = Sandbox::in_form(Flavour::Normal, Form::OneFile);
    let chain = ["ipam-ds-ranges", "ipam-da-host-local", "ipam-da-panics"];
    for name in ["ipam-delegated", "ipam-da-host-local", "ipam-da-panics"] {
        let path = sandbox.plugins().join(name);
        let _ = fs::remove_file(&path);
        symlink(example("with-a-defect"), path).unwrap();
    }
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/29"}]]});
    let config = sandbox.config("1.1.0", &chain, &ipam);
    let output = sandbox.run("ADD", &config);
    let defect = "ipam-da-panics: this is a defect in the plugin: no room for c1 eth0";
    output.error_is(199, defect);
    output.prints(["undone by DEL: ipam-ds-ranges, ipam-da-host-local, ipam-da-panics"]);
    output.warns(["panic"]);
    assert_eq!(sandbox.reserved("testnet"), [""; 0]);
    // Nobody knows how far it has got.
    assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"]);
    sandbox.run("DEL", &config).nothing();
    assert_eq!(sandbox.records("testnet"), [""; 0]);
}

/// Waits until the record of c1 says this.
fn wait_for_record(sandbox: &Sandbox, text: &str) {
    let record = sandbox.state_dir().join("testnet/c1:eth0.json");
    wait_for(|| fs::read_to_string(&record).is_ok_and(|json| json.contains(text)));
}

#[test]
fn an_executed_selectors_result_is_recorded_before_the_allocator_runs() {
    for form in [Form::OneFile, Form::Separate] {
        let sandbox = Sandbox::in_form(Flavour::Normal, form).with_script(
            "ipam-ds-once",
            "[ $CNI_COMMAND = ADD ] || exit 1\n\
             echo '{\"ips\":[],\"pools\":[{\"subnet\":\"10.1.0.0/24\"}]}'",
        );
        let chain = ["ipam-ds-once", "ipam-da-host-local"];
        let config = sandbox.config("1.1.0", &chain, &json!({}));
        let lock = held_lock(&sandbox, "testnet");
        let running = sandbox.call("ipam-delegated", "ADD", &config).start();
        wait_for_record(&sandbox, "10.1.0.0/24");
        running.kill();
        drop(lock);
        let del = sandbox.run("DEL", &config);
        assert!(del.status.success(), "{form:?}: {del:?}");
        assert_eq!(sandbox.reserved("testnet"), [""; 0], "{form:?}");
        assert_eq!(sandbox.records("testnet"), [""; 0], "{form:?}");
    }
}

#[test]
fn sigterm_ends_the_wait_for_a_lock() {
    let end_the_wait = |form| {
        let sandbox = Sandbox::in_form(Flavour::Normal, form);
        let config = config(&sandbox, &json!({}));
        sandbox.run_for("ADD", "first", &config).result();
        let lock = held_lock(&sandbox, "testnet");
        let running = sandbox.call("ipam-delegated", "ADD", &config).start();
        wait_until_the_lock_is_wanted(&sandbox, "testnet");
        running.signal(Signal::TERM);
        // The rollback's wait for the lock ends, too.
        let output = output_while(lock, running);
        assert_eq!(output.code(), 106, "{form:?}: {output:?}");
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"], "{form:?}");
        // A process was killed, and the one file has given up by itself.
        sandbox.run("DEL", &config).nothing();
        assert_eq!(sandbox.records("testnet"), ["first:eth0.json"], "{form:?}");
    };
    thread::scope(|scope| {
        scope.spawn(|| end_the_wait(Form::OneFile));
        scope.spawn(|| end_the_wait(Form::Separate));
    });
}
