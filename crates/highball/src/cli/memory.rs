//! The command `memory`, and its page: an aligned table for people. A terminal that is too narrow for all columns gets the most
//! important ones. Writes only what the figures say.

use std::fmt::Write;

use anyhow::Result;
use command_line::ServerArguments;
use supervisor::{Role, Size};

use crate::application::counted;
use crate::cli::memory_usage::{Memory, Row};
use crate::cli::status_page::{name, up};
use crate::cli::terminal::Output;
use crate::cli::{client, print};

/// A column of figures.
struct Column {
    title: &'static str,
    width: usize,
    of: fn(&Row) -> Option<String>,
    total: fn(&Memory) -> Option<String>,
}

/// Figures of memory have room for a million MiB.
const MEMORY_WIDTH: usize = 9;

const PID: Column = Column {
    title: "pid",
    width: 8,
    of: |row| Some(row.process.pid.to_string()),
    total: |_| None,
};
const PSS: Column = Column {
    title: "PSS",
    width: MEMORY_WIDTH,
    of: |row| row.process.memory.map(|memory| mib(memory.pss_bytes)),
    total: |memory| Some(mib(memory.total.pss_bytes)),
};
const PRIVATE: Column = Column {
    title: "private",
    width: MEMORY_WIDTH,
    of: |row| row.process.memory_bytes.map(mib),
    total: |memory| Some(mib(memory.total.private_bytes)),
};
const SHARED: Column = Column {
    title: "shared",
    width: MEMORY_WIDTH,
    of: |row| row.process.memory.map(|memory| mib(memory.shared_bytes)),
    total: |_| None,
};
const SWAP: Column = Column {
    title: "swap",
    width: MEMORY_WIDTH,
    of: |row| row.process.memory.map(|memory| mib(memory.swap_bytes)),
    total: |memory| Some(mib(memory.total.swap_bytes)),
};
const RSS: Column = Column {
    title: "RSS",
    width: MEMORY_WIDTH,
    of: |row| row.process.memory.map(|memory| mib(memory.rss_bytes)),
    total: |memory| Some(mib(memory.total.rss_bytes)),
};
const GROWN: Column = Column {
    title: "grown",
    width: MEMORY_WIDTH,
    of: |row| row.grown_bytes.map(growth),
    total: |_| None,
};
const REQUESTS: Column = Column {
    title: "requests",
    width: 10,
    of: |row| row.process.requests.map(|count| count.to_string()),
    total: |_| None,
};

/// All columns from left to right, each with its place among those that a narrow terminal has: 0 is there always.
const COLUMNS: [(usize, Column); 8] = [
    (2, PID),
    (1, PSS),
    (0, PRIVATE),
    (4, SHARED),
    (5, SWAP),
    (7, RSS),
    (3, GROWN),
    (6, REQUESTS),
];

/// Prints the memory of a server.
///
/// # Errors
/// There is no server, or it does not answer.
pub(crate) fn run(server: &ServerArguments, json: bool) -> Result<()> {
    let memory = Memory::of(&*client::report(server)?);
    let text = match json {
        true => serde_json::to_string_pretty(&memory)? + "\n",
        false => render(&memory, Output::of_stdout()),
    };
    print(&text)
}

/// Prints the memory of every server that this user may reach, one after the other, and what they hold together.
///
/// # Errors
/// There is none that answers.
pub(crate) fn run_all(json: bool) -> Result<()> {
    let reports = client::all_reports()?;
    let all: Vec<Memory> = reports.iter().map(Memory::of).collect();
    if json {
        return print(&(serde_json::to_string_pretty(&all)? + "\n"));
    }
    let output = Output::of_stdout();
    let mut pages: Vec<String> = all.iter().map(|memory| render(memory, output)).collect();
    pages.push(together(&all));
    print(&pages.join("\n"))
}

/// A line about all servers.
fn together(all: &[Memory]) -> String {
    let sum = |of: fn(&Memory) -> u64| Size(all.iter().map(of).sum());
    format!(
        "{}: PSS {}, private {}, swap {}\n",
        counted(all.len(), "server"),
        sum(|one| one.total.pss_bytes),
        sum(|one| one.total.private_bytes),
        sum(|one| one.total.swap_bytes)
    )
}

/// The page, with a newline at its end.
fn render(memory: &Memory, output: Output) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut page, memory, output);
    page
}

fn write(page: &mut String, memory: &Memory, output: Output) -> std::fmt::Result {
    let label_width = memory
        .processes
        .iter()
        .map(|row| label(row).chars().count());
    let label_width = label_width.max().unwrap_or(0).max("all".len());
    let columns = columns(label_width, output.columns);
    writeln!(
        page,
        "highball {}, pid {}: memory in MiB",
        memory.dir, memory.pid
    )?;
    let titles = columns.iter().map(|column| Some(column.title.to_owned()));
    let titles = line("", label_width, &columns, titles);
    match output.colours {
        true => writeln!(page, "\x1b[1m{titles}\x1b[0m")?,
        false => writeln!(page, "{titles}")?,
    }
    let mut group = None;
    for row in &memory.processes {
        let own = (&row.application, row.process.generation);
        if row.process.role != Role::Front && group.replace(own) != Some(own) {
            writeln!(page, "{}", heading(row))?;
        }
        let cells = columns.iter().map(|column| (column.of)(row));
        writeln!(page, "{}", line(&label(row), label_width, &columns, cells))?;
    }
    let cells = columns.iter().map(|column| (column.total)(memory));
    writeln!(page, "{}", line("all", label_width, &columns, cells))?;
    write_summary(page, memory)
}

fn write_summary(page: &mut String, memory: &Memory) -> std::fmt::Result {
    let total = &memory.total;
    writeln!(
        page,
        "\nsharing saves {}: {} processes hold {} and would hold {} if they shared nothing",
        Size(total.saved_bytes),
        total.processes,
        Size(total.pss_bytes),
        Size(total.rss_bytes)
    )?;
    let unknown = memory.processes.iter().map(|row| &row.process);
    for process in unknown.filter(|process| process.memory.is_none()) {
        writeln!(
            page,
            "{} (pid {}): memory unknown: it has just ended, the kernel took too long to tell, or the server may not look \
             into it",
            name(process),
            process.pid
        )?;
    }
    let mut workers: Vec<&Row> = memory.processes.iter().collect();
    workers.retain(|row| row.grown_bytes.is_some());
    let most = workers.into_iter().max_by_key(|row| row.grown_bytes);
    if let Some(row) = most {
        writeln!(
            page,
            "{} has grown most: {} MiB in {} and {} requests",
            name(&row.process),
            growth(row.grown_bytes.unwrap_or_default()),
            up(&row.process, memory.now),
            row.process.requests.unwrap_or_default()
        )?;
    }
    Ok(())
}

/// The columns that fit, from left to right.
fn columns(label_width: usize, width: Option<usize>) -> Vec<&'static Column> {
    let mut by_importance: Vec<usize> = (0..COLUMNS.len()).collect();
    by_importance.sort_by_key(|&index| COLUMNS[index].0);
    let mut left = width.map(|width| width.saturating_sub(label_width));
    let mut chosen = Vec::new();
    for index in by_importance {
        let needed = COLUMNS[index].1.width;
        if !chosen.is_empty() && left.is_some_and(|left| left < needed) {
            break;
        }
        left = left.map(|left| left.saturating_sub(needed));
        chosen.push(index);
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|index| &COLUMNS[index].1).collect()
}

fn line(
    label: &str,
    label_width: usize,
    columns: &[&Column],
    cells: impl Iterator<Item = Option<String>>,
) -> String {
    let mut line = format!("{label:<label_width$}");
    for (column, cell) in columns.iter().zip(cells) {
        let (cell, width) = (cell.unwrap_or_default(), column.width);
        line += &format!("{cell:>width$}");
    }
    line.truncate(line.trim_end().len());
    line
}

fn heading(row: &Row) -> String {
    let generation = row.process.generation.unwrap_or_default();
    let state = row.generation_state.as_deref().unwrap_or("ended");
    let application = row.application.as_ref();
    let application = application.map_or_else(String::new, |name| format!("{name}, "));
    format!("{application}generation {generation}, {state}")
}

fn label(row: &Row) -> String {
    let indent = match row.process.role {
        Role::Front => 0,
        Role::Template | Role::Worker => 2,
        Role::Child => 4,
    };
    format!("{:indent$}{}", "", name(&row.process))
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// A difference with its sign.
fn growth(bytes: i64) -> String {
    format!("{:+.1}", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use supervisor::{Generation, MemoryDetails, Process};

    use super::*;
    use crate::control::report::{ApplicationReport, NamedReport, Report};

    const MIB: u64 = 1 << 20;

    fn process(pid: i32, role: Role, worker: Option<u16>, private: u64, shared: u64) -> Process {
        let is_front = role == Role::Front;
        Process {
            pid,
            role,
            worker,
            generation: (!is_front).then_some(1),
            name: (role == Role::Child).then(|| "ru\x1b[2Jby".to_owned()),
            state: "ready".into(),
            forked_from: None,
            started: 1000,
            requests: (role == Role::Worker).then_some(300),
            memory_bytes: Some(private * MIB),
            first_memory_bytes: (role == Role::Worker).then_some(30 * MIB),
            memory: Some(MemoryDetails {
                rss_bytes: (private + shared) * MIB,
                pss_bytes: (private + shared / 2) * MIB,
                shared_bytes: shared * MIB,
                swap_bytes: 0,
            }),
        }
    }

    fn report() -> Report {
        let unknown = Process {
            memory: None,
            memory_bytes: None,
            ..process(12, Role::Worker, Some(1), 0, 0)
        };
        let all = ApplicationReport {
            processes: vec![
                process(7, Role::Front, None, 10, 0),
                process(8, Role::Template, None, 20, 60),
                process(9, Role::Worker, Some(0), 42, 60),
                unknown,
                process(11, Role::Child, Some(0), 5, 0),
            ],
            generations: vec![Generation {
                number: 1,
                state: "serving".into(),
                ..Generation::default()
            }],
            counters: BTreeMap::new(),
            ..ApplicationReport::default()
        };
        Report {
            pid: 7,
            dir: "/srv/app".into(),
            now: 1100,
            all,
            ..Report::default()
        }
    }

    fn page(report: &Report, columns: Option<usize>, colours: bool) -> String {
        render(&Memory::of(report), Output { columns, colours })
    }

    #[test]
    fn each_process_is_a_row_with_its_figures_and_children_follow_their_worker() {
        let expect = "\
highball /srv/app, pid 7: memory in MiB
                      pid      PSS  private   shared     swap      RSS    grown  requests
front                   7     10.0     10.0      0.0      0.0     10.0
generation 1, serving
  template              8     50.0     20.0     60.0      0.0     80.0
  worker 0              9     72.0     42.0     60.0      0.0    102.0    +12.0       300
    child ru[2Jby      11      5.0      5.0      0.0      0.0      5.0
  worker 1             12                                                             300
all                          137.0     77.0               0.0    197.0

sharing saves 60.0 MiB: 4 processes hold 137.0 MiB and would hold 197.0 MiB if they shared nothing
worker 1 (pid 12): memory unknown: it has just ended, the kernel took too long to tell, or the server may not look into it
worker 0 has grown most: +12.0 MiB in 1 min 40 s and 300 requests
";
        assert_eq!(page(&report(), None, false), expect);
    }

    #[test]
    fn a_narrow_terminal_gets_the_columns_that_matter_most() {
        let check = |columns: usize, expect: &str| {
            let page = page(&report(), Some(columns), false);
            let titles = page.lines().nth(1).unwrap_or_default();
            let titles: Vec<&str> = titles.split_whitespace().collect();
            assert_eq!(titles.join(" "), expect, "{columns}");
            let table = page.lines().skip(1).take_while(|line| !line.is_empty());
            for line in table {
                assert!(line.chars().count() <= columns.max(26), "{line}");
            }
        };
        check(120, "pid PSS private shared swap RSS grown requests");
        check(79, "pid PSS private shared swap grown");
        check(60, "pid PSS private grown");
        check(40, "PSS private");
        check(10, "private");
    }

    #[test]
    fn only_a_terminal_with_colours_gets_attributes() {
        assert!(!page(&report(), Some(100), false).contains('\x1b'));
        assert!(page(&report(), Some(100), true).contains("\x1b[1m"));
    }

    #[test]
    fn several_applications_have_a_heading_each() {
        let mut report = report();
        let named = |name: &str, own: &ApplicationReport| NamedReport {
            name: name.into(),
            own: own.clone(),
            ..NamedReport::default()
        };
        report.applications = vec![named("shop", &report.all), named("wiki", &report.all)];
        let page = page(&report, None, false);
        for heading in ["shop, generation 1, serving", "wiki, generation 1, serving"] {
            assert!(page.lines().any(|line| line == heading), "{page}");
        }
        let fronts = page.lines().filter(|line| line.starts_with("front"));
        assert_eq!(fronts.count(), 1);
    }
}
