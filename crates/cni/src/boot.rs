//! The ID of the machine's last boot.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::Environment;

/// Names a folder to be read instead of `/proc`.
const PROC: &str = "IPAM_DELEGATED_PROC";

/// The ID that Linux gives each boot; `None` if it can't be read.
///
/// `/proc/sys/kernel/random/boot_id`, random(4).
pub fn boot_id(environment: &Environment) -> Option<String> {
    let proc = environment.get(PROC).unwrap_or("/proc".as_ref());
    let mut file = File::open(Path::new(proc).join("sys/kernel/random/boot_id")).ok()?;
    // One read is enough for a UUID and a line feed.
    let mut id = [0; 64];
    let length = file.read(&mut id).ok()?;
    let id = str::from_utf8(&id[..length]).ok()?.trim();
    Some(id.to_owned()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_booted() {
        let id = boot_id(&Environment::default()).unwrap();
        assert_eq!(id.len(), 36, "{id}");
    }
}
