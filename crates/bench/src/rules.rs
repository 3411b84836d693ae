//! The cost of large catalogues of rules, beside one rule.

use std::fs;
use std::path::Path;

use anyhow::Result;
use harness::IPAM_DELEGATED;
use serde_json::{Value, json};

use crate::contender::Contender;
use crate::fill::Fill;
use crate::folders::{folder_in, in_memory};
use crate::samples::Samples;
use crate::side::Side;
use crate::table::{Table, figure, grouped};

const ROUNDS: usize = 301;

/// Numbers of rules; the last one holds.
const RULES: [usize; 3] = [1, 100, 1_000];

/// The table of all catalogues. `executable` is the multi-call one.
pub(crate) fn measure(executable: &Path, data: &Path) -> Result<Table> {
    let folder = folder_in(&in_memory())?;
    let mut sides = Vec::new();
    for rules in RULES {
        let catalogue = folder.path().join(rules.to_string());
        fs::create_dir(&catalogue)?;
        fs::write(catalogue.join("rules.json"), content(rules).to_string())?;
        let contender = Contender {
            name: format!("{rules} rules"),
            executable: executable.to_owned(),
            ipam: json!({
                "type": IPAM_DELEGATED, "delegates": ["ipam-ds-rules", "ipam-da-host-local"],
                "poolsDir": catalogue,
            }),
        };
        sides.push(Side::new(&contender, data, Fill::Count(0))?);
    }
    let mut times: [Samples; RULES.len()] = Default::default();
    for round in 0..ROUNDS {
        for i in 0..sides.len() {
            let at = (i + round) % sides.len();
            let container = format!("c-{round}");
            times[at].push(sides[at].call("ADD", &container)?);
            sides[at].call("DEL", &container)?;
        }
    }
    let mut table = Table::new(["rules in poolsDir", "ADD, ms", "more than with 1"]);
    for (rules, samples) in RULES.iter().zip(&times) {
        let (median, of_one) = (samples.median(), times[0].median());
        table.row(
            grouped(*rules),
            [figure(median, 2), figure(median - of_one, 2)],
        );
    }
    Ok(table)
}

/// A catalogue with this number of rules, five of them for each pool.
fn content(rules: usize) -> Value {
    let pools: Value = (0..rules.div_ceil(5))
        .map(|i| {
            let subnet = format!("10.{}.{}.0/24", 16 + i / 256, i % 256);
            (format!("pool-{i}"), json!({"subnet": subnet}))
        })
        .collect();
    let rule = |i: usize| {
        let namespace = if i == rules - 1 {
            "bench*".to_owned()
        } else {
            format!("ns-{i}-*")
        };
        json!({"when": {"K8S_POD_NAMESPACE": namespace}, "pools": [format!("pool-{}", i / 5)]})
    };
    json!({"pools": pools, "rules": (0..rules).map(rule).collect::<Value>()})
}
