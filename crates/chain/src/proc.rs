//! Processes of this PID namespace, as `/proc` shows them.
//!
//! Only the environment and the status of a process are read, which never blocks.
//! `/proc/PID/exe` is not read: it leads to the file system of the executable, whose
//! server may be dead.

use std::fs;

use rustix::process::{Pid, getpid};

/// All processes but this one; none if `/proc` shows another PID namespace, whose PIDs
/// mean other processes here.
pub(crate) fn others() -> Vec<Pid> {
    let own = getpid();
    if !is_of_this_namespace() {
        return Vec::new();
    }
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .filter(|pid| *pid != own)
        .collect()
}

/// True if `/proc` shows this PID namespace. If it doesn't, that is logged.
pub(crate) fn is_of_this_namespace() -> bool {
    let is = pid_in_namespaces("self") == Some(vec![getpid().as_raw_pid()]);
    if !is {
        tracing::warn!("/proc is not of this PID namespace: no process is looked for");
    }
    is
}

/// The variables of a process; `None` if they can't be read.
pub(crate) fn environment(pid: Pid) -> Option<Vec<Vec<u8>>> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    Some(
        environ
            .split(|byte| *byte == 0)
            .map(<[u8]>::to_vec)
            .collect(),
    )
}

/// The session of a process, if the process is of this PID namespace alone.
pub(crate) fn session(pid: Pid) -> Option<i32> {
    if pid_in_namespaces(&pid.to_string())?.len() != 1 {
        return None;
    }
    Some(Stat::read(&pid.to_string())?.session)
}

/// The session of this process: 0 if it was made outside of the PID namespace.
pub(crate) fn own_session() -> Option<i32> {
    Some(Stat::read("self")?.session)
}

/// The name of a process, as the kernel has it from the executable: at most 15 bytes.
pub(crate) fn name(pid: Pid) -> Option<String> {
    Some(Stat::read(&pid.to_string())?.name)
}

/// The name of this process.
pub(crate) fn own_name() -> Option<String> {
    Some(Stat::read("self")?.name)
}

/// True if a process has ended and only waits for its parent to notice.
pub(crate) fn has_ended(pid: Pid) -> bool {
    Stat::read(&pid.to_string()).is_some_and(|it| it.state == "Z" || it.state == "X")
}

/// Fields of `/proc/PID/stat`, proc(5).
struct Stat {
    name: String,
    state: String,
    session: i32,
}

impl Stat {
    fn read(process: &str) -> Option<Self> {
        let stat = read(process, "stat")?;
        // The name is in parentheses, and may hold anything.
        let (before, after) = stat.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let mut fields = after.split_whitespace();
        Some(Self {
            name: name.to_owned(),
            state: fields.next()?.to_owned(),
            // Between them: parent, process group.
            session: fields.nth(2)?.parse().ok()?,
        })
    }
}

/// The numbers that a process has in the namespace of `/proc` and in those below it.
fn pid_in_namespaces(process: &str) -> Option<Vec<i32>> {
    let status = read(process, "status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace()
        .map(|pid| pid.parse().ok())
        .collect()
}

/// A file of a process. The kernel cuts a process's name off after 15 bytes, which may be
/// in the middle of a character.
fn read(process: &str, file: &str) -> Option<String> {
    let bytes = fs::read(format!("/proc/{process}/{file}")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_found_with_its_environment_and_its_session() {
        let mut child = Command::new("sleep")
            .arg("100")
            .env("A", "one")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        assert!(others().contains(&pid));
        let has = |text: &[u8]| environment(pid).unwrap().iter().any(|it| it == text);
        while !has(b"A=one") {}
        assert_eq!(session(pid), own_session());
        assert!(!has_ended(pid));
        child.kill().unwrap();
        while !has_ended(pid) {}
        child.wait().unwrap();
        assert!(!others().contains(&pid));
    }

    #[test]
    fn a_name_that_is_cut_off_within_a_character_hides_no_process() {
        let folder = tempfile::tempdir().unwrap();
        // 15 bytes end in the middle of the eighth character.
        let link = folder.path().join("ääääääää");
        std::os::unix::fs::symlink("/bin/sleep", &link).unwrap();
        let mut child = Command::new(link).arg("100").spawn().unwrap();
        let pid = Pid::from_child(&child);
        while name(pid) == own_name() {}
        assert_eq!(name(pid).unwrap(), "äääääää\u{fffd}");
        assert_eq!(session(pid), own_session());
        assert!(!has_ended(pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_kernel_thread_has_no_environment() {
        let init = Pid::from_raw(2).unwrap();
        let environment = environment(init).unwrap_or_default();
        assert!(environment.iter().all(Vec::is_empty));
    }
}
