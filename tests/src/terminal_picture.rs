//! What a terminal shows, as a picture: a page with its characters and colours, of which a browser keeps pictures.

use std::num::NonZero;
use std::path::Path;

use vt100::{Cell, Color, Parser};

use crate::browser::keep_pictures;

/// Rows of the terminal: more are not in the picture.
const ROWS: u16 = 60;
/// The colours of xterm, as a page names them.
const COLOURS: [&str; 8] = [
    "#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#dcdfe4",
];

/// Keeps pictures of a terminal of so many columns after these bytes, as [`keep_pictures`] does. The page and the browser's
/// files are in `folder`.
///
/// # Panics
/// When the pictures cannot be taken.
pub fn keep_terminal_pictures(bytes: &[u8], columns: u16, name: &str, folder: &Path) {
    let path = folder.join(format!("{name}.html"));
    std::fs::write(&path, page(bytes, columns)).expect("the page can be written");
    keep_pictures(&format!("file://{}", path.display()), "pre", name, folder);
}

/// The page: the last lines that the terminal shows.
fn page(bytes: &[u8], columns: u16) -> String {
    let size = |number| NonZero::new(number).expect("a terminal has rows and columns");
    let mut parser = Parser::new(size(ROWS), size(columns), 0);
    parser.process(bytes);
    let screen = parser.screen();
    let mut lines: Vec<String> = (0..ROWS)
        .map(|row| {
            let cells = (0..columns).filter_map(|column| screen.cell(row, column));
            let line: String = cells.map(span).collect();
            line.trim_end().to_owned()
        })
        .collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><style>body {{ margin: \
         0; background: #1e2127; color: #dcdfe4 }} pre {{ margin: 1rem; font: 14px/1.4 monospace; overflow-x: auto \
         }}</style><pre>{}</pre>",
        lines.join("\n")
    )
}

fn span(cell: &Cell) -> String {
    let text = match cell.contents() {
        "" => " ",
        "<" => "&lt;",
        "&" => "&amp;",
        text => text,
    };
    let mut style = String::new();
    if let Color::Idx(number) = cell.fgcolor() {
        style += &format!("color:{};", COLOURS[usize::from(number) % COLOURS.len()]);
    }
    if cell.bold() {
        style += "font-weight:bold;";
    }
    if cell.dim() {
        style += "opacity:.6;";
    }
    match &*style {
        "" => text.to_owned(),
        style => format!("<span style=\"{style}\">{text}</span>"),
    }
}
