//! The lines of `resolv.conf` that a CNI result has a place for.

use cni::Dns;

/// Reads the content of the file as host-local does (`dns.go`, `parseResolvConf`): `nameserver`
/// lines, the last `domain` line, and the words of all `search` and `options` lines. Unknown
/// lines are skipped, as every resolver does.
pub(crate) fn parse(content: &str) -> Dns {
    let mut dns = Dns::default();
    for line in content.lines().map(str::trim) {
        if line.starts_with(['#', ';']) {
            continue;
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(keyword), Some(value)) = (words.next(), words.next()) else {
            continue;
        };
        match keyword.as_str() {
            "nameserver" => dns.nameservers.push(value),
            "domain" => dns.domain = value,
            "search" => dns.search.extend([value].into_iter().chain(words)),
            "options" => dns.options.extend([value].into_iter().chain(words)),
            _ => {}
        }
    }
    dns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_keywords_are_read_and_other_lines_are_skipped() {
        let content = "# comment\n ; another\nnameserver 10.0.0.1 more\n\tnameserver fd00::1\n\
                       domain a.example\ndomain b.example\nsearch x.example y.example\nsearch z\n\
                       options ndots:2 rotate\nsortlist 10.0.0.0\nnameserver\n\n";
        let dns = parse(content);
        assert_eq!(dns.nameservers, ["10.0.0.1", "fd00::1"]);
        assert_eq!(dns.domain, "b.example");
        assert_eq!(dns.search, ["x.example", "y.example", "z"]);
        assert_eq!(dns.options, ["ndots:2", "rotate"]);
    }
}
