//! Calls of executables, and their output.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Node;

/// Builder of a call. Of the tests' environment, it inherits only `PATH`.
#[derive(Clone)]
pub struct Call {
    executable: PathBuf,
    env: BTreeMap<OsString, OsString>,
    arguments: Vec<OsString>,
    stdin: Vec<u8>,
    user: Option<u32>,
    /// A program with arguments that runs the executable.
    through: Vec<String>,
}

impl Call {
    /// A call of this executable without `CNI_` variables and with an empty
    /// stdin.
    pub fn new(executable: PathBuf) -> Self {
        let env = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
        Self {
            executable,
            env: env.into_iter().collect(),
            arguments: Vec::new(),
            stdin: Vec::new(),
            user: None,
            through: Vec::new(),
        }
    }

    /// The path of its executable.
    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// Its executable and its arguments.
    pub fn words(&self) -> impl Iterator<Item = &OsStr> {
        let arguments = self.arguments.iter().map(OsString::as_os_str);
        std::iter::once(self.executable.as_os_str()).chain(arguments)
    }

    /// The same call with another executable.
    #[must_use]
    pub fn with_executable(mut self, executable: PathBuf) -> Self {
        self.executable = executable;
        self
    }

    /// Adds arguments behind those it has.
    #[must_use]
    pub fn args<T: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        let arguments = arguments.into_iter();
        self.arguments
            .extend(arguments.map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable; the last value of several counts.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.insert(name.into(), value.as_ref().to_owned());
        self
    }

    /// Removes an environment variable.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.env.remove(OsStr::new(name));
        self
    }

    /// Sets the container ID.
    #[must_use]
    pub fn container(self, id: &str) -> Self {
        self.env("CNI_CONTAINERID", id)
    }

    /// The whole of its stdin, which is empty otherwise.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Runs it to its end.
    pub fn run(self) -> Output {
        self.start().output()
    }

    /// Runs it as this user.
    #[must_use]
    pub fn as_user(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    /// Runs it as an argument of another program.
    #[must_use]
    pub fn through(mut self, program: &[&str]) -> Self {
        self.through = program.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Starts it; its stdin is written by a thread.
    pub fn start(self) -> Running {
        let mut child = self.spawn(self.command());
        let mut stdin = child.stdin.take().unwrap();
        // In a thread, since the executable may print before it has read the whole stdin.
        std::thread::spawn(move || {
            let _ = stdin.write_all(&self.stdin);
        });
        Running { child }
    }

    fn command(&self) -> Command {
        let mut command = match self.through.split_first() {
            None => Command::new(&self.executable),
            Some((program, words)) => {
                let mut command = Command::new(program);
                command.args(words).arg(&self.executable);
                command
            }
        };
        command.args(&self.arguments);
        command
    }

    /// Starts it, and kills it after this time if it is still running.
    pub fn run_and_kill(self, after: Duration) {
        let mut child = self.spawn(self.command());
        let _ = child.stdin.take().unwrap().write_all(&self.stdin);
        std::thread::sleep(after);
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// Runs it to its end on a test node.
    pub fn run_on(mut self, node: &Node) -> Output {
        self.through.splice(0..0, node.entrance());
        self.run()
    }

    fn spawn(&self, mut command: Command) -> Child {
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
            .env_clear()
            .envs(&self.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", self.executable.display()))
    }
}

/// A call that runs. It goes on if this is dropped.
pub struct Running {
    child: Child,
}

impl Running {
    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Closes the read end of its stdout.
    pub fn stop_listening(&mut self) {
        drop(self.child.stdout.take());
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills it by SIGKILL, and waits for its end.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub fn output(self) -> Output {
        let output = self.child.wait_with_output().unwrap();
        Output {
            status: output.status,
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Output of a call that has ended.
#[derive(Debug)]
pub struct Output {
    /// The exit status.
    pub status: ExitStatus,
    /// All of its stdout.
    pub stdout: String,
    /// All of its stderr.
    pub stderr: String,
}

impl Output {
    /// The result of a call that succeeded.
    #[track_caller]
    pub fn result(&self) -> Value {
        assert!(self.status.success(), "{self:?}");
        self.json()
    }

    /// Checks that the call succeeded and printed nothing.
    #[track_caller]
    pub fn nothing(&self) {
        assert!(self.status.success() && self.stdout.is_empty(), "{self:?}");
    }

    /// The CNI error of a call that failed.
    #[track_caller]
    pub fn error(&self) -> Value {
        assert_eq!(self.status.code(), Some(1), "{self:?}");
        let error = self.json();
        assert!(error["msg"].is_string(), "{error}");
        error
    }

    /// Asserts that the call failed with this code, and with this text in its message.
    #[track_caller]
    pub fn refused(&self, code: u64, text: &str) {
        let error = self.error();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["msg"].as_str().unwrap().contains(text), "{error}");
    }

    /// Asserts that the call failed with this code and with exactly this message.
    #[track_caller]
    pub fn error_is(&self, code: u64, message: &str) {
        let error = self.error();
        assert_eq!(
            (&error["code"], &error["msg"]),
            (&code.into(), &message.into()),
            "{error}"
        );
    }

    /// The code of the CNI error of a call that failed.
    #[track_caller]
    pub fn code(&self) -> u64 {
        self.error()["code"]
            .as_u64()
            .unwrap_or_else(|| panic!("{self:?}"))
    }

    /// Asserts that its stdout has all of these parts.
    #[track_caller]
    pub fn prints(&self, parts: impl IntoIterator<Item = impl AsRef<str>>) {
        self.has(&self.stdout, parts);
    }

    /// Asserts that its stderr has all of these parts.
    #[track_caller]
    pub fn warns(&self, parts: impl IntoIterator<Item = impl AsRef<str>>) {
        self.has(&self.stderr, parts);
    }

    #[track_caller]
    fn has(&self, text: &str, parts: impl IntoIterator<Item = impl AsRef<str>>) {
        for part in parts {
            let part = part.as_ref();
            assert!(text.contains(part), "{part:?} is missing: {self:?}");
        }
    }

    /// Asserts that the call ended with this exit status.
    #[track_caller]
    pub fn ends(&self, status: i32) -> &Self {
        assert_eq!(self.status.code(), Some(status), "{self:?}");
        self
    }

    /// Asserts that the call ended with this exit status, and that its stderr has all of these parts.
    #[track_caller]
    pub fn failed(&self, status: i32, parts: impl IntoIterator<Item = impl AsRef<str>>) {
        self.ends(status).warns(parts);
    }

    /// The JSON on stdout, whatever the exit status is.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The addresses of the result of a call that succeeded, without prefixes.
    #[track_caller]
    pub fn ips(&self) -> Vec<String> {
        answer_of(&self.result())
    }
}

/// The addresses in a result, without prefixes.
pub fn answer_of(result: &Value) -> Vec<String> {
    let ips = result["ips"].as_array().into_iter().flatten();
    ips.map(|ip| {
        let address = ip["address"].as_str().unwrap();
        address.split('/').next().unwrap().to_owned()
    })
    .collect()
}
