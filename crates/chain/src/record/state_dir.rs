//! `ipam.stateDir`: the folder of the records.

use std::path::PathBuf;

use cni::{Environment, Error, Object};

/// The default folder of the records.
pub const STATE_DIR: &str = "/var/lib/cni/ipam-delegated";

/// Variable that names another default folder of the records.
const VARIABLE: &str = "IPAM_DELEGATED_STATE_DIR";

/// The folder of the records of an `ipam` section: `stateDir` or its default.
///
/// # Errors
///
/// Code 7 for a relative path, code 4 for one in the environment.
pub fn state_dir(ipam: &Object, environment: &Environment) -> Result<PathBuf, Error> {
    if let Some(path) = ipam.absolute_path("ipam", "stateDir")? {
        return Ok(path);
    }
    match environment.get(VARIABLE).map(PathBuf::from) {
        None => Ok(STATE_DIR.into()),
        Some(path) if path.is_absolute() => Ok(path),
        Some(path) => Err(Error::environment(format!(
            "{VARIABLE}: {path:?} is not an absolute path"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::tests::config;

    #[test]
    fn the_folder_of_the_records_is_absolute() {
        let config = config(r#","ipam":{"delegates":["p"]}"#);
        let of = |path: &str| {
            let environment = Environment::default().with("IPAM_DELEGATED_STATE_DIR", path);
            state_dir(&config.ipam().unwrap(), &environment)
        };
        assert_eq!(of("/records").unwrap(), Path::new("/records"));
        let refused = of("records").unwrap_err();
        assert_eq!(refused.code, cni::code::INVALID_ENVIRONMENT);
    }
}
