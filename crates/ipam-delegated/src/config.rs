//! What `ipam-delegated` reads from the `ipam` section.

use cni::{DelegateName, Error, NetworkConfig};

/// `ipam.delegates`: the chain, in the order in which it runs.
pub(crate) fn delegates(config: &NetworkConfig) -> Result<Vec<DelegateName>, Error> {
    let names: Vec<String> = config.ipam()?.read("ipam", "delegates")?.ok_or_else(|| {
        Error::config("ipam.delegates is missing: it must list the names of the delegates")
    })?;
    if names.is_empty() {
        return Err(Error::config(
            "ipam.delegates is []: it must list at least one delegate",
        ));
    }
    names
        .iter()
        .enumerate()
        .map(|(i, name)| {
            name.parse()
                .map_err(|e| Error::config(format!("ipam.delegates[{i}]: {name:?}: {e}")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ipam: &str) -> Result<Vec<String>, Error> {
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"n"{ipam}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        Ok(delegates(&config)?
            .iter()
            .map(ToString::to_string)
            .collect())
    }

    #[test]
    fn delegates_are_names_in_order() {
        let ipam = r#","ipam":{"delegates":["ipam-ds-ranges","host-local","ipam-ds-ranges"]}"#;
        assert_eq!(
            read(ipam).unwrap(),
            ["ipam-ds-ranges", "host-local", "ipam-ds-ranges"]
        );
    }

    #[test]
    fn each_refusal_is_code_7_and_names_the_key_and_the_value() {
        for (ipam, msg) in [
            ("", "ipam is missing"),
            (
                r#","ipam":[]"#,
                "ipam: invalid type: sequence, expected an object",
            ),
            (
                r#","ipam":{}"#,
                "ipam.delegates is missing: it must list the names of the delegates",
            ),
            (
                r#","ipam":{"delegates":"host-local"}"#,
                "ipam.delegates: invalid type: string \"host-local\", expected a sequence",
            ),
            (
                r#","ipam":{"delegates":[]}"#,
                "ipam.delegates is []: it must list at least one delegate",
            ),
            (
                r#","ipam":{"delegates":["a",7]}"#,
                "ipam.delegates[1]: invalid type: integer `7`, expected a string",
            ),
            (
                r#","ipam":{"delegates":["a",""]}"#,
                "ipam.delegates[1]: \"\": a plugin's name is not empty",
            ),
            (
                r#","ipam":{"delegates":["../a"]}"#,
                "ipam.delegates[0]: \"../a\": it must be a plugin's name, not a path: \
                 delegates run from CNI_PATH only",
            ),
        ] {
            let error = read(ipam).unwrap_err();
            assert_eq!(
                (error.code, error.msg.as_str()),
                (cni::code::INVALID_CONFIG, msg)
            );
        }
    }
}
