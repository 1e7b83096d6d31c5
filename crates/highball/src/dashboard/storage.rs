//! The file in which the history of a dashboard outlives its server, and the thread that reads and writes it: a file system
//! may hang, and clients wait for the front's thread. It knows no figure.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use dashboard::Saved;
use rustix::fs::OFlags;
use tokio::sync::mpsc;

/// Files that wait for the thread; what comes while it is busy is left out, and the next one has it too.
const WAITING_HISTORIES: usize = 1;
/// What the thread has to say and nobody has heard yet.
const WAITING_EVENTS: usize = 8;
/// How long the end of a server waits for its last history.
const LAST_HISTORY_TIMEOUT: Duration = Duration::from_secs(1);

/// A file of history, with its thread. Dropping it waits for what is being written, for a bounded time.
pub(super) struct Storage {
    /// `None` while it is dropped.
    commands: Option<SyncSender<Command>>,
    ended: Receiver<()>,
}

enum Command {
    Load,
    Save(Vec<u8>),
}

/// What the thread has to say.
#[derive(Debug)]
pub(super) enum Event {
    /// What the file holds; nothing where there is none, or it is damaged.
    Loaded(Option<Saved>),
    /// Something went wrong: a line for the log.
    Trouble(String),
}

impl Storage {
    /// Starts the thread. No file has more than `max_bytes`.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(
        path: PathBuf,
        max_bytes: u64,
    ) -> io::Result<(Self, mpsc::Receiver<Event>)> {
        let (commands, received) = sync_channel(WAITING_HISTORIES);
        let (events, heard) = mpsc::channel(WAITING_EVENTS);
        let (end, ended) = sync_channel(1);
        let named = thread::Builder::new().name("history".to_owned());
        named.spawn(move || {
            work(&path, max_bytes, &received, &events);
            // Nobody may wait for it any more.
            let _ = end.try_send(());
        })?;
        let commands = Some(commands);
        Ok((Self { commands, ended }, heard))
    }

    /// Has the file read; an event tells what is in it.
    pub(super) fn load(&self) {
        self.send(Command::Load);
    }

    /// Has the file replaced, unless the thread is busy.
    pub(super) fn save(&self, bytes: Vec<u8>) {
        self.send(Command::Save(bytes));
    }

    fn send(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.try_send(command);
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.ended.recv_timeout(LAST_HISTORY_TIMEOUT);
    }
}

fn work(path: &Path, max_bytes: u64, commands: &Receiver<Command>, events: &mpsc::Sender<Event>) {
    let mut is_writable = true;
    for command in commands {
        let event = match command {
            Command::Load => match load(path, max_bytes) {
                Ok(found) => Event::Loaded(found),
                Err(error) => {
                    let text = format!(
                        "the dashboard begins without history: {}: {error}",
                        path.display()
                    );
                    let _ = events.try_send(Event::Trouble(text));
                    Event::Loaded(None)
                }
            },
            Command::Save(bytes) => {
                let result = replace(path, &bytes);
                let was_writable = std::mem::replace(&mut is_writable, result.is_ok());
                match result {
                    // It is told once, and again only after it has worked in between.
                    Err(error) if was_writable => Event::Trouble(format!(
                        "the history of the dashboard is not kept: cannot write {}: {error}",
                        path.display()
                    )),
                    _ => continue,
                }
            }
        };
        let _ = events.try_send(event);
    }
}

/// Reads a file; `None` if there is none.
fn load(path: &Path, max_bytes: u64) -> io::Result<Option<Saved>> {
    // Of a pipe that nobody writes into, opening would wait.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::other(format!(
            "it has more than {max_bytes} bytes"
        )));
    }
    Saved::from_bytes(&bytes)
        .map(Some)
        .map_err(io::Error::other)
}

/// Replaces the file as a whole: after a crash there is the old one or the new one. Its folder is made where it is missing.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let new = path.with_added_extension("new");
    let written = create(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use dashboard::Mark;

    use super::*;

    fn saved(text: &str) -> Saved {
        let mark = Mark {
            at: 5,
            text: text.into(),
            application: None,
        };
        Saved {
            marks: vec![mark],
            series: Vec::new(),
        }
    }

    #[test]
    fn a_history_is_written_as_a_whole_and_for_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dashboard/shop.history");
        let (storage, mut events) = Storage::start(path.clone(), 1000).unwrap();
        storage.load();
        let Some(Event::Loaded(None)) = events.blocking_recv() else {
            panic!("there is no file yet");
        };
        storage.save(saved("one").to_bytes());
        drop(storage);
        assert_eq!(load(&path, 1000).unwrap(), Some(saved("one")));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let files = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing is left beside it");
    }

    #[test]
    fn damaged_foreign_and_large_files_are_told_once_and_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.history");
        let told = |expect: &str| {
            let (storage, mut events) = Storage::start(path.clone(), 1000).unwrap();
            storage.load();
            let Some(Event::Trouble(text)) = events.blocking_recv() else {
                panic!("nothing is told");
            };
            assert!(text.contains(expect), "{text}");
            let Some(Event::Loaded(None)) = events.blocking_recv() else {
                panic!("it goes on without");
            };
        };
        fs::write(&path, "something else").unwrap();
        told("it is damaged, or no history of a dashboard");
        let whole = saved("one").to_bytes();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        told("it is damaged");
        fs::write(&path, [0; 1001]).unwrap();
        told("more than 1000 bytes");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        told("it is not a regular file");
    }

    #[test]
    fn a_folder_that_takes_nothing_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let (storage, mut events) = Storage::start(file.join("x.history"), 1000).unwrap();
        storage.save(saved("one").to_bytes());
        let Some(Event::Trouble(text)) = events.blocking_recv() else {
            panic!("nothing is told");
        };
        assert!(text.contains("is not kept: cannot write"), "{text}");
        storage.save(saved("two").to_bytes());
        drop(storage);
        assert!(events.blocking_recv().is_none(), "told again");
    }
}
