//! The lines of `resolv.conf` that a CNI result has a place for.

/// The content of the file, as host-local reads it (`dns.go`, `parseResolvConf`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvConf {
    /// `nameserver` lines.
    pub nameservers: Vec<String>,
    /// The last `domain` line.
    pub domain: String,
    /// The words of all `search` lines.
    pub search: Vec<String>,
    /// The words of all `options` lines.
    pub options: Vec<String>,
}

impl ResolvConf {
    /// Reads the file's content. Unknown lines are skipped, as every resolver does.
    pub fn parse(content: &str) -> Self {
        let mut read = Self::default();
        for line in content.lines().map(str::trim) {
            if line.starts_with(['#', ';']) {
                continue;
            }
            let mut words = line.split_whitespace().map(str::to_owned);
            let (Some(keyword), Some(value)) = (words.next(), words.next()) else {
                continue;
            };
            match keyword.as_str() {
                "nameserver" => read.nameservers.push(value),
                "domain" => read.domain = value,
                "search" => read.search.extend([value].into_iter().chain(words)),
                "options" => read.options.extend([value].into_iter().chain(words)),
                _ => {}
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_keywords_are_read_and_other_lines_are_skipped() {
        let content = "# comment\n ; another\nnameserver 10.0.0.1 more\n\tnameserver fd00::1\n\
                       domain a.example\ndomain b.example\nsearch x.example y.example\nsearch z\n\
                       options ndots:2 rotate\nsortlist 10.0.0.0\nnameserver\n\n";
        assert_eq!(
            ResolvConf::parse(content),
            ResolvConf {
                nameservers: vec!["10.0.0.1".into(), "fd00::1".into()],
                domain: "b.example".into(),
                search: vec!["x.example".into(), "y.example".into(), "z".into()],
                options: vec!["ndots:2".into(), "rotate".into()],
            }
        );
    }
}
