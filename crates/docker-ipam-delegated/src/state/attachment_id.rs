//! Container IDs of the attachments that the daemon makes, and names that are never used again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What these container IDs begin with. A name follows for an address, and Docker's ID for an
/// endpoint.
pub(crate) const PREFIX: &str = "docker-";

/// The start of IDs if the boot is not known.
const UNKNOWN_BOOT: &str = "docker-0000000000000000-";

/// Names of files that no process has used before: `<start>-<number>`.
#[derive(Debug)]
pub(crate) struct Names {
    /// Time of the start, in nanoseconds.
    start: u128,
    next: AtomicU64,
}

impl Default for Names {
    fn default() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            start: now.map_or(0, |since| since.as_nanos()),
            next: AtomicU64::new(0),
        }
    }
}

impl Names {
    /// The next name. Later ones are greater, unless the clock was set back.
    pub(crate) fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{number:08x}", self.start)
    }
}

/// Container IDs of addresses that no process has used before:
/// `docker-<boot>-<start><number>`.
#[derive(Debug)]
pub(crate) struct AddressIds {
    /// The start of all IDs of this boot; `None` if the boot is not known.
    boot: Option<String>,
    names: Names,
}

impl AddressIds {
    /// The IDs of this process, with the ID of the boot.
    pub(crate) fn new(boot: Option<&str>) -> Self {
        let digits = boot.map(|id| {
            id.chars()
                .filter(char::is_ascii_hexdigit)
                .take(16)
                .collect()
        });
        let digits = digits.filter(|digits: &String| digits.len() == 16);
        Self {
            boot: digits.map(|digits| format!("{PREFIX}{digits}-")),
            names: Names::default(),
        }
    }

    /// The next ID.
    pub(crate) fn next(&self) -> String {
        let boot = self.boot.as_deref().unwrap_or(UNKNOWN_BOOT);
        format!("{boot}{}", self.names.next().replace('-', ""))
    }

    /// True if this process has made the ID.
    pub(crate) fn has_made(&self, container_id: &str) -> bool {
        let boot = self.boot.as_deref().unwrap_or(UNKNOWN_BOOT);
        container_id.starts_with(&format!("{boot}{:016x}", self.names.start))
    }

    /// True if a process of this boot has made the ID: no write of it was lost.
    pub(crate) fn is_of_this_boot(&self, container_id: &str) -> bool {
        let boot = self.boot.as_deref();
        boot.is_some_and(|boot| container_id.starts_with(boot))
    }
}

/// True if the daemon has made this container ID for an address.
pub(crate) fn is_of_address(container_id: &str) -> bool {
    let name = container_id.strip_prefix(PREFIX);
    let parts = name.and_then(|name| name.split_once('-'));
    parts.is_some_and(|(start, number)| start.len() == 16 && is_hex(start) && is_hex(number))
}

/// True if the daemon has made this container ID, for an address or for an endpoint.
pub fn is_attachment(container_id: &str) -> bool {
    let endpoint = container_id.strip_prefix(PREFIX);
    is_of_address(container_id) || endpoint.is_some_and(|id| id.len() == 64 && is_hex(id))
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachments_id_is_told_from_a_containers_name() {
        let endpoint = format!("docker-{}", "8f".repeat(32));
        for id in ["docker-18f0a1b2c3d4e5f6-2a", &endpoint] {
            assert!(is_attachment(id), "{id}");
        }
        assert!(!is_of_address(&endpoint));
        for id in [
            "docker-web",
            "docker-web-1",
            "docker-registry-01",
            "web",
            "docker-",
        ] {
            assert!(!is_attachment(id), "{id}");
        }
    }

    #[test]
    fn names_and_ids_are_never_used_again() {
        let (first, second) = (Names::default(), Names::default());
        let mut all = [first.next(), first.next(), second.next(), second.next()].to_vec();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 4);
        let boot = |id| AddressIds::new(Some(id));
        let one = boot("0f0d7a3e-7a1c-4a0e-9a53-000000000000");
        let (same, later) = (
            boot("0f0d7a3e-7a1c-4a0e-9a53-000000000000"),
            boot("1f0d7a3e-7a1c-4a0e-9a53-000000000000"),
        );
        let id = one.next();
        assert!(is_of_address(&id) && id != one.next(), "{id}");
        assert!(one.has_made(&id) && !same.has_made(&id) && !later.has_made(&id));
        assert!(same.is_of_this_boot(&id) && !later.is_of_this_boot(&id));
        let unknown = AddressIds::new(None);
        let id = unknown.next();
        assert!(is_of_address(&id) && unknown.has_made(&id) && !unknown.is_of_this_boot(&id));
    }
}
