//! A canvas for SVG pictures: rows of squares with titles, and lines of text. The reader's
//! browser chooses light or dark.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::output::{Output, plain};

/// Squares of a row.
const ROW: usize = 16;
/// Side of a square, and its distance from the next one.
const SIDE: usize = 20;
const PITCH: usize = 24;
const MARGIN: usize = 24;
/// Width of the labels to the left of the squares.
const LABEL: usize = 120;
const WIDTH: usize = MARGIN + LABEL + ROW * PITCH + MARGIN;
const LINE: usize = 22;

const STYLE: &str = "
svg { background: #ffffff; font: 13px system-ui, sans-serif; }
text { fill: #24292f; } text.small { fill: #57606a; } text.cell { font-size: 11px; text-anchor: middle; }
.free { fill: #e6e9ed; } .reserved { fill: #2f6fde; } .leaked { fill: #d1242f; }
.excluded { fill: #b9a4d8; } .gateway { fill: #9a6700; }
.outside { fill: none; stroke: #d0d7de; stroke-dasharray: 2 2; }
text.on { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; }
  text { fill: #e6edf3; } text.small { fill: #8d96a0; }
  .free { fill: #2b323b; } .reserved { fill: #4493f8; } .leaked { fill: #f85149; }
  .excluded { fill: #8264b0; } .gateway { fill: #d29922; }
  .outside { fill: none; stroke: #3d444d; }
  text.on { fill: #0d1117; }
}";

/// A square of a picture.
#[derive(Default)]
pub(crate) struct Square {
    /// The text that a browser shows over it; none in a legend.
    pub(crate) title: Option<String>,
    /// The class that colours it, such as `reserved`.
    pub(crate) class: &'static str,
    /// A colour instead of the class's.
    pub(crate) colour: Option<String>,
    /// Opacity of a second square over it, with the class `reserved`.
    pub(crate) shade: Option<f64>,
    /// The letter in it.
    pub(crate) letter: &'static str,
    /// True for a mark of the class `leaked` in its corner.
    pub(crate) is_marked: bool,
}

impl Square {
    pub(crate) fn new(class: &'static str, title: String) -> Self {
        Self {
            title: Some(title),
            class,
            ..Self::default()
        }
    }
}

/// A picture that grows downwards.
pub(crate) struct Canvas {
    /// The elements so far.
    elements: String,
    /// Lower end of the drawing.
    y: usize,
}

impl Canvas {
    pub(crate) fn new(title: &str) -> Self {
        Self {
            elements: format!(
                "<title>{}</title>\n<style>{STYLE}\n</style>\n",
                escaped(title)
            ),
            y: MARGIN,
        }
    }

    /// Adds a line of text.
    pub(crate) fn heading(&mut self, text: &str) {
        self.text(MARGIN, "", text);
        self.y += LINE;
    }

    /// Adds a line of small text.
    pub(crate) fn note(&mut self, text: &str) {
        self.text(MARGIN, "small", text);
        self.y += LINE;
    }

    /// Adds space.
    pub(crate) fn space(&mut self) {
        self.y += LINE / 2;
    }

    /// Adds rows of squares. The label of the first square of a row is written before it.
    pub(crate) fn rows(&mut self, squares: impl IntoIterator<Item = (String, Square)>) {
        let mut column = 0;
        for (label, square) in squares {
            if column == ROW {
                (column, self.y) = (0, self.y + PITCH);
            }
            if column == 0 {
                self.text(MARGIN, "small", &label);
            }
            self.square(MARGIN + LABEL + column * PITCH, &square);
            column += 1;
        }
        self.y += PITCH;
    }

    /// Adds a square with a text beside it.
    pub(crate) fn line(&mut self, square: &Square, text: &str) {
        self.square(MARGIN, square);
        self.text(MARGIN + PITCH + 4, "", text);
        self.y += PITCH;
    }

    /// Writes the picture to a file; `-` is stdout.
    pub(crate) fn write(self, file: &Path, output: Output) -> Result<()> {
        let picture = self.finish();
        if file == Path::new("-") {
            return Ok(output.lines(picture.lines())?);
        }
        fs::write(file, picture).with_context(|| file.display().to_string())
    }

    /// The picture as text.
    pub(crate) fn finish(self) -> String {
        let (elements, height) = (self.elements, self.y + MARGIN);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{WIDTH}\" \
             height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n{elements}</svg>\n"
        )
    }

    fn square(&mut self, x: usize, square: &Square) {
        self.elements += "<g>";
        if let Some(title) = &square.title {
            self.elements += &format!("<title>{}</title>", escaped(title));
        }
        let fill = square.colour.iter();
        let fill: String = fill.map(|colour| format!(" fill=\"{colour}\"")).collect();
        self.rectangle(square.class, x, SIDE, &fill);
        if let Some(opacity) = square.shade {
            let opacity = format!(" fill-opacity=\"{opacity:.2}\"");
            self.rectangle("reserved", x, SIDE, &opacity);
        }
        if square.is_marked {
            self.rectangle("leaked", x + SIDE - 8, 8, "");
        }
        if !square.letter.is_empty() {
            self.text(x + SIDE / 2, "cell on", square.letter);
        }
        self.elements += "</g>\n";
    }

    fn rectangle(&mut self, class: &str, x: usize, side: usize, more: &str) {
        let y = self.y;
        self.elements += &format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" rx=\"3\"{more}/>"
        );
    }

    fn text(&mut self, x: usize, class: &str, text: &str) {
        let (y, text) = (self.y + 14, escaped(text));
        self.elements += &format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n");
    }
}

/// The text as XML has it.
fn escaped(text: &str) -> String {
    plain(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
