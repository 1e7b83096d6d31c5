//! A page of a running server on the alternate screen, drawn again with each reading of the status, until somebody ends
//! it. Leaves the terminal as it was: after a key, a signal and a panic. Changes nothing in the server.

use std::io::{stdin, stdout};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use command_line::ServerArguments;
use ratatui::crossterm::event::{self, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use rustix::termios::isatty;

use crate::cli::client;
use crate::cli::signals::{Signalled, watch_signals};
use crate::control::report::Report;

/// Keys, readings and changes of the terminal's size that wait to be shown: more of them wait in the terminal.
const EVENTS_AHEAD: usize = 16;

/// What is shown.
pub(super) trait View {
    /// Takes a reading of the status.
    fn show(&mut self, report: Box<Report>, at: Instant);

    /// Takes a key that does not end the page.
    fn press(&mut self, key: KeyCode);

    /// Draws the page. `notice` is what there is to say of the server, in one line.
    fn draw(&self, frame: &mut Frame<'_>, notice: Option<&str>);
}

/// What happens while a page is shown.
enum Event {
    Report(Result<Box<Report>>),
    Key(KeyEvent),
    /// The terminal has another size.
    Resized,
    End,
}

impl From<Signalled> for Event {
    fn from(_: Signalled) -> Self {
        Self::End
    }
}

/// Shows a view of a server until a key or a signal ends it.
///
/// # Errors
/// There is no server, it does not answer the first time, or this is no terminal.
pub(super) fn run(server: ServerArguments, interval: Duration, mut view: impl View) -> Result<()> {
    let usable = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
    if !isatty(stdin()) || !isatty(stdout()) || !usable {
        bail!(
            "stdin and stdout must be a terminal that can move its cursor, with its name in TERM; \
             use `highball status --json`"
        );
    }
    let first = client::report(&server)?;
    let mut news = News::of(&first);
    let server = ServerNames::new(server, &first);
    view.show(first, Instant::now());
    let (send, events) = sync_channel(EVENTS_AHEAD);
    watch_signals(send.clone())?;
    let screen = Screen::open()?;
    watch_keys(send.clone());
    thread::spawn(move || read_again_and_again(&server, interval, &send));
    show(screen, &events, &mut view, &mut news);
    Ok(())
}

fn show(mut screen: Screen, events: &Receiver<Event>, view: &mut impl View, news: &mut News) {
    loop {
        // A terminal that cannot be written to has been closed.
        let notice = news.notice.as_deref();
        if screen.0.draw(|frame| view.draw(frame, notice)).is_err() {
            return;
        }
        match events.recv() {
            Ok(Event::Report(Ok(report))) => {
                news.take(&report);
                view.show(report, Instant::now());
            }
            Ok(Event::Report(Err(error))) => news.no_answer(&error),
            Ok(Event::Key(key)) if ends(key) => return,
            Ok(Event::Key(key)) => view.press(key.code),
            Ok(Event::Resized) => {}
            Ok(Event::End) | Err(_) => return,
        }
    }
}

/// Whether a key ends the page. Ctrl-C is a key, for the terminal is in raw mode.
fn ends(key: KeyEvent) -> bool {
    let is_interrupt =
        key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
    is_interrupt || matches!(key.code, KeyCode::Char('q' | 'Q'))
}

/// The line that a text of so many lines begins with after a key.
pub(super) fn scrolled(first: usize, key: KeyCode, lines: usize) -> usize {
    let page = 10;
    let moved = match key {
        KeyCode::Down | KeyCode::Char('j') => first + 1,
        KeyCode::Up | KeyCode::Char('k') => first.saturating_sub(1),
        KeyCode::PageDown => first + page,
        KeyCode::PageUp => first.saturating_sub(page),
        KeyCode::Home => 0,
        _ => first,
    };
    moved.min(lines.saturating_sub(1))
}

/// The terminal in raw mode, on its alternate screen. Dropping it restores the terminal; a panic does too.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> Result<Self> {
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore());
        Ok(Self(terminal.context("cannot draw on the terminal")?))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.0.show_cursor();
        ratatui::restore();
    }
}

fn watch_keys(send: SyncSender<Event>) {
    thread::spawn(move || {
        // Without keys signals still end the page.
        while let Ok(event) = event::read() {
            let event = match event {
                event::Event::Key(key) if key.kind != KeyEventKind::Release => Event::Key(key),
                event::Event::Resize(..) => Event::Resized,
                _ => continue,
            };
            if send.send(event).is_err() {
                return;
            }
        }
    });
}

/// Reads the status until the page has ended. A server that takes long to answer is asked again after its answer.
fn read_again_and_again(server: &ServerNames, interval: Duration, send: &SyncSender<Event>) {
    loop {
        thread::sleep(interval);
        if send.send(Event::Report(server.report())).is_err() {
            return;
        }
    }
}

/// How the server is found again.
struct ServerNames {
    /// As the command named it.
    named: ServerArguments,
    /// By its folder, where the command named a process: that ends with an upgrade or a new start.
    by_folder: Option<ServerArguments>,
}

impl ServerNames {
    fn new(named: ServerArguments, report: &Report) -> Self {
        let by_folder = named.pid.is_some().then(|| ServerArguments {
            dir: Some(report.dir.clone().into()),
            ..ServerArguments::default()
        });
        Self { named, by_folder }
    }

    fn report(&self) -> Result<Box<Report>> {
        let named = client::report(&self.named);
        match (&named, &self.by_folder) {
            (Err(_), Some(folder)) => client::report(folder).or(named),
            _ => named,
        }
    }
}

/// What has become of the server, in one line.
struct News {
    pid: i32,
    /// The generation that serves.
    generation: Option<u32>,
    notice: Option<String>,
    /// Whether the notice is that there is no answer.
    silent: bool,
}

impl News {
    fn of(report: &Report) -> Self {
        Self {
            pid: report.pid,
            generation: serving(report),
            notice: None,
            silent: false,
        }
    }

    fn take(&mut self, report: &Report) {
        let generation = serving(report);
        if report.pid != self.pid {
            let (old, new) = (self.pid, report.pid);
            self.notice = Some(format!(
                "another server has taken over: pid {new} in place of {old}; its counters began at 0"
            ));
        } else if generation != self.generation && generation.is_some() {
            let number = generation.unwrap_or_default();
            self.notice = Some(format!("restarted: generation {number} serves"));
        } else if self.silent {
            self.notice = None;
        }
        self.silent = false;
        self.pid = report.pid;
        self.generation = generation.or(self.generation);
    }

    fn no_answer(&mut self, error: &anyhow::Error) {
        let reason = format!("{error:#}").replace('\n', " ");
        self.notice = Some(format!("no answer, trying again: {reason}"));
        self.silent = true;
    }
}

/// The latest generation that serves. With several applications this is the greatest number among them.
fn serving(report: &Report) -> Option<u32> {
    let generations = report.all.generations.iter();
    let serving = generations.filter(|one| one.state == "serving");
    serving.map(|one| one.number).max()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use supervisor::Generation;

    use super::*;

    #[test]
    fn a_notice_says_what_became_of_the_server() {
        let report = |pid, number| {
            let mut report = Report {
                pid,
                ..Report::default()
            };
            report.all.generations = vec![Generation {
                number,
                state: "serving".into(),
                ..Generation::default()
            }];
            report
        };
        let mut news = News::of(&report(7, 1));
        assert_eq!(news.notice, None);
        news.no_answer(&anyhow!("it is\ngone"));
        let notice = news.notice.take();
        assert_eq!(
            notice.as_deref(),
            Some("no answer, trying again: it is gone")
        );
        news.no_answer(&anyhow!("gone"));
        news.take(&report(7, 1));
        assert_eq!(news.notice, None);
        news.take(&report(7, 2));
        let notice = news.notice.clone();
        assert_eq!(notice.as_deref(), Some("restarted: generation 2 serves"));
        news.take(&report(8, 1));
        let notice = news.notice.unwrap_or_default();
        assert!(notice.contains("pid 8 in place of 7"), "{notice}");
    }

    #[test]
    fn a_server_named_by_its_process_is_found_by_its_folder_later() {
        let report = Report {
            dir: "/srv/app".into(),
            ..Report::default()
        };
        let by_pid = ServerArguments {
            pid: Some(7),
            ..ServerArguments::default()
        };
        let names = ServerNames::new(by_pid, &report);
        assert_eq!(
            names.by_folder.and_then(|one| one.dir),
            Some("/srv/app".into())
        );
        let names = ServerNames::new(ServerArguments::default(), &report);
        assert_eq!(names.by_folder, None);
    }
}
