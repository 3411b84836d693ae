//! Drawing of a comparison of chains: a bar for each contender.

use svg::Document;
use svg::node::element::{Rectangle, Style, Text};

use super::contender::{Contender, Kind};
use super::figures::Figures;

const WIDTH: f64 = 860.0;
/// Left end of the bars; the names are to the left of it.
const BARS: f64 = 170.0;
/// Length of the longest bar; its value is to the right of it.
const LONGEST: f64 = 560.0;
const LINE: f64 = 20.0;

/// Colours for light and dark backgrounds.
const STYLE: &str = "
text { font: 13px sans-serif; fill: #24292f; }
.title { font-weight: bold; }
.one-file { fill: #1a7f37; } .separate { fill: #57ab5a; }
.peer { fill: #bf8700; } .minimum { fill: #8c959f; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } }
";

/// A group of bars: one for each contender that has a value.
struct Group {
    title: String,
    unit: &'static str,
    digits: usize,
    values: Vec<(Contender, f64)>,
}

/// Draws ADD and the throughput.
pub(crate) fn draw(figures: &Figures) -> Document {
    let with = |value: &dyn Fn(Kind) -> f64| -> Vec<(Contender, f64)> {
        let all = figures.contenders.iter();
        all.map(|contender| (contender.clone(), value(contender.kind)))
            .collect()
    };
    let calls = super::calls::RESERVED.map(|reserved| Group {
        title: format!("ADD with {reserved} addresses reserved: milliseconds, median"),
        unit: "ms",
        digits: 2,
        values: with(&|kind| figures.median(kind, "ADD", reserved)),
    });
    let rate = Group {
        title: "ADDs a second with 16 callers".to_owned(),
        unit: "/s",
        digits: 0,
        values: with(&|kind| figures.rate(kind, 16)),
    };
    let groups: Vec<Group> = calls.into_iter().chain([rate]).collect();
    let lines: usize = groups.iter().map(|group| group.values.len() + 2).sum();
    let height = lines as f64 * LINE;
    let mut drawing = Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height)
        .set("role", "img")
        .add(Style::new(STYLE));
    let mut y = 0.0;
    for group in groups {
        drawing = drawing.add(text(&group.title, 4.0, y, "title", "start"));
        y += LINE;
        let most = group
            .values
            .iter()
            .map(|(_, value)| *value)
            .fold(0.0, f64::max);
        for (contender, value) in &group.values {
            let length = value / most * LONGEST;
            let bar = Rectangle::new()
                .set("class", contender.kind.key())
                .set("x", BARS)
                .set("y", y + 3.0)
                .set("width", format!("{length:.1}"))
                .set("height", LINE - 6.0);
            let label = format!("{value:.*} {}", group.digits, group.unit);
            drawing = drawing
                .add(text(&contender.name, BARS - 8.0, y, "name", "end"))
                .add(bar)
                .add(text(&label, BARS + length + 6.0, y, "value", "start"));
            y += LINE;
        }
        y += LINE;
    }
    drawing
}

fn text(content: &str, x: f64, y: f64, class: &str, anchor: &str) -> Text {
    Text::new(content)
        .set("class", class)
        .set("x", format!("{x:.1}"))
        .set("y", y + LINE - 6.0)
        .set("text-anchor", anchor)
}
