//! The network that a runtime uses for a pod: that of the first file in its folder, or the one that
//! this file of Multus names.

use std::path::Path;

use conflist::Conflist;
use serde_json::Value;

use crate::check::findings::Finding;

/// Multus and its client. Their configuration comes before the network that they extend.
const MULTUS: [&str; 2] = ["multus", "multus-shim"];

/// The finding if a runtime would take another file of the folder than this one. A runtime uses the
/// first file by name; if that is invalid, containerd uses none.
pub(crate) fn default_network_finding(file: &Path) -> Option<Finding> {
    let instead = "this file first in its folder";
    let error = |problem: String| Finding::of_file(file, problem, instead);
    let folder = file.parent().unwrap_or(Path::new("."));
    let files = match conflist::files(folder) {
        Ok(files) => files,
        Err(why) => return Some(error(format!("{}: {why}", folder.display()))),
    };
    // An invalid file is a finding by itself.
    let own = read(file).ok()?;
    let mut earlier = files.iter().take_while(|other| *other != file);
    earlier.find_map(|other| {
        let reason = match read(other) {
            Ok(list) if leads_to(&list, &own) => return None,
            Ok(_) => String::new(),
            Err(why) => format!(" ({why})"),
        };
        Some(error(format!(
            "the runtime uses the first file, which is {}{reason}",
            other.display()
        )))
    })
}

fn read(file: &Path) -> Result<Conflist, String> {
    let content = conflist::read(file).map_err(|error| error.to_string())?;
    Conflist::parse(file, &content)
}

/// True if the file is Multus', and the first network of its pods is `own`: by the network's name,
/// or by the name of its file. The folder of a path may be that of Multus' container.
fn leads_to(list: &Conflist, own: &Conflist) -> bool {
    let mut kinds = list.plugins.iter().map(|plugin| plugin.kind.as_str());
    let value = serde_json::to_value(&list.object).unwrap_or_default();
    list.name != own.name && kinds.any(|kind| MULTUS.contains(&kind)) && mentions(&value, own)
}

fn mentions(value: &Value, own: &Conflist) -> bool {
    match value {
        Value::String(text) => {
            *text == *own.name.as_str() || Path::new(text).file_name() == own.file.file_name()
        }
        Value::Array(all) => all.iter().any(|value| mentions(value, own)),
        Value::Object(all) => all.values().any(|value| mentions(value, own)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const OURS: &str = r#"{"cniVersion":"1.0.0","name":"tenants","plugins":[
        {"type":"bridge","ipam":{"type":"ipam-delegated"}}]}"#;

    /// The problem of a folder with these files and ours.
    fn problem(others: &[(&str, &str)]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("10-tenants.conflist");
        fs::write(&file, OURS).unwrap();
        for (name, content) in others {
            fs::write(folder.path().join(name), content).unwrap();
        }
        default_network_finding(&file).map(|finding| finding.problem)
    }

    #[test]
    fn a_runtime_takes_the_first_file_and_multus_leads_to_another_one() {
        let other = r#"{"cniVersion":"1.0.0","name":"other","type":"ptp"}"#;
        let multus = r#"{"cniVersion":"1.0.0","name":"multus-cni-network","type":"multus",
            "delegates":[{"cniVersion":"1.0.0","name":"tenants","plugins":[]}]}"#;
        let of_another = multus.replace("tenants", "flannel");
        let by_file = r#"{"cniVersion":"1.0.0","name":"m","type":"multus-shim",
            "clusterNetwork":"10-tenants.conflist"}"#;
        let by_path = by_file.replace("10-", "/host/etc/cni/net.d/10-");
        let alike = other.replace("other", "tenants");
        for others in [
            &[][..],
            &[("20-other.conf", other)],
            &[("05-other.conf.bak", other), (".new", "")],
            &[("00-multus.conf", multus)],
            &[("00-multus.conf", by_file)],
            &[("00-multus.conf", &by_path)],
        ] {
            assert_eq!(problem(others), None, "{others:?}");
        }
        for (name, content) in [
            ("05-other.conf", other),
            (".other.json", other),
            ("00-multus.conf", &of_another),
            ("00-alike.conf", &alike),
            ("05-other.conf", "{"),
        ] {
            let problem = problem(&[(name, content)]).unwrap();
            assert!(problem.contains(name), "{problem}");
        }
    }
}
