//! How `top` is drawn: a head, the workers, the requests that run, and a line of keys or news. A terminal without room for
//! all gets the most important columns and rows. Colours only repeat what the words say.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};
use supervisor::{Role, Size};

use crate::cli::status_page::{age, up};
use crate::cli::top::figures::{Figures, Order, Reading, Worker, application};
use crate::cli::top::routes::{self, RouteOrder};

/// From so many rows on there is room for the graph of past rates.
const ROWS_FOR_GRAPH: u16 = 20;
const KEYS: &str = "q quit  p pause  t routes  s sort  r reverse  a application  up/down scroll";

/// A column of workers: its title, its width, its text, and which order it shows.
struct Column {
    title: &'static str,
    width: u16,
    text: fn(&Worker, u64) -> String,
    order: Option<Order>,
    /// Its place among those that a narrow terminal has: 0 is there always.
    rank: usize,
}

/// From left to right.
const COLUMNS: [Column; 9] = [
    Column {
        title: "worker",
        width: 10,
        text: |worker, _| {
            let (generation, number) = (worker.process.generation, worker.process.worker);
            format!(
                "{} of {}",
                number.unwrap_or_default(),
                generation.unwrap_or_default()
            )
        },
        order: Some(Order::Number),
        rank: 0,
    },
    Column {
        title: "pid",
        width: 8,
        text: |worker, _| worker.process.pid.to_string(),
        order: None,
        rank: 5,
    },
    Column {
        title: "state",
        width: 8,
        text: |worker, _| worker.process.state.clone(),
        order: None,
        rank: 6,
    },
    Column {
        title: "busy",
        width: 7,
        text: |worker, _| format!("{}/{}", worker.busy_threads, worker.threads),
        order: None,
        rank: 1,
    },
    Column {
        title: "req/s",
        width: 8,
        text: |worker, _| {
            worker
                .rate
                .map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
        },
        order: Some(Order::Rate),
        rank: 2,
    },
    Column {
        title: "requests",
        width: 9,
        text: |worker, _| worker.process.requests.unwrap_or_default().to_string(),
        order: Some(Order::Requests),
        rank: 7,
    },
    Column {
        title: "private",
        width: 8,
        text: |worker, _| {
            worker
                .process
                .memory_bytes
                .map_or_else(|| "-".to_owned(), mib)
        },
        order: Some(Order::Memory),
        rank: 3,
    },
    Column {
        title: "grown",
        width: 8,
        text: |worker, _| {
            let grown = worker.grown();
            grown.map_or_else(
                || "-".to_owned(),
                |bytes| format!("{:+.1}", bytes as f64 / f64::from(1 << 20)),
            )
        },
        order: Some(Order::Grown),
        rank: 4,
    },
    Column {
        title: "up",
        width: 12,
        text: |worker, now| up(&worker.process, now),
        order: Some(Order::Age),
        rank: 8,
    },
];

/// How a person wants to see it.
#[derive(Default)]
pub(super) struct Choices {
    pub(super) colours: bool,
    /// Whether new readings are not shown.
    pub(super) paused: bool,
    pub(super) order: Order,
    pub(super) reversed: bool,
    /// Whether routes are shown in place of workers, and how they are sorted.
    pub(super) shows_routes: bool,
    pub(super) route_order: RouteOrder,
    /// The first row of the table that is shown.
    pub(super) first_row: usize,
    /// The place of the application that is shown; all together without one.
    pub(super) application: Option<usize>,
    /// Whether the keys are shown in place of news.
    pub(super) help: bool,
}

/// A reading and how it is to be shown.
pub(super) struct Page<'a> {
    pub(super) now: &'a Reading,
    pub(super) figures: &'a Figures,
    /// Requests each second, the oldest first.
    pub(super) rates: &'a [u64],
    pub(super) choices: &'a Choices,
}

impl Page<'_> {
    pub(super) fn draw(&self, frame: &mut Frame<'_>, notice: Option<&str>) {
        let area = frame.area();
        let head = self.head(area.width);
        let graph = if area.height >= ROWS_FOR_GRAPH { 2 } else { 0 };
        let head_rows = u16::try_from(head.len()).unwrap_or(u16::MAX);
        let [head_area, graph_area, body, foot] = Layout::vertical([
            Constraint::Length(head_rows),
            Constraint::Length(graph),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(area);
        frame.render_widget(Paragraph::new(head), head_area);
        if graph > 0 {
            self.draw_graph(frame, graph_area);
        }
        let rows = match self.choices.shows_routes {
            true => self.figures.routes.len(),
            false => self.figures.workers.len(),
        };
        let wanted = u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(1);
        // The requests have a third of the room at least.
        let table = wanted.min(body.height.saturating_sub(body.height / 3));
        let [table, running] =
            Layout::vertical([Constraint::Length(table), Constraint::Fill(1)]).areas(body);
        self.draw_table(frame, table);
        self.draw_running(frame, running);
        self.draw_foot(frame, foot, notice);
    }

    /// Facts about the server, as many in a line as fit.
    fn head(&self, width: u16) -> Vec<Line<'static>> {
        let (report, figures) = (&self.now.report, self.figures);
        let own = application(report, self.choices.application);
        let named = self
            .choices
            .application
            .and_then(|place| report.applications.get(place));
        let dir = named.map_or(&report.dir, |one| &one.dir);
        let name = named.map_or_else(String::new, |one| format!("{}: ", one.name));
        let front = report
            .all
            .processes
            .iter()
            .find(|one| one.role == Role::Front);
        let up = front.map_or_else(String::new, |front| {
            format!(", up {}", up(front, report.now))
        });
        let title = format!(
            "highball {} is {} {name}{dir}, pid {}{up}",
            report.version, report.state, report.pid
        );
        let rate = figures
            .rate
            .map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
        let mut facts = vec![(format!("requests {rate}/s"), false)];
        for (name, rate) in &figures.rates {
            let is_bad = !["2xx", "3xx"].contains(&&**name);
            facts.push((format!("{name} {rate:.1}/s"), is_bad));
        }
        let (queue, slots) = (&own.queue, &own.slots);
        let all_busy = figures.threads > 0 && figures.busy_threads == figures.threads;
        facts.push((
            format!(
                "queue {} of {}, longest {}",
                queue.length, queue.limit, queue.longest
            ),
            queue.length > 0,
        ));
        facts.push((
            format!(
                "threads {} of {} busy",
                figures.busy_threads, figures.threads
            ),
            all_busy,
        ));
        facts.push((
            format!("saturation {:.0} %", own.saturation * 100.0),
            own.saturation > 1.0,
        ));
        facts.push((
            format!("slots {} of {} free", slots.free, slots.total),
            slots.free == 0,
        ));
        facts.push((format!("connections {}", report.connections), false));
        if let Some(memory) = figures.memory {
            facts.push((format!("memory {}", Size(memory)), false));
        }
        if let Some(cache) = &own.cache {
            let all = cache.hits + cache.stale + cache.validated + cache.misses;
            let hits = all - cache.misses;
            facts.push((format!("cache {hits} hits of {all}"), false));
        }
        facts.push((format!("generations {}", figures.generations), false));
        if own.retried > 0 {
            facts.push((format!("run again {}", own.retried), true));
        }
        if let Some(seconds) = own.next_start_s {
            facts.push((
                format!("no worker can serve, next start in {seconds} s"),
                true,
            ));
        }
        let mut lines = vec![Line::styled(title, bold())];
        lines.extend(self.wrapped(facts, width));
        lines
    }

    /// Facts in lines of at most this width; those that a person should see are marked.
    fn wrapped(&self, facts: Vec<(String, bool)>, width: u16) -> Vec<Line<'static>> {
        let mut lines = vec![Line::default()];
        for (fact, is_bad) in facts {
            let style = match (is_bad, self.choices.colours) {
                (true, true) => bold().fg(Color::Red),
                (true, false) => bold(),
                (false, _) => Style::new(),
            };
            let last = lines.last().map_or(0, Line::width);
            let fits = last + 2 + fact.chars().count() <= usize::from(width);
            if last > 0 && !fits {
                lines.push(Line::default());
            }
            if let Some(line) = lines.last_mut() {
                if line.width() > 0 {
                    line.push_span("  ");
                }
                line.push_span(Span::styled(fact, style));
            }
        }
        lines
    }

    fn draw_graph(&self, frame: &mut Frame<'_>, area: Rect) {
        let rates = self.rates;
        let first = rates.len().saturating_sub(usize::from(area.width));
        let style = match self.choices.colours {
            true => Style::new().fg(Color::Cyan),
            false => Style::new(),
        };
        let graph = Sparkline::default().data(&rates[first..]).style(style);
        frame.render_widget(graph, area);
    }

    fn draw_table(&self, frame: &mut Frame<'_>, area: Rect) {
        let choices = self.choices;
        if choices.shows_routes {
            let shown = self.figures.routes.get(choices.first_row..);
            let order = (choices.route_order, choices.reversed);
            routes::draw(frame, area, shown.unwrap_or_default(), order);
        } else {
            self.draw_workers(frame, area);
        }
    }

    fn draw_workers(&self, frame: &mut Frame<'_>, area: Rect) {
        let columns = columns(area.width);
        let title = |column: &&Column| {
            let order = column.order.filter(|order| *order == self.choices.order);
            let mark = order.map_or("", |_| if self.choices.reversed { "^" } else { "v" });
            Cell::from(Line::raw(format!("{}{mark}", column.title)).alignment(Alignment::Right))
        };
        let head =
            Row::new(columns.iter().map(title)).style(bold().add_modifier(Modifier::REVERSED));
        let shown = self.figures.workers.iter().skip(self.choices.first_row);
        let rows = shown.map(|worker| {
            let text = |column: &&Column| {
                let text = (column.text)(worker, self.now.report.now);
                Cell::from(Line::raw(text).alignment(Alignment::Right))
            };
            Row::new(columns.iter().map(text))
        });
        let widths = columns
            .iter()
            .map(|column| Constraint::Length(column.width));
        frame.render_widget(
            Table::new(rows, widths).header(head).column_spacing(1),
            area,
        );
    }

    fn draw_running(&self, frame: &mut Frame<'_>, area: Rect) {
        let running = &self.figures.running;
        let title = match running.len() {
            0 => "no request runs".to_owned(),
            count => format!("{count} running, the longest first"),
        };
        let mut lines = vec![Line::styled(title, bold().add_modifier(Modifier::REVERSED))];
        lines.extend(running.iter().take(usize::from(area.height)).map(|thread| {
            let since = duration(thread.since_ms.unwrap_or_default());
            let place = format!(
                "{}/{} of {}",
                thread.worker, thread.thread, thread.generation
            );
            let what = match (&thread.method, &thread.path) {
                (Some(method), Some(path)) => format!("{method} {path}"),
                _ => thread.state.clone(),
            };
            Line::raw(format!("{since:>10}  worker {place:<9} {what}"))
        }));
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn draw_foot(&self, frame: &mut Frame<'_>, area: Rect, notice: Option<&str>) {
        let paused = match self.choices.paused {
            true => "paused, p goes on  ",
            false => "",
        };
        let text = match notice {
            Some(notice) if !self.choices.help => notice.to_owned(),
            _ => KEYS.to_owned(),
        };
        let style = Style::new().add_modifier(Modifier::REVERSED);
        frame.render_widget(Paragraph::new(format!("{paused}{text}")).style(style), area);
    }
}

/// The columns that fit, from left to right.
fn columns(width: u16) -> Vec<&'static Column> {
    let mut by_rank: Vec<&Column> = COLUMNS.iter().collect();
    by_rank.sort_by_key(|column| column.rank);
    let mut left = width;
    let fitting = by_rank.into_iter().take_while(|column| {
        let needed = column.width + 1;
        let fits = column.rank == 0 || left >= needed;
        left = left.saturating_sub(needed);
        fits
    });
    let last = fitting.map(|column| column.rank).max().unwrap_or(0);
    COLUMNS
        .iter()
        .filter(|column| column.rank <= last)
        .collect()
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ => age(ms / 1000),
    }
}

#[cfg(test)]
mod tests;
