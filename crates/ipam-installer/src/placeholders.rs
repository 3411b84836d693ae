//! Replaces the placeholders `${podCIDR}` and `${podCIDR6}` in the files of a ConfigMap.

use anyhow::{Context, Result};
use ipnet::IpNet;

use crate::config_map::Files;

/// The first IPv4 subnet of the node's pods.
const IPV4: &str = "${podCIDR}";

/// The first IPv6 subnet of the node's pods.
const IPV6: &str = "${podCIDR6}";

/// Replaces the placeholders in files with subnets of the node. Calls `subnets` only if a file has
/// a placeholder.
///
/// # Errors
///
/// Those of `subnets`; a file is not UTF-8; the node has no subnet of a required IP version. The
/// error names the file.
pub(crate) fn replace(files: Files, subnets: impl Fn() -> Result<Vec<IpNet>>) -> Result<Files> {
    let replaced = files.into_iter().map(|(name, content)| {
        let content = replace_in(content, &subnets).with_context(|| name.clone())?;
        Ok((name, content))
    });
    replaced.collect()
}

fn replace_in(content: Vec<u8>, subnets: &impl Fn() -> Result<Vec<IpNet>>) -> Result<Vec<u8>> {
    let mut text = String::from_utf8(content).context("the file is not UTF-8")?;
    for (placeholder, version, is_ipv4) in [(IPV4, "IPv4", true), (IPV6, "IPv6", false)] {
        if !text.contains(placeholder) {
            continue;
        }
        let all = subnets().with_context(|| format!("{placeholder} isn't known"))?;
        let mut of_version = all
            .iter()
            .filter(|subnet| subnet.addr().is_ipv4() == is_ipv4);
        let subnet = of_version.next().with_context(|| {
            let all: Vec<String> = all.iter().map(IpNet::to_string).collect();
            let all = all.join(", ");
            format!("{placeholder} isn't known: the node has no {version} subnet, only {all}")
        })?;
        text = text.replace(placeholder, &subnet.to_string());
    }
    Ok(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_map::tests::files;
    use anyhow::bail;

    fn replaced(text: &str, subnets: &[&str]) -> Result<String, String> {
        let subnets: Vec<IpNet> = subnets.iter().map(|text| text.parse().unwrap()).collect();
        let made = replace(files(&[("a.json", text)]), || Ok(subnets.clone()));
        let made = made.map_err(|error| format!("{error:#}"))?;
        Ok(String::from_utf8(made["a.json"].clone()).unwrap())
    }

    #[test]
    fn each_placeholder_becomes_the_first_subnet_of_its_version() {
        let subnets = ["10.244.3.0/24", "fd00:3::/64", "10.9.0.0/16", "fd00:9::/64"];
        assert_eq!(
            replaced("${podCIDR} \"${podCIDR6}\",${podCIDR}", &subnets).unwrap(),
            "10.244.3.0/24 \"fd00:3::/64\",10.244.3.0/24"
        );
    }

    #[test]
    fn nothing_else_is_replaced_and_no_subnet_is_read_for_it() {
        let others = "${K8S_POD_NAME} ${podCIDR4} $podCIDR ${ podCIDR } ${podcidr} {podCIDR}";
        let made = replace(files(&[("a.json", others)]), || bail!("read"));
        assert_eq!(made.unwrap(), files(&[("a.json", others)]));
    }

    #[test]
    fn a_node_without_a_subnet_of_the_version_is_an_error_that_names_the_file() {
        let error = replaced("${podCIDR}", &["fd00:3::/64"]).unwrap_err();
        assert_eq!(
            error,
            "a.json: ${podCIDR} isn't known: the node has no IPv4 subnet, only fd00:3::/64"
        );
        assert!(replaced("${podCIDR6}", &["10.244.3.0/24"]).is_err());
        let failed = replace(files(&[("b.json", "${podCIDR}")]), || bail!("no answer"));
        let error = format!("{:#}", failed.unwrap_err());
        assert_eq!(error, "b.json: ${podCIDR} isn't known: no answer");
    }
}
