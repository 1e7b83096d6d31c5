//! The answer on a terminal: the page's sentences, and its tables in characters, as wide as the terminal is.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table as Characters, presets,
};

use super::number::SPACE;
use super::page::Page;
use super::page::study;
use super::table::{self, Table};
use super::warnings::warnings;
use super::words::answer;
use compare::verdict::judge;

/// Width where neither the terminal nor `COLUMNS` gives one.
const WIDTH: usize = 80;

/// Lines longer than this are hard to read, however wide the terminal.
const READABLE: usize = 110;

/// The whole text, its lines at most `width` characters.
pub(super) fn render(page: &Page<'_>, width: usize) -> String {
    let results = page.results;
    let judgement = judge(results);
    let mut text = String::new();
    let mut paragraph = |line: &str, indent: &str| {
        wrap(&mut text, line, indent, width.min(READABLE));
    };
    if let Some(contamination) = judgement.contamination {
        paragraph(&format!("! {contamination}\n"), "  ");
    }
    let orders = page.study.map(study::orders).unwrap_or_default();
    let mut sentences = answer(results, &judgement).into_iter().chain(orders);
    if let Some(lead) = sentences.next() {
        paragraph(&format!("{}{}", lead.strong, lead.rest), "");
    }
    for sentence in sentences {
        paragraph(&format!("- {}{}", sentence.strong, sentence.rest), "  ");
    }
    for load in &results.loads {
        let figures = table::figures(results, &judgement, load);
        if !figures.rows.is_empty() {
            put(&mut text, &figures, width);
        }
        if let Some(verdicts) = table::verdicts(results, &judgement, load) {
            put(&mut text, &verdicts, width);
        }
    }
    if let Some(peaks) = table::peaks(results, &judgement) {
        put(&mut text, &peaks, width);
    }
    let warnings = warnings(results, &judgement);
    let missing = results.missing.iter().map(|one| {
        let install = one.install.as_ref();
        let install = install.map_or(String::new(), |command| format!(" To install: {command}"));
        format!(
            "{} did not take part: {}.{install}",
            one.id,
            one.reason.trim_end_matches('.')
        )
    });
    for (index, line) in warnings.into_iter().chain(missing).enumerate() {
        if index == 0 {
            text.push('\n');
        }
        wrap(&mut text, &format!("! {line}"), "  ", width.min(READABLE));
    }
    text.replace(SPACE, " ")
}

/// The width of the terminal that standard output is, or what `COLUMNS` says.
pub(super) fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let terminal = size.ok().map(|size| usize::from(size.ws_col));
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    let width = terminal.filter(|width| *width > 0).or_else(columns);
    width.unwrap_or(WIDTH).max(40)
}

/// Columns that are left out where a table is too wide, by their heads, the least important first. The warnings or the page
/// have what they show.
const OPTIONAL: [&str; 4] = ["trials", "p99.9 ms", "limit", "failed"];

fn put(text: &mut String, table: &Table, width: usize) {
    let heads = table.heads.iter().map(|head| match head.brief.as_str() {
        "" => head.title.clone(),
        brief => brief.to_owned(),
    });
    let mut lines: Vec<Vec<String>> = vec![std::iter::once(String::new()).chain(heads).collect()];
    for row in &table.rows {
        let cells = row.cells.iter().map(|cell| {
            let sign = match cell.kind {
                "better" => "▲\u{a0}",
                "worse" => "▼\u{a0}",
                _ => "",
            };
            let text = if cell.brief.is_empty() {
                &cell.text
            } else {
                &cell.brief
            };
            format!("{sign}{text}")
        });
        lines.push(std::iter::once(row.id.clone()).chain(cells).collect());
    }
    for head in OPTIONAL {
        if natural_width(&lines) <= width {
            break;
        }
        if let Some(column) = lines[0].iter().position(|other| other == head) {
            lines.iter_mut().for_each(|line| drop(line.remove(column)));
        }
    }
    let mut characters = Characters::new();
    characters
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX));
    let mut lines = lines.into_iter();
    characters.set_header(lines.next().unwrap_or_default());
    characters.add_rows(lines);
    if let Some(names) = characters.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
        names.set_padding((0, 0));
    }
    for column in characters.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
        column.set_padding((GAP as u16, 0));
    }
    text.push_str(&format!("\n{}\n{characters}\n", table.caption));
}

/// Spaces before each column but the first.
const GAP: usize = 1;

/// The width of a table none of whose cells wraps.
fn natural_width(lines: &[Vec<String>]) -> usize {
    let columns = lines.first().map_or(0, Vec::len);
    let widest = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    (0..columns).map(|column| widest(column) + GAP).sum()
}

/// Appends `line` broken at spaces, further lines behind `indent`.
fn wrap(text: &mut String, line: &str, indent: &str, width: usize) {
    let mut used = 0;
    for word in line.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            text.push('\n');
            text.push_str(indent);
            used = indent.len();
        } else if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += length;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_leaves_out_columns_before_it_breaks_words() {
        let cells = [
            "1",
            "1,890\u{a0}±\u{a0}13\u{a0}%",
            "46.9",
            "123",
            "149",
            "969",
            "177",
            "none",
            "server",
        ];
        let heads = [
            "#",
            "requests/s",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "CPU µs",
            "MB",
            "failed",
            "limit",
        ];
        let table = Table {
            caption: "Figures".into(),
            heads: heads.map(|title| table::head(title, "")).into(),
            rows: vec![table::Row {
                id: "apache+thin-bybusyness".into(),
                cells: cells.map(table::Cell::new).into(),
                ..table::Row::default()
            }],
        };
        let mut wide = String::new();
        put(&mut wide, &table, 120);
        assert!(
            wide.contains("p99.9 ms") && wide.contains("server"),
            "{wide}"
        );
        let mut narrow = String::new();
        put(&mut narrow, &table, 80);
        assert!(!narrow.contains("p99.9 ms"), "{narrow}");
        assert!(
            narrow.contains("requests/s p50 ms p99 ms CPU µs"),
            "{narrow}"
        );
        assert_eq!(narrow.lines().count(), 4, "{narrow}");
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 80),
            "{narrow}"
        );
    }

    #[test]
    fn lines_break_at_spaces_and_keep_their_indent() {
        let mut text = String::new();
        wrap(&mut text, "- one two three four", "  ", 10);
        assert_eq!(text, "- one two\n  three\n  four\n");
    }
}
