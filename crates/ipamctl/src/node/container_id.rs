//! The forms of runtimes' container IDs.

/// Number of digits in an ID of podman, containerd or CRI-O.
const DIGITS: usize = 64;

/// Prefix of the IDs of build steps. buildah and `podman build` make an attachment for each step,
/// with an ID that no list of containers has.
const OF_BUILDS: &str = "buildah-";

/// True for a generated ID: 64 hexadecimal digits, a UUID, or either of them after `NAMESPACE-`.
/// None of these is the beginning of another by accident, as `web-1` is of `web-10`.
pub(crate) fn is_generated(id: &str) -> bool {
    let is_one = |id: &str| is_digits(id, DIGITS) || is_uuid(id);
    is_one(id) || after_namespace(id).any(is_one)
}

/// The part after each hyphen, for containerd's `NAMESPACE-ID`.
pub(crate) fn after_namespace(id: &str) -> impl Iterator<Item = &str> {
    id.match_indices('-').map(|(at, _)| &id[at + 1..])
}

/// True for the attachment of a build step.
pub(crate) fn is_of_a_build(id: &str) -> bool {
    id.starts_with(OF_BUILDS)
}

fn is_digits(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_uuid(text: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let parts: Vec<&str> = text.split('-').collect();
    let mut pairs = parts.iter().zip(lengths);
    parts.len() == lengths.len() && pairs.all(|(part, length)| is_digits(part, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_are_told_from_names() {
        let digits = "8f".repeat(32);
        for id in [
            digits.clone(),
            format!("k8s.io-{digits}"),
            "7cd08c6c-86c8-0bfa-f7ca-338466447711".to_owned(),
            "ns-7cd08c6c-86c8-0bfa-f7ca-338466447711".to_owned(),
        ] {
            assert!(is_generated(&id), "{id}");
        }
        for id in ["default-web-1", "8f3e", "", "7cd08c6c-86c8-0bfa-f7ca"] {
            assert!(!is_generated(id), "{id}");
        }
        assert!(is_of_a_build("buildah-buildah123") && !is_of_a_build(&digits));
    }
}
