//! Large files that were opened a moment ago: a request for one of them needs no thread to open it again.
//!
//! Bounded by count, and each is closed after half a second. The edge's thread never waits for a file system here: files are
//! opened and closed in threads, and whether one is still what is known of it is asked of the system's memory alone.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::LOOKUP_TIMEOUT;
use super::lookup::{Facts, Found};
use crate::panics::spawn_contained;
use crate::serve::file_threads::FileThreads;
use crate::serve::page_cache;

/// Files that are kept open at once.
const MAX_OPEN_FILES: usize = 64;
/// How long one is kept open.
const OPEN_FOR: Duration = Duration::from_millis(500);

/// Files that were opened a moment ago.
pub(super) struct OpenFiles {
    /// The oldest one first.
    kept: RefCell<VecDeque<OpenFile>>,
    /// Whether one is being opened for later requests.
    opening: Cell<bool>,
    threads: Rc<FileThreads>,
}

struct OpenFile {
    /// Of what it is the form; not more of it, for that may be large and is counted elsewhere.
    found: Weak<Found>,
    /// The number of the form.
    form: usize,
    /// None where its file system cannot tell what of it is in memory: then asking for its facts might wait for that too.
    file: Option<Arc<File>>,
    until: Instant,
}

impl OpenFiles {
    /// Keeps none yet. Files are closed in one of these threads.
    pub(super) fn new(threads: Rc<FileThreads>) -> Self {
        Self {
            kept: RefCell::default(),
            opening: Cell::new(false),
            threads,
        }
    }

    /// The form of a file, where that is open and was not changed since it was looked up.
    fn get(&self, found: &Arc<Found>, form: usize) -> Option<Arc<File>> {
        let kept = self.kept.borrow();
        let mut kept = kept.iter().filter(|kept| kept.is(found, form));
        let file = kept.next()?.file.as_ref()?;
        let facts = Facts::known_to_system(file).ok()??;
        (facts == found.forms[form].facts).then(|| Arc::clone(file))
    }

    /// Opens the form of a file, where it is not open.
    ///
    /// # Errors
    /// It is not there any more, was changed, or is not opened in time ([`io::ErrorKind::TimedOut`]).
    pub(super) async fn open(
        self: &Rc<Self>,
        found: &Arc<Found>,
        form: usize,
    ) -> io::Result<Arc<File>> {
        if let Some(open) = self.get(found, form) {
            return Ok(open);
        }
        let owned = Arc::clone(found);
        let opened = self.threads.run(move || {
            let file = owned.open(&owned.forms[form])?;
            Ok::<_, io::Error>((page_cache::can_tell(&file), Arc::new(file)))
        });
        let (can_tell, opened) = timeout(LOOKUP_TIMEOUT, opened).await???;
        // Another request may have opened it meanwhile.
        if let Some(open) = self.get(found, form) {
            self.threads.close_later(opened);
            return Ok(open);
        }
        self.keep(found, form, can_tell.then(|| Arc::clone(&opened)));
        Ok(opened)
    }

    /// The form of a file, where it is open. Where it is not, it is opened for later requests, if there is room.
    pub(super) fn get_or_open_later(
        self: &Rc<Self>,
        found: &Arc<Found>,
        form: usize,
    ) -> Option<Arc<File>> {
        let open = self.get(found, form);
        if open.is_none() && self.may_open(found, form) && !self.opening.replace(true) {
            let opening = Opening(Rc::clone(self));
            let found = Arc::clone(found);
            spawn_contained(async move {
                // Without it the requests get what is in memory.
                let _ = opening.0.open(&found, form).await;
            });
        }
        open
    }

    /// Whether there is room, and the file was not found to be none that is kept open.
    fn may_open(&self, found: &Arc<Found>, form: usize) -> bool {
        let kept = self.kept.borrow();
        let is_known = |kept: &OpenFile| kept.is(found, form) && kept.file.is_none();
        kept.len() < MAX_OPEN_FILES && !kept.iter().any(is_known)
    }

    /// Keeps the form of a file that was opened now, in place of what is kept of it.
    fn keep(self: &Rc<Self>, found: &Arc<Found>, form: usize, file: Option<Arc<File>>) {
        let is_first = self.kept.borrow().is_empty();
        self.close(|kept| kept.is(found, form));
        let until = Instant::now() + OPEN_FOR;
        let mut kept = self.kept.borrow_mut();
        kept.push_back(OpenFile {
            found: Arc::downgrade(found),
            form,
            file,
            until,
        });
        if kept.len() > MAX_OPEN_FILES
            && let Some(file) = kept.pop_front().and_then(|oldest| oldest.file)
        {
            self.threads.close_later(file);
        }
        if is_first {
            spawn_contained(close_in_time(Rc::downgrade(self), until));
        }
    }

    /// Closes those of which this says so.
    fn close(&self, which: impl Fn(&OpenFile) -> bool) {
        let mut kept = self.kept.borrow_mut();
        let (closed, open) = kept.drain(..).partition::<VecDeque<_>, _>(which);
        *kept = open;
        for file in closed.into_iter().filter_map(|one| one.file) {
            self.threads.close_later(file);
        }
    }
}

impl OpenFile {
    fn is(&self, found: &Arc<Found>, form: usize) -> bool {
        std::ptr::eq(self.found.as_ptr(), Arc::as_ptr(found)) && self.form == form
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        self.close(|_| true);
    }
}

/// A file is being opened for later requests, until this is dropped.
struct Opening(Rc<OpenFiles>);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.opening.set(false);
    }
}

/// Closes each file when its time has come, until none is left. The first one's is at `next`.
async fn close_in_time(files: std::rc::Weak<OpenFiles>, mut next: Instant) {
    loop {
        sleep_until(next).await;
        let Some(files) = files.upgrade() else {
            return;
        };
        let now = Instant::now();
        files.close(|kept| kept.until <= now);
        let Some(oldest) = files.kept.borrow().front().map(|kept| kept.until) else {
            return;
        };
        next = oldest;
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::LocalSet;
    use tokio::time::sleep;

    use super::super::lookup::{Looked, Site};
    use super::*;
    use crate::serve::reader::Reader;

    fn open_files() -> Rc<OpenFiles> {
        let threads = Rc::new(FileThreads::new("test", 1).unwrap());
        Rc::new(OpenFiles::new(threads))
    }

    /// A file of a folder, and its open form.
    fn find(folder: &tempfile::TempDir, name: &str) -> (Arc<Found>, Arc<File>) {
        let site = Site {
            root: folder.path().canonicalize().unwrap(),
            earlier: Vec::new(),
            index: "index".to_owned(),
            rack: 3,
            reader: Reader::default(),
        };
        let path = format!("/{name}");
        let Looked::Found(found) = site.look(path.as_bytes(), None).unwrap() else {
            unreachable!("a file")
        };
        let file = found.open(&found.forms[0]).unwrap();
        (Arc::new(found), Arc::new(file))
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_kept_open_for_half_a_second() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.css"), "a").unwrap();
        let files = open_files();
        let test = async {
            let (found, file) = find(&folder, "a.css");
            for _ in 0..2 {
                assert!(files.get(&found, 0).is_none());
                files.keep(&found, 0, Some(Arc::clone(&file)));
                sleep(OPEN_FOR - Duration::from_millis(2)).await;
                assert!(files.get(&found, 0).is_some());
                sleep(Duration::from_millis(4)).await;
                assert!(files.kept.borrow().is_empty());
            }
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn a_file_that_was_changed_or_removed_is_not_the_one_that_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let files = open_files();
        let test = async {
            let changes: [fn(&std::path::Path); 3] = [
                |path| std::fs::write(path, "longer").unwrap(),
                |path| std::fs::remove_file(path).unwrap(),
                |path| {
                    let other = path.with_extension("new");
                    std::fs::write(&other, "b").unwrap();
                    std::fs::rename(other, path).unwrap();
                },
            ];
            for change in changes {
                let path = folder.path().join("a.css");
                std::fs::write(&path, "a").unwrap();
                let (found, file) = find(&folder, "a.css");
                files.keep(&found, 0, Some(Arc::clone(&file)));
                assert!(files.get(&found, 0).is_some());
                change(&path);
                assert!(files.get(&found, 0).is_none());
            }
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn a_file_is_opened_for_later_requests_while_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.css"), "a").unwrap();
        let (other, _) = find(&folder, "a.css");
        let files = open_files();
        let test = async {
            let (found, file) = find(&folder, "a.css");
            assert!(files.get_or_open_later(&found, 0).is_none());
            while files.opening.get() {
                tokio::task::yield_now().await;
            }
            // Whether it is kept open depends on the file system.
            assert!(files.kept.borrow()[0].is(&found, 0));
            files.keep(&found, 0, None);
            assert!(files.get_or_open_later(&found, 0).is_none());
            assert!(!files.opening.get(), "it is none that is kept open");
            while files.kept.borrow().len() < MAX_OPEN_FILES {
                let (found, _) = find(&folder, "a.css");
                files.keep(&found, 0, Some(Arc::clone(&file)));
            }
            assert!(files.get_or_open_later(&other, 0).is_none());
            assert!(!files.opening.get());
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn no_more_are_kept_open_than_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let files = open_files();
        let test = async {
            let mut all = Vec::new();
            for at in 0..MAX_OPEN_FILES + 3 {
                let name = format!("{at}.css");
                std::fs::write(folder.path().join(&name), "a").unwrap();
                let (found, file) = find(&folder, &name);
                files.keep(&found, 0, Some(Arc::clone(&file)));
                files.keep(&found, 0, Some(Arc::clone(&file)));
                all.push(found);
            }
            let open = all.iter().map(|found| files.get(found, 0).is_some());
            assert!(open.eq((0..all.len()).map(|at| at >= 3)));
        };
        LocalSet::new().run_until(test).await;
    }
}
