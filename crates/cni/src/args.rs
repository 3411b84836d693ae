//! The pairs of `CNI_ARGS`, `FOO=BAR;ABC=123`: extra arguments of one call.

use crate::Error;

/// Keys that name neither the container nor what it is a part of.
const NO_NAMES: [&str; 4] = ["IgnoreUnknown", "IP", "MAC", "K8S_POD_INFRA_CONTAINER_ID"];

/// The pairs of `CNI_ARGS`, in order.
///
/// Deprecated by the CNI conventions in favour of `args` in the configuration,
/// and still what Kubernetes' runtimes pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args(Vec<(String, String)>);

impl Args {
    /// Reads the variable's value; an empty one holds no pair.
    ///
    /// # Errors
    ///
    /// Code 4 for a pair without exactly one `=`, as libcni refuses it
    /// (`types.LoadArgs`).
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        text.split(';')
            .map(|pair| match pair.split_once('=') {
                Some((key, value)) if !value.contains('=') => {
                    Ok((key.to_owned(), value.to_owned()))
                }
                _ => Err(Error::environment(format!(
                    "CNI_ARGS: {pair:?} is no KEY=VALUE (in {text:?})"
                ))),
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The value of `key`: the last one, where there are several.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .rfind(|(k, _)| k == key)
            .map(|(_, value)| value.as_str())
    }

    /// The pairs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The pairs that name the container and what it is a part of: a pod, a job.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_name = |(key, value): &(&str, &str)| !NO_NAMES.contains(key) && !value.is_empty();
        self.iter().filter(is_name)
    }

    /// Refuses keys that aren't `known`, unless `IgnoreUnknown` is true: how
    /// plugins built on libcni treat them (`types.LoadArgs`).
    ///
    /// # Errors
    ///
    /// Code 4, naming the unknown pairs, or an `IgnoreUnknown` that is no boolean.
    pub fn expect_only(&self, known: &[&str]) -> Result<(), Error> {
        if self.ignore_unknown()? {
            return Ok(());
        }
        let is_unknown = |(key, _): &(&str, &str)| *key != "IgnoreUnknown" && !known.contains(key);
        let unknown = self.iter().filter(is_unknown);
        let unknown: Vec<String> = unknown
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(Error::environment(format!(
            "CNI_ARGS: unknown {}; add IgnoreUnknown=1 to have unknown keys passed over",
            unknown.join(", ")
        )))
    }

    fn ignore_unknown(&self) -> Result<bool, Error> {
        let value = self.get("IgnoreUnknown").map(str::to_ascii_lowercase);
        match value.as_deref() {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(other) => Err(Error::environment(format!(
                "CNI_ARGS: IgnoreUnknown={other:?} is neither true nor false"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_and_the_last_of_a_key_counts() {
        let args = Args::parse("IP=10.0.0.5;K8S_POD_NAME=;IP=10.0.0.6").unwrap();
        assert_eq!(args.get("IP"), Some("10.0.0.6"));
        assert_eq!(args.get("K8S_POD_NAME"), Some(""));
        assert_eq!(args.get("ip"), None);
        assert_eq!(Args::parse(""), Ok(Args::default()));
    }

    #[test]
    fn what_is_no_pair_is_refused_by_name() {
        for text in ["IP", "IP=1=2", "IP=1;", ";", "a=b;c"] {
            let error = Args::parse(text).unwrap_err();
            assert_eq!(error.code, crate::code::INVALID_ENVIRONMENT);
            assert!(error.msg.starts_with("CNI_ARGS"), "{error}");
        }
    }

    #[test]
    fn unknown_keys_are_refused_unless_they_are_to_be_ignored() {
        let check = |text: &str| Args::parse(text).unwrap().expect_only(&["IP"]);
        assert!(check("IP=1").is_ok());
        assert!(check("A=1;IgnoreUnknown=True").is_ok());
        assert!(check("A=1").unwrap_err().msg.contains("A=1"));
        assert!(check("A=1;IgnoreUnknown=0").is_err());
        assert!(check("IgnoreUnknown=yes").is_err());
    }
}
