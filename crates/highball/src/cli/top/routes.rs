//! The table of routes of `top`: how often each is requested, how long it takes, and what part of the time is the
//! database's. Percentiles and parts are those of the status, since the server started.

use std::cmp::Ordering;
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

use crate::control::report::ApplicationReport;
use crate::control::routes::RouteReport;

/// A route and how often it is requested now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RouteRow {
    pub(super) report: RouteReport,
    /// Requests each second; unknown with the first reading of a server.
    pub(super) rate: Option<f64>,
}

/// A column of figures.
struct Column {
    title: &'static str,
    text: fn(&RouteRow) -> String,
    /// What the rows are sorted by, the largest first.
    value: fn(&RouteRow) -> f64,
}

const COLUMN_WIDTH: u16 = 9;
/// A route that has less room says nothing.
const LEAST_ROUTE_WIDTH: u16 = 20;

/// From left to right; a narrow terminal has the first of them.
const COLUMNS: [Column; 9] = [
    Column {
        title: "time",
        text: |row| percent(row.report.time_share),
        value: |row| row.report.time_share,
    },
    Column {
        title: "req/s",
        text: |row| {
            row.rate
                .map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
        },
        value: |row| row.rate.unwrap_or(-1.0),
    },
    Column {
        title: "p95 ms",
        text: |row| format!("{:.1}", row.report.p95_ms),
        value: |row| row.report.p95_ms,
    },
    Column {
        title: "p50 ms",
        text: |row| format!("{:.1}", row.report.p50_ms),
        value: |row| row.report.p50_ms,
    },
    Column {
        title: "database",
        text: |row| percent(row.report.db_share),
        value: |row| row.report.db_share,
    },
    Column {
        title: "errors",
        text: |row| row.report.errors.to_string(),
        value: |row| row.report.errors as f64,
    },
    Column {
        title: "p99 ms",
        text: |row| format!("{:.1}", row.report.p99_ms),
        value: |row| row.report.p99_ms,
    },
    Column {
        title: "requests",
        text: |row| row.report.requests.to_string(),
        value: |row| row.report.requests as f64,
    },
    Column {
        title: "queries",
        text: |row| format!("{:.1}", row.report.queries),
        value: |row| row.report.queries,
    },
];

/// How the table is sorted: the place of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RouteOrder(usize);

impl RouteOrder {
    pub(super) fn next(self) -> Self {
        Self((self.0 + 1) % COLUMNS.len())
    }

    /// Sorts routes, the largest first.
    pub(super) fn sort(self, rows: &mut [RouteRow], reversed: bool) {
        let value = COLUMNS[self.0].value;
        rows.sort_by(|one, other| {
            let order = value(other).total_cmp(&value(one));
            let order = if reversed { order.reverse() } else { order };
            match order {
                Ordering::Equal => one.report.route.cmp(&other.report.route),
                order => order,
            }
        });
    }
}

/// The routes of a reading. Rates are since the one before it.
pub(super) fn rows(
    report: &ApplicationReport,
    before: Option<(&ApplicationReport, Duration)>,
) -> Vec<RouteRow> {
    let row = |route: &RouteReport| {
        let rate = before.map(|(before, elapsed)| {
            let mut earlier = before.routes.iter();
            let earlier = earlier.find(|one| one.route == route.route);
            let earlier = earlier.map_or(0, |one| one.requests);
            route.requests.saturating_sub(earlier) as f64 / elapsed.as_secs_f64()
        });
        let report = route.clone();
        RouteRow { report, rate }
    };
    report.routes.iter().map(row).collect()
}

/// Draws the routes from a number on.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    rows: &[RouteRow],
    order: (RouteOrder, bool),
) {
    let room = area.width.saturating_sub(LEAST_ROUTE_WIDTH) / (COLUMN_WIDTH + 1);
    let columns = &COLUMNS[..usize::from(room).clamp(1, COLUMNS.len())];
    let right = |text: String| Cell::from(Line::raw(text).alignment(Alignment::Right));
    let titles = columns.iter().enumerate().map(|(place, column)| {
        let mark = match order {
            (by, _) if by != RouteOrder(place) => "",
            (_, true) => "^",
            (_, false) => "v",
        };
        right(format!("{}{mark}", column.title))
    });
    let style = Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED);
    let head = Row::new(titles.chain([Cell::from("route")])).style(style);
    let rows = rows.iter().map(|row| {
        let figures = columns.iter().map(|column| right((column.text)(row)));
        Row::new(figures.chain([Cell::from(row.report.route.clone())]))
    });
    let widths = columns.iter().map(|_| Constraint::Length(COLUMN_WIDTH));
    let widths = widths.chain([Constraint::Fill(1)]);
    frame.render_widget(
        Table::new(rows, widths).header(head).column_spacing(1),
        area,
    );
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(name: &str, requests: u64, time_share: f64) -> RouteReport {
        RouteReport {
            route: name.into(),
            requests,
            time_share,
            ..RouteReport::default()
        }
    }

    #[test]
    fn routes_have_rates_and_are_sorted_by_each_column() {
        let report = |fast, slow| ApplicationReport {
            routes: vec![route("GET /slow", slow, 0.9), route("GET /fast", fast, 0.1)],
            ..ApplicationReport::default()
        };
        let (before, now) = (report(10, 5), report(30, 7));
        let mut rows = rows(&now, Some((&before, Duration::from_secs(2))));
        let rates: Vec<_> = rows.iter().map(|row| row.rate).collect();
        assert_eq!(rates, [Some(1.0), Some(10.0)]);
        let mut check = |order: RouteOrder, reversed, first: &str| {
            order.sort(&mut rows, reversed);
            assert_eq!(rows[0].report.route, first, "{order:?} {reversed}");
        };
        let by_time = RouteOrder::default();
        check(by_time, false, "GET /slow");
        check(by_time, true, "GET /fast");
        check(by_time.next(), false, "GET /fast");
        let mut order = by_time;
        (0..COLUMNS.len()).for_each(|_| order = order.next());
        assert_eq!(order, by_time);
        assert_eq!(super::rows(&now, None)[0].rate, None);
    }
}
