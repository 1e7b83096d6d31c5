//! `status --watch`: the status again and again, on the alternate screen of a terminal, or one page after the other where
//! stdout is none. Changes nothing in the server.

use std::io::{self, Write, stderr, stdout};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use command_line::ServerArguments;
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::Paragraph;
use rustix::termios::isatty;

use crate::cli::live::{self, View};
use crate::cli::{client, status_page};
use crate::control::report::Report;

/// Shows the status of a server until somebody ends it.
///
/// # Errors
/// There is no server, it does not answer the first time, or stdout cannot be written to.
pub(crate) fn run(server: ServerArguments, interval: Duration) -> Result<()> {
    if isatty(stdout()) {
        return live::run(server, interval, Page::default());
    }
    let mut page = status_page::render(&*client::report(&server)?);
    loop {
        match stdout()
            .write_all(page.as_bytes())
            .and_then(|()| stdout().flush())
        {
            // The reader has seen enough, as in `highball status --watch | head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            result => result.context("cannot write to stdout")?,
        }
        page = loop {
            thread::sleep(interval);
            match client::report(&server) {
                Ok(report) => break format!("\n{}", status_page::render(&report)),
                Err(error) => {
                    // A stderr that is closed is no reason to end.
                    let _ = writeln!(stderr(), "no answer, trying again: {error:#}");
                }
            }
        };
    }
}

/// The last page, and the line that it begins with.
#[derive(Default)]
struct Page {
    text: String,
    first_line: usize,
}

impl View for Page {
    fn show(&mut self, report: Box<Report>, _: Instant) {
        self.text = status_page::render(&report);
    }

    fn press(&mut self, key: KeyCode) {
        self.first_line = live::scrolled(self.first_line, key, self.text.lines().count());
    }

    fn draw(&self, frame: &mut Frame<'_>, notice: Option<&str>) {
        let [page, foot] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
        let first = u16::try_from(self.first_line).unwrap_or(u16::MAX);
        frame.render_widget(
            Paragraph::new(Text::raw(&self.text)).scroll((first, 0)),
            page,
        );
        let foot_text = notice.unwrap_or("q quits, up and down scroll");
        let style = Style::new().add_modifier(Modifier::REVERSED);
        frame.render_widget(Paragraph::new(foot_text).style(style), foot);
    }
}
