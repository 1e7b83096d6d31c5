//! Pages at the sizes that terminals have, as they are drawn.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use supervisor::{Generation, MemoryDetails, Process};

use super::*;
use crate::control::report::{ApplicationReport, Queue, Report, Slots, Thread};

fn report() -> Report {
    let worker = |number: u16| Process {
        pid: 4713 + i32::from(number),
        role: Role::Worker,
        worker: Some(number),
        generation: Some(1),
        name: None,
        state: "ready".into(),
        forked_from: None,
        started: 1000,
        requests: Some(81_250),
        memory_bytes: Some(60 << 20),
        first_memory_bytes: Some(50 << 20),
        memory: Some(MemoryDetails {
            pss_bytes: 100 << 20,
            ..MemoryDetails::default()
        }),
    };
    let thread = |worker, path: &str| Thread {
        generation: 1,
        worker,
        state: "running".into(),
        method: Some("GET".into()),
        path: Some(path.into()),
        since_ms: Some(2500),
        ..Thread::default()
    };
    let all = ApplicationReport {
        processes: (0..12).map(worker).collect(),
        generations: vec![Generation {
            number: 1,
            state: "serving".into(),
            ..Generation::default()
        }],
        threads: vec![thread(0, "/reports"), thread(1, "/a\x1b[2J")],
        queue: Queue {
            length: 3,
            longest: 17,
            limit: 256,
            age_s: 0.0,
        },
        slots: Slots { total: 4, free: 2 },
        ..ApplicationReport::default()
    };
    Report {
        version: "0.1.0".into(),
        pid: 4711,
        dir: "/srv/shop".into(),
        state: "serving".into(),
        now: 9000,
        connections: 55,
        all,
        ..Report::default()
    }
}

fn drawn(columns: u16, rows: u16, choices: &Choices, notice: Option<&str>) -> Buffer {
    let now = Reading {
        report: Box::new(report()),
        at: std::time::Instant::now(),
    };
    let figures = Figures {
        rate: Some(1234.5),
        rates: vec![("2xx".into(), 1230.0), ("5xx".into(), 4.5)],
        ..Figures::of(None, &now, None)
    };
    let page = Page {
        now: &now,
        figures: &figures,
        rates: &[1, 2, 3],
        choices,
    };
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
    terminal
        .draw(|frame| page.draw(frame, notice))
        .expect("no input and output");
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let rows = buffer.content().chunks(usize::from(buffer.area.width));
    rows.map(|row| {
        row.iter()
            .map(|cell| cell.symbol())
            .collect::<String>()
            .trim_end()
            .to_owned()
    })
    .collect()
}

#[test]
fn a_page_of_80_columns_and_24_rows_has_everything() {
    let lines = lines(&drawn(80, 24, &Choices::default(), None));
    let page = lines.join("\n");
    for text in [
        "highball 0.1.0 is serving /srv/shop, pid 4711",
        "requests 1234.5/s  2xx 1230.0/s  5xx 4.5/s  queue 3 of 256, longest 17",
        "threads 2 of 2 busy",
        "connections 55",
        "memory 1200.0 MiB",
        "generations 1 serving",
        "0 of 1     4713    ready     1/1        -     81250     60.0    +10.0",
        "2 running, the longest first",
        "     2.5 s  worker 0/0 of 1  GET /reports",
        "q quit",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    assert!(!page.contains('\x1b'), "{page}");
}

#[test]
fn every_size_of_a_terminal_can_be_drawn() {
    for columns in [1, 7, 20, 40, 79, 200] {
        for rows in [1, 2, 5, 10, 60] {
            let lines = lines(&drawn(columns, rows, &Choices::default(), Some("news")));
            assert_eq!(lines.len(), usize::from(rows));
        }
    }
    let narrow = lines(&drawn(40, 24, &Choices::default(), None)).join("\n");
    for text in ["worker", "busy", "req/s", "private", "queue 3 of 256"] {
        assert!(narrow.contains(text), "{text}\n{narrow}");
    }
}

#[test]
fn colours_are_used_only_where_they_are_wanted() {
    let colours = |choices: &Choices| {
        let buffer = drawn(80, 24, choices, None);
        let coloured =
            |cell: &&ratatui::buffer::Cell| cell.fg != Color::Reset || cell.bg != Color::Reset;
        buffer.content().iter().filter(coloured).count()
    };
    assert_eq!(colours(&Choices::default()), 0);
    let choices = Choices {
        colours: true,
        ..Choices::default()
    };
    assert!(colours(&choices) > 0);
}

#[test]
fn the_last_line_has_news_keys_and_whether_it_is_paused() {
    let last = |choices: &Choices, notice| lines(&drawn(80, 24, choices, notice)).pop();
    let mut choices = Choices::default();
    assert_eq!(
        last(&choices, Some("no answer")).as_deref(),
        Some("no answer")
    );
    choices.paused = true;
    let line = last(&choices, Some("no answer")).unwrap_or_default();
    assert!(
        line.starts_with("paused") && line.contains("no answer"),
        "{line}"
    );
    choices.help = true;
    let line = last(&choices, Some("no answer")).unwrap_or_default();
    assert!(line.contains("q quit"), "{line}");
}

#[test]
fn the_order_is_marked_in_the_head_of_the_table() {
    let head = |choices: &Choices| lines(&drawn(80, 24, choices, None)).join("\n");
    let mut choices = Choices {
        order: Order::Memory,
        ..Choices::default()
    };
    assert!(head(&choices).contains("privatev"));
    choices.reversed = true;
    assert!(head(&choices).contains("private^"));
    choices.first_row = 11;
    let page = head(&choices);
    assert!(
        page.contains("11 of 1") && !page.contains(" 0 of 1     4713"),
        "{page}"
    );
}
