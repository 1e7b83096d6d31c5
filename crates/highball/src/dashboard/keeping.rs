//! When the history of a dashboard is read from its file and written to it. It writes no file itself.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dashboard::{Mark, Saved};
use front::log::{AccessLog, Level};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::dashboard::history::History;
use crate::dashboard::storage::{Event, Storage};
use crate::setup::Setup;
use crate::system::program::own_pid;
use crate::system::state_folder::state_folder;

/// How often the state of the server is looked at.
const HISTORY_LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Of so many looks one writes the history, each minute.
const LOOKS_A_HISTORY: u64 = 12;
/// Which of them: soon after the start, when there is something to write.
const FIRST_HISTORY: u64 = 4;
/// A server that replaces another one reads what that has written at its third look: the other one writes at its next.
const LOOKS_BEFORE_LOADING: u64 = 3;
/// The longest name of a file, without what is put behind it while it is written.
const MAX_FILE_NAME: usize = 240;

/// A history that is kept in a file.
pub(crate) struct Keeping {
    history: Rc<History>,
    state: Rc<Cell<&'static str>>,
    log: Rc<AccessLog>,
    storage: Storage,
    /// Whether the file has been read: it is not written before.
    is_loaded: bool,
    /// Whether this server replaces another one, which still writes.
    replaces: bool,
    /// How often the server was seen to serve.
    looks: u64,
    /// Whether another server has replaced this one, and the file is that one's.
    is_given_up: bool,
}

/// The file of the settings for this server; `None` where its history is not kept.
pub(crate) fn file(setup: &Setup) -> Option<PathBuf> {
    let folder = match setup.settings.dashboard_history.as_deref()? {
        // A folder is not made for it alone.
        "auto" => state_folder(setup).filter(|folder| folder.is_dir())?,
        named => return Some(setup.named.join(named).join(file_name(&setup.named))),
    };
    Some(folder.join("dashboard").join(file_name(&setup.named)))
}

/// A name that no other folder has, unless it is very long.
fn file_name(folder: &Path) -> String {
    let mut name = String::new();
    for byte in folder.as_os_str().as_encoded_bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"._".contains(byte) => {
                name.push(char::from(*byte));
            }
            b'/' => name.push('-'),
            other => name.push_str(&format!("%{other:02x}")),
        }
    }
    // The end says more than the beginning.
    let from = name.len().saturating_sub(MAX_FILE_NAME);
    format!("{}.history", name[from..].trim_start_matches(['-', '.']))
}

impl Keeping {
    /// Keeps the history in this file until the server ends.
    pub(crate) fn start(
        path: PathBuf,
        history: &Rc<History>,
        (state, log): (&Rc<Cell<&'static str>>, &Rc<AccessLog>),
        (applications, replaces): (usize, bool),
    ) -> std::io::Result<impl Future<Output = ()> + 'static> {
        let (storage, events) = Storage::start(path, Saved::max_bytes(applications))?;
        let keeping = Self {
            history: Rc::clone(history),
            state: Rc::clone(state),
            log: Rc::clone(log),
            storage,
            is_loaded: false,
            replaces,
            looks: 0,
            is_given_up: false,
        };
        Ok(keeping.run(events))
    }

    async fn run(mut self, mut events: mpsc::Receiver<Event>) {
        let mut ticks = interval(HISTORY_LOOK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        if !self.replaces {
            self.storage.load();
        }
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(Event::Loaded(saved)) => self.loaded(saved),
                    Some(Event::Trouble(text)) => self.log.event(Level::Warn, &text, &[]),
                    None => return,
                },
                _ = ticks.tick() => self.look(),
            }
        }
    }

    fn loaded(&mut self, saved: Option<Saved>) {
        self.is_loaded = true;
        if let Some(saved) = saved {
            let now = now();
            self.history.restore(saved, now);
            self.history.mark(Mark {
                at: now,
                text: format!("the server started: pid {}", own_pid()),
                application: None,
            });
        }
    }

    fn look(&mut self) {
        match self.state.get() {
            "serving" => {
                self.looks += 1;
                if self.replaces && self.looks == LOOKS_BEFORE_LOADING {
                    self.storage.load();
                } else if self.looks % LOOKS_A_HISTORY == FIRST_HISTORY {
                    self.save();
                }
            }
            "replaced" if !self.is_given_up => {
                self.save();
                self.is_given_up = true;
            }
            _ => {}
        }
    }

    fn save(&self) {
        if self.is_loaded && !self.is_given_up {
            self.storage.save(self.history.saved().to_bytes());
        }
    }
}

impl Drop for Keeping {
    /// The server ends: its last minute is kept too. One that was replaced is here before the other one reads the file, or has
    /// given it up.
    fn drop(&mut self) {
        self.save();
    }
}

fn now() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_has_a_file_of_its_own() {
        let name = |folder: &str| file_name(Path::new(folder));
        assert_eq!(name("/srv/shop/current"), "srv-shop-current.history");
        assert_eq!(name("/srv/shop-current"), "srv-shop%2dcurrent.history");
        assert_eq!(name("/srv/\u{e9} x"), "srv-%c3%a9%20x.history");
        assert_eq!(
            name("/..//x"),
            "..--x.history".trim_start_matches(['-', '.'])
        );
        let long = name(&format!("/{}", "x".repeat(4000)));
        assert!(long.len() <= MAX_FILE_NAME + ".history".len());
    }
}
