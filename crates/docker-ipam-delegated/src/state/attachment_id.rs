//! Container IDs of the attachments that the daemon makes, and names that are never used again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The start of these container IDs. For an address, a name follows; for an endpoint, Docker's
/// ID.
pub(crate) const PREFIX: &str = "docker-";

/// The start of IDs if the boot is unknown.
pub(crate) const UNKNOWN_BOOT: &str = "docker-0000000000000000-";

/// Names that no process has used before.
#[derive(Debug)]
pub(crate) struct Names {
    /// The start of all names of this process.
    prefix: String,
    next: AtomicU64,
}

impl Names {
    /// Names of files: `<start>-<number>`, with the time of the start in nanoseconds. Later ones
    /// are greater, unless the clock was set back.
    pub(crate) fn of_files() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let start = now.map_or(0, |since| since.as_nanos());
        Self::starting_with(format!("{start:016x}-"))
    }

    /// Container IDs of addresses: `docker-<boot>-<start><number>`.
    pub(crate) fn of_addresses(boot: &str) -> Self {
        let start = Self::of_files().prefix.replace('-', "");
        Self::starting_with(format!("{boot}{start}"))
    }

    fn starting_with(prefix: String) -> Self {
        let next = AtomicU64::new(0);
        Self { prefix, next }
    }

    /// The next name.
    pub(crate) fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}{number:08x}", self.prefix)
    }

    /// True if this process has made the name.
    pub(crate) fn has_made(&self, name: &str) -> bool {
        name.starts_with(&self.prefix)
    }
}

/// The start of the container IDs of addresses in the boot of this ID; `None` if it is no ID.
pub(crate) fn of_boot(boot: &str) -> Option<String> {
    let digits = boot.chars().filter(char::is_ascii_hexdigit);
    let digits: String = digits.take(16).collect();
    (digits.len() == 16).then(|| format!("{PREFIX}{digits}-"))
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
        let (first, second) = (Names::of_files(), Names::of_files());
        let mut all = [first.next(), first.next(), second.next(), second.next()].to_vec();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 4);
        assert!(first.has_made(&first.next()) && !first.has_made(&second.next()));
        let boot = of_boot("0f0d7a3e-7a1c-4a0e-9a53-000000000000").unwrap();
        assert_eq!(boot, "docker-0f0d7a3e7a1c4a0e-");
        for boot in [boot.as_str(), UNKNOWN_BOOT] {
            let (one, same) = (Names::of_addresses(boot), Names::of_addresses(boot));
            let id = one.next();
            assert!(is_of_address(&id) && id != one.next(), "{id}");
            assert!(one.has_made(&id) && !same.has_made(&id) && id.starts_with(boot));
        }
        assert_eq!(of_boot("unknown"), None);
    }
}
