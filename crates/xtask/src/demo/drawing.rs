//! Drawing of a chain's call: each delegate, what it changed in the result, and how long
//! it took.

use std::fmt::Write as _;

use serde_json::Value;

use super::watched_chain::Step;

/// The widest line of a drawing, in characters.
const WIDEST: usize = 100;

/// Draws a call: its plugins from the left to the right, the delegates below, the outcome
/// last. A line that is too wide is cut off.
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
        let changes = changes(step);
        let mut changes = changes.iter().map(String::as_str);
        let first = changes.next().unwrap_or_default();
        let name = &step.name;
        let _ = writeln!(drawing, "{margin}├─ {name:<width$}  {took:>8}  {first}");
        for change in changes {
            let _ = writeln!(drawing, "{margin}│  {:<width$}  {:>8}  {change}", "", "");
        }
    }
    let _ = writeln!(drawing, "{margin}└─ {outcome}");
    drawing.lines().map(cut_off).collect()
}

/// The line, no wider than [`WIDEST`], with its end.
fn cut_off(line: &str) -> String {
    if line.chars().count() <= WIDEST {
        return format!("{line}\n");
    }
    line.chars().take(WIDEST - 1).chain("…\n".chars()).collect()
}

/// The delegate's changes to the result and the text that it wrote to stderr, a line each.
fn changes(step: &Step) -> Vec<String> {
    let mut lines = match &step.outcome {
        None => vec!["! it has not ended".to_owned()],
        Some(Err(error)) => vec![format!("! {error}")],
        Some(Ok(Value::Null)) => vec!["prints nothing: success".to_owned()],
        Some(Ok(result)) => differences(&step.given, result),
    };
    let stderr = step.stderr.lines().map(|line| format!("stderr: {line}"));
    lines.extend(stderr);
    lines
}

/// The parts of a result that are new, and the number of those that are gone.
fn differences(before: &Value, after: &Value) -> Vec<String> {
    let (before, after) = (parts(before), parts(after));
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
    // Its ranges stand elsewhere: a plugin behind knows them by the name.
    if let (Some(name), Value::Null, Value::Null) =
        (pool["name"].as_str(), &pool["subnet"], &pool["ranges"])
    {
        return format!("{name}{}", labelled(pool, "requested-ip"));
    }
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
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn step(name: &str, given: Value, outcome: Result<Value, String>) -> Step {
        Step {
            name: name.to_owned(),
            took: Duration::from_micros(1250),
            given,
            stderr: String::new(),
            outcome: Some(outcome),
        }
    }

    #[test]
    fn each_delegate_is_drawn_with_its_time_and_what_it_added() {
        let pools = json!({"ips": [], "pools": [{"subnet": "10.1.0.0/24"},
            {"name": "blue", "ranges": [{"subnet": "fd00::/64", "rangeEnd": "fd00::9"}]}]});
        let given = json!({"ips": [{"address": "10.1.0.2/24", "gateway": "10.1.0.1"}],
            "routes": [{"dst": "0.0.0.0/0"}], "dns": {"search": ["a", "b"]}});
        let steps = [
            step("ipam-ds-ranges", Value::Null, Ok(pools.clone())),
            step("ipam-da-host-local", pools, Ok(given)),
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
        let mut silent = step("a", result.clone(), Ok(Value::Null));
        silent.stderr = "one\ntwo\n".to_owned();
        assert_eq!(
            changes(&silent),
            ["prints nothing: success", "stderr: one", "stderr: two"]
        );
        let same = step("a", result.clone(), Ok(result.clone()));
        assert_eq!(changes(&same), ["prints what it was given"]);
        let failed = step("a", result, Err("full (code 11)".to_owned()));
        assert_eq!(changes(&failed), ["! full (code 11)"]);
    }

    #[test]
    fn a_line_that_is_too_wide_is_cut_off() {
        let failed = step("a", Value::Null, Err("ä".repeat(200)));
        let drawing = draw(&["ipam-delegated"], &[failed], "c1 has nothing");
        let widths: Vec<usize> = drawing.lines().map(|it| it.chars().count()).collect();
        assert_eq!(widths, [14, WIDEST, 17]);
        assert!(drawing.contains("ää…\n"), "{drawing}");
    }
}
