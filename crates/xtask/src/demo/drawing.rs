//! Drawing of a chain's call: each delegate, what it changed in the result, and how long
//! it took.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

/// One delegate's part in a call.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The delegate's name, and its command if that isn't the call's.
    pub(crate) name: String,
    pub(crate) took: Duration,
    /// The result that the delegate was given; `null` for none.
    pub(crate) given: Value,
    /// The delegate's stdout; `null` for nothing.
    pub(crate) printed: Value,
    pub(crate) success: bool,
}

/// Draws a call: its plugins from the left to the right, the delegates below, the outcome
/// last. No line is wider than the texts in it need.
pub(crate) fn draw(plugins: &[&str], steps: &[Step], outcome: &str) -> String {
    let mut drawing = format!("{}\n", plugins.join(" ── "));
    let above: usize = plugins
        .split_last()
        .map_or(&[][..], |(_, rest)| rest)
        .iter()
        .map(|name| name.chars().count() + 4)
        .sum();
    let margin = " ".repeat(above);
    let width = steps.iter().map(|it| it.name.len()).max().unwrap_or(0);
    for step in steps {
        let took = format!("{:.1} ms", step.took.as_secs_f64() * 1e3);
        let changes = step.changes();
        let mut changes = changes.iter().map(String::as_str);
        let first = changes.next().unwrap_or_default();
        let name = &step.name;
        let _ = writeln!(drawing, "{margin}├─ {name:<width$}  {took:>8}  {first}");
        for change in changes {
            let _ = writeln!(drawing, "{margin}│  {:<width$}  {:>8}  {change}", "", "");
        }
    }
    let _ = writeln!(drawing, "{margin}└─ {outcome}");
    drawing
}

impl Step {
    /// The changes to the result, a line each.
    fn changes(&self) -> Vec<String> {
        if !self.success {
            let text = |key: &str| self.printed[key].as_str().unwrap_or("?").to_owned();
            return vec![format!("! {}: {}", self.printed["code"], text("msg"))];
        }
        if self.printed.is_null() {
            return vec!["prints nothing: success".to_owned()];
        }
        let (before, after) = (parts(&self.given), parts(&self.printed));
        let mut lines: Vec<String> = after
            .iter()
            .filter(|part| !before.contains(part))
            .map(|(kind, text)| format!("+ {kind:<5}  {text}"))
            .collect();
        for kind in ["pool", "ip", "route", "dns"] {
            let gone = before
                .iter()
                .filter(|part| part.0 == kind && !after.contains(part));
            match gone.count() {
                0 => {}
                1 => lines.push(format!("- the {kind}")),
                count => lines.push(format!("- the {count} {kind}s")),
            }
        }
        if lines.is_empty() {
            lines.push("prints what it was given".to_owned());
        }
        lines
    }
}

/// The parts of a result, each with its kind.
fn parts(result: &Value) -> Vec<(&'static str, String)> {
    let list = |key: &str| result[key].as_array().cloned().unwrap_or_default();
    let mut all = Vec::new();
    all.extend(list("pools").iter().map(|it| ("pool", pool(it))));
    all.extend(list("ips").iter().map(|it| {
        let gateway = labelled(it, "gateway");
        ("ip", format!("{}{gateway}", text(&it["address"])))
    }));
    all.extend(list("routes").iter().map(|it| {
        let gateway = labelled(it, "gw");
        ("route", format!("{}{gateway}", text(&it["dst"])))
    }));
    for (key, value) in result["dns"].as_object().into_iter().flatten() {
        let values = match value.as_array() {
            Some(values) => values.iter().map(text).collect::<Vec<_>>().join(" "),
            None => text(value),
        };
        all.push(("dns", format!("{key} {values}")));
    }
    all
}

/// A pool by its ranges, with its name and the requested address in front and behind.
fn pool(pool: &Value) -> String {
    let one = [pool.clone()];
    let ranges = pool["ranges"].as_array().map_or(&one[..], Vec::as_slice);
    let ranges: Vec<String> = ranges.iter().map(range).collect();
    let name = pool["name"].as_str().map(|name| format!("{name}: "));
    format!(
        "{}{}{}",
        name.unwrap_or_default(),
        ranges.join(", "),
        labelled(pool, "requested-ip")
    )
}

fn range(range: &Value) -> String {
    let ends = ["rangeStart", "rangeEnd"].map(|key| range[key].as_str().unwrap_or_default());
    let subnet = text(&range["subnet"]);
    if ends == ["", ""] {
        return subnet;
    }
    format!("{subnet} ({}–{})", ends[0], ends[1])
}

fn labelled(value: &Value, key: &str) -> String {
    match value[key].as_str() {
        Some(text) => format!("  {key} {text}"),
        None => String::new(),
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(name: &str, given: Value, printed: Value) -> Step {
        let (name, took) = (name.to_owned(), Duration::from_micros(1250));
        let success = printed.get("code").is_none();
        Step {
            name,
            took,
            given,
            printed,
            success,
        }
    }

    #[test]
    fn each_delegate_is_drawn_with_its_time_and_what_it_added() {
        let pools = json!({"ips": [], "pools": [{"subnet": "10.1.0.0/24"},
            {"name": "blue", "ranges": [{"subnet": "fd00::/64", "rangeEnd": "fd00::9"}]}]});
        let given = json!({"ips": [{"address": "10.1.0.2/24", "gateway": "10.1.0.1"}],
            "routes": [{"dst": "0.0.0.0/0"}], "dns": {"search": ["a", "b"]}});
        let steps = [
            step("ipam-ds-ranges", Value::Null, pools.clone()),
            step("ipam-da-host-local", pools, given),
        ];
        let drawing = draw(&["bridge", "ipam-delegated"], &steps, "c1 has 10.1.0.2");
        let expected = "\
bridge ── ipam-delegated
          ├─ ipam-ds-ranges        1.2 ms  + pool   10.1.0.0/24
          │                                + pool   blue: fd00::/64 (–fd00::9)
          ├─ ipam-da-host-local    1.2 ms  + ip     10.1.0.2/24  gateway 10.1.0.1
          │                                + route  0.0.0.0/0
          │                                + dns    search a b
          │                                - the 2 pools
          └─ c1 has 10.1.0.2
";
        assert_eq!(drawing, expected);
    }

    #[test]
    fn a_delegate_that_prints_nothing_or_an_error_is_drawn_with_that() {
        let result = json!({"ips": [{"address": "10.1.0.2/24"}]});
        let silent = step("a", result.clone(), Value::Null);
        assert_eq!(silent.changes(), ["prints nothing: success"]);
        let same = step("a", result.clone(), result.clone());
        assert_eq!(same.changes(), ["prints what it was given"]);
        let failed = step("a", result, json!({"code": 11, "msg": "full"}));
        assert_eq!(failed.changes(), ["! 11: full"]);
    }
}
