//! Comparison of a JSON key with the name of a field, as Go's decoder compares them.

/// True if Go's decoder stores the value of `key` in the field `field`, a name in ASCII: upper and
/// lower case are the same, as are `ſ` and `s`, and the Kelvin sign and `k` (`encoding/json`,
/// `foldName`).
#[inline]
pub fn is_field(key: &str, field: &str) -> bool {
    if key.len() <= field.len() {
        return key.eq_ignore_ascii_case(field);
    }
    // Only the two other characters need more bytes.
    !key.is_ascii() && key.chars().map(folded).eq(field.chars().map(folded))
}

fn folded(character: char) -> char {
    match character {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        _ => character.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_field_as_in_go() {
        for key in ["dataDir", "datadir", "DATADIR", "dAtAdIr"] {
            assert!(is_field(key, "dataDir"), "{key}");
        }
        for (key, field) in [
            ("\u{17f}ticky", "sticky"),
            ("STIC\u{212a}Y", "sticky"),
            ("io.\u{212a}ubernete\u{17f}", "io.kubernetes"),
        ] {
            assert!(is_field(key, field), "{key}");
        }
        for (key, field) in [
            ("", "ips"),
            ("ip", "ips"),
            ("ips ", "ips"),
            ("ip\u{df}", "ips"),
            ("ıps", "ips"),
            ("data-dir", "dataDir"),
            ("data_dir", "dataDir"),
        ] {
            assert!(!is_field(key, field), "{key}");
        }
    }
}
