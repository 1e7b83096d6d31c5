//! The command `top`: a running server in the terminal, drawn again with each reading of its status. What is shown is in
//! `figures.rs`, how it is drawn in `page.rs`. Changes nothing in the server.

mod figures;
mod page;
mod routes;

use std::time::{Duration, Instant};

use anyhow::Result;
use command_line::ServerArguments;
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;

use crate::cli::live::{self, View};
use crate::cli::terminal::Output;
use crate::cli::top::figures::{Figures, Order, Reading};
use crate::cli::top::page::{Choices, Page};
use crate::control::report::Report;

/// Rates of the past that are drawn: as many as a wide terminal has columns.
const RATES_KEPT: usize = 256;

/// Shows a server until somebody ends it.
///
/// # Errors
/// There is no server, it does not answer the first time, or stdout is no terminal.
pub(crate) fn run(server: ServerArguments, interval: Duration) -> Result<()> {
    let choices = Choices {
        colours: Output::of_stdout().colours,
        ..Choices::default()
    };
    let top = Top {
        choices,
        ..Top::default()
    };
    live::run(server, interval, top)
}

/// What is shown, and how.
#[derive(Default)]
struct Top {
    now: Option<Reading>,
    figures: Figures,
    /// Requests each second, the oldest first.
    rates: Vec<u64>,
    choices: Choices,
}

impl View for Top {
    fn show(&mut self, report: Box<Report>, at: Instant) {
        if self.choices.paused {
            return;
        }
        let before = self.now.take();
        let now = Reading { report, at };
        if self.choices.application >= Some(now.report.applications.len()) {
            self.choices.application = None;
        }
        self.figures = Figures::of(before.as_ref(), &now, self.choices.application);
        if let Some(rate) = self.figures.rate {
            self.rates.push(rate.round() as u64);
            let surplus = self.rates.len().saturating_sub(RATES_KEPT);
            self.rates.drain(..surplus);
        }
        self.now = Some(now);
        self.sort();
    }

    fn press(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char('p' | ' ') => self.choices.paused = !self.choices.paused,
            KeyCode::Char('h' | '?') => self.choices.help = !self.choices.help,
            KeyCode::Char('s') => self.sort_by_next_column(),
            KeyCode::Char('t') => {
                self.choices.shows_routes = !self.choices.shows_routes;
                self.choices.first_row = 0;
            }
            KeyCode::Char('r') => self.choices.reversed = !self.choices.reversed,
            KeyCode::Char('a') => self.show_next_application(),
            _ => {
                let rows = match self.choices.shows_routes {
                    true => self.figures.routes.len(),
                    false => self.figures.workers.len(),
                };
                self.choices.first_row = live::scrolled(self.choices.first_row, key, rows);
            }
        }
        self.sort();
    }

    fn draw(&self, frame: &mut Frame<'_>, notice: Option<&str>) {
        if let Some(now) = &self.now {
            let page = Page {
                now,
                figures: &self.figures,
                rates: &self.rates,
                choices: &self.choices,
            };
            page.draw(frame, notice);
        }
    }
}

impl Top {
    fn sort(&mut self) {
        let (choices, figures) = (&self.choices, &mut self.figures);
        choices.order.sort(&mut figures.workers, choices.reversed);
        choices
            .route_order
            .sort(&mut figures.routes, choices.reversed);
    }

    fn sort_by_next_column(&mut self) {
        if self.choices.shows_routes {
            self.choices.route_order = self.choices.route_order.next();
            return;
        }
        let mut orders = Order::ALL.into_iter().cycle();
        orders.find(|order| *order == self.choices.order);
        self.choices.order = orders.next().unwrap_or_default();
    }

    /// All applications, then each of them.
    fn show_next_application(&mut self) {
        let Some(now) = &self.now else {
            return;
        };
        let next = self.choices.application.map_or(0, |place| place + 1);
        self.choices.application = (next < now.report.applications.len()).then_some(next);
        // Rates come with the next reading.
        self.figures = Figures::of(None, now, self.choices.application);
        self.rates.clear();
        self.choices.first_row = 0;
    }
}
