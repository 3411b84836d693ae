//! Each system call of a chain fails in turn, in each form of chain: no living container's address
//! is released, no record is lost while an address is held, and a successful call has released
//! everything.

use std::collections::BTreeMap;
use std::fs;

use harness::{
    Call, FaultPoint, FaultWalk, Flavour, Form, Output, RANGES_CHAIN, RULES_CHAIN, STRACE, Sandbox,
    needs, plugins, reference,
};
use serde_json::{Value, json};

/// A form of chain, with a living neighbour, and calls for a container `c`.
struct Chain {
    sandbox: Sandbox,
    config: Value,
    /// The executable that is called for GC: the chain itself, or `ipam-gc`.
    gc: &'static str,
    /// The directories of reservations.
    directories: Vec<&'static str>,
    /// The delegate whose system calls fail; `None` for the chain itself.
    traced: Option<&'static str>,
}

impl Chain {
    fn new(form: Form, version: &str, delegates: &[&str], ipam: &Value) -> Self {
        let sandbox = Sandbox::in_form(Flavour::Normal, form);
        let mut config = sandbox.config(version, delegates, ipam);
        config["cni.dev/valid-attachments"] = json!([{"containerID": "lives", "ifname": "eth0"}]);
        Self {
            sandbox,
            config,
            gc: "ipam-delegated",
            directories: vec!["testnet"],
            traced: None,
        }
    }

    fn ranges(form: Form) -> Self {
        let ranges = json!([[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]);
        Self::new(form, "1.1.0", &RANGES_CHAIN, &json!({"ranges": ranges}))
    }

    fn rules(form: Form) -> Self {
        let catalogue = json!({
            "pools": {
                "web": {"subnet": "10.1.0.0/24"}, "web6": {"subnet": "fd00:1::/64"},
                "rest": {"subnet": "10.9.0.0/16"}},
            "rules": [
                {"when": {"K8S_POD_NAMESPACE": "prod"}, "pools": ["web", "web6"]},
                {"pools": ["rest"]}]});
        let mut chain = Self::new(form, "1.1.0", &RULES_CHAIN, &catalogue);
        chain.directories = vec!["pools"];
        chain
    }

    /// The reference `host-local` as the only delegate, with version 1.0.0, so without GC.
    fn host_local() -> Self {
        let ranges = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
        let mut chain = Self::new(Form::Separate, "1.0.0", &["host-local"], &ranges);
        chain.sandbox = chain.sandbox.with_reference("host-local");
        chain
    }

    fn call(&self, command: &str, container: &str) -> Call {
        let plugin = if matches!(command, "GC" | "STATUS") {
            self.gc
        } else {
            "ipam-delegated"
        };
        let mut config = self.config.clone();
        config["type"] = json!(plugin);
        self.sandbox
            .call(plugin, command, &config)
            .container(container)
            .env(
                "CNI_ARGS",
                "IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME=p",
            )
    }

    /// The addresses of a container.
    fn held(&self, container: &str) -> Vec<String> {
        let all = self.directories.iter();
        let all = all.flat_map(|directory| self.sandbox.reservations(directory));
        all.filter(|(_, content)| content.starts_with(&format!("{container}\r\n")))
            .map(|(ip, _)| ip)
            .collect()
    }

    /// The record of a container.
    fn record(&self, container: &str) -> Option<String> {
        let name = format!("testnet/{container}:eth0.json");
        fs::read_to_string(self.sandbox.state_dir().join(name)).ok()
    }

    /// The neighbour's addresses and record, which must not change.
    fn living(&self) -> (Vec<String>, Option<String>) {
        (self.held("lives"), self.record("lives"))
    }

    /// Runs the call while this point fails in the traced process.
    fn run_at(&self, command: &str, point: &FaultPoint) -> Output {
        let Some(delegate) = self.traced else {
            return FaultWalk::run_at(self.call(command, "c"), point);
        };
        let FaultPoint { name, time, error } = point;
        let strace = format!("-o /dev/null -e inject={name}:error={error}:when={time}");
        self.trace_delegate(delegate, command, &strace);
        let output = self.call(command, "c").run();
        self.trace_delegate(delegate, "", "-o /dev/null");
        output
    }

    /// Runs a delegate through strace, for one command.
    fn trace_delegate(&self, delegate: &str, command: &str, options: &str) {
        let real = plugins(Flavour::Normal, Form::Separate).join(delegate);
        let real = reference(delegate).unwrap_or(real);
        let script = format!(
            "#!/bin/sh\n[ \"$CNI_COMMAND\" != '{command}' ] || exec timeout 60 {STRACE} -qq -s 256 \
             {options} '{0}'\nexec '{0}'\n",
            real.display()
        );
        self.sandbox.write_executable(delegate, &script);
    }

    fn record_points(&self, command: &str) -> (FaultWalk, Output) {
        let trace = self.sandbox.root().join("trace");
        let Some(delegate) = self.traced else {
            return FaultWalk::record(self.call(command, "c"), &trace, "read(0");
        };
        self.trace_delegate(delegate, command, &format!("-o '{}'", trace.display()));
        let output = self.call(command, "c").run();
        (FaultWalk::of_trace(&trace, "read(0"), output)
    }

    /// Walks the system calls of a command for `c`.
    fn walk(&self, command: &str) {
        let is_release = matches!(command, "DEL" | "GC");
        let before = if command == "ADD" { "DEL" } else { "ADD" };
        self.call(before, "c").run();
        let living = self.living();
        let count = living.0.len();
        assert!(count > 0 && living.1.is_some());
        let (walk, output) = self.record_points(command);
        assert!(output.status.success(), "{command}: {output:?}");
        let mut codes = BTreeMap::new();
        for point in walk.points.iter().filter(|point| point.name != "close") {
            self.call("DEL", "c").run().nothing();
            if command != "ADD" {
                self.call("ADD", "c").run().result();
            }
            let output = self.run_at(command, point);
            let about = || format!("{command}, {point}: {output:?}");
            *codes.entry(output.status.code()).or_insert(0) += 1;
            assert_eq!(self.living(), living, "{}", about());
            let held = self.held("c").len();
            let warns = output.stderr.contains("WARN");
            match output.status.success() {
                true if is_release => assert!(held == 0 || warns, "{}", about()),
                true => assert_eq!(held, count, "{}", about()),
                false => {}
            }
            // An ADD that can't write its record warns, and continues without.
            let may_lack_record = command == "ADD" && warns;
            let is_recorded = self.record("c").is_some() || may_lack_record;
            assert!(held == 0 || is_recorded, "{}", about());
            if command == "STATUS" {
                assert_eq!(held, count, "{}", about());
                continue;
            }
            let again = if command == "GC" { "GC" } else { "DEL" };
            let clean = self.call(again, "c").run();
            assert!(clean.status.success(), "{} {clean:?}", about());
            assert!(self.held("c").is_empty(), "{}", about());
            assert_eq!(self.record("c"), None, "{}", about());
            assert_eq!(self.living(), living, "{}", about());
        }
        let points = walk.points.len();
        println!("{:?} {command}: {points} points, {codes:?}", self.traced);
    }

    fn walk_all(self, commands: &[&str]) {
        self.call("ADD", "lives").run().result();
        for command in commands {
            self.walk(command);
        }
    }

    fn traced(mut self, delegate: &'static str) -> Self {
        self.traced = Some(delegate);
        self
    }
}

const ALL: [&str; 4] = ["ADD", "DEL", "GC", "STATUS"];

#[test]
fn a_chain_of_executables_keeps_what_lives_and_forgets_nothing_whatever_fails() {
    needs!("trace");
    Chain::ranges(Form::Separate).walk_all(&ALL);
}

#[test]
fn a_chain_in_one_executable_keeps_what_lives_and_forgets_nothing_whatever_fails() {
    needs!("trace");
    Chain::ranges(Form::OneFile).walk_all(&ALL);
}

#[test]
fn a_chain_by_rules_keeps_what_lives_and_forgets_nothing_whatever_fails() {
    needs!("trace");
    Chain::rules(Form::OneFile).walk_all(&ALL);
}

#[test]
fn a_chain_keeps_what_lives_and_forgets_nothing_whatever_fails_in_its_delegate() {
    needs!("trace");
    for delegate in ["ipam-da-host-local", "ipam-ds-rules"] {
        Chain::rules(Form::Separate).traced(delegate).walk_all(&ALL);
    }
}

#[test]
fn a_chain_of_the_reference_host_local_forgets_nothing_whatever_fails() {
    needs!("trace", "host-local");
    Chain::host_local().walk_all(&["ADD", "DEL"]);
}

#[test]
fn the_gc_of_ipam_gc_keeps_what_lives_and_forgets_nothing_whatever_fails() {
    needs!("trace");
    for form in [Form::Separate, Form::OneFile] {
        let mut chain = Chain::ranges(form);
        chain.gc = "ipam-gc";
        chain.walk_all(&["GC", "STATUS"]);
    }
}
