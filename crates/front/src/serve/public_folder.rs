//! The application's public folder: what is known of the files in it, and the threads that ask its file system.
//!
//! What is known of a path is kept for half a second, so that most requests ask no file system; a thread of its own asks
//! where they must. Only a folder that the application published is served, and no file outside of it.

mod check;
pub mod coding;
pub mod digested;
pub mod file;
pub mod lookup;
pub mod media_types;
mod open_files;
pub mod served;
pub mod store;
pub mod target;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use self::check::Check;
use self::lookup::Found;
use self::open_files::OpenFiles;
use self::served::{Published, Served};
use self::store::Meaning;
use crate::clock::Clock;
use crate::serve::file_threads::FileThreads;
use crate::serve::reader::Reader;
use crate::serve::waiting::WaitingCount;

/// Threads that look for these files.
const LOOKUP_THREADS: usize = 4;
/// How long looking for a file may take; then the application answers.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// Requests that wait for a thread beyond which the application answers.
const MAX_WAITING: usize = 1024;
/// How many earlier releases are searched for files with digests in their names: of those beside this one, and of those
/// that this server has served.
const MAX_EARLIER: usize = 5;

/// The public folder of an application, if it has one that is served.
pub struct PublicFolder {
    threads: Rc<FileThreads>,
    reader: Reader,
    served: RefCell<Option<Rc<Served>>>,
    /// The folders that were served, the last one at the end.
    served_before: RefCell<VecDeque<Arc<Path>>>,
    waiting: WaitingCount,
    open_files: Rc<OpenFiles>,
}

impl PublicFolder {
    /// Serves nothing yet; none of its threads has started.
    ///
    /// # Errors
    /// As [`FileThreads::new`].
    pub fn new(reader: Reader) -> io::Result<Self> {
        let threads = Rc::new(FileThreads::new("highball-public", LOOKUP_THREADS)?);
        Ok(Self {
            reader,
            open_files: Rc::new(OpenFiles::new(Rc::clone(&threads))),
            threads,
            served: RefCell::default(),
            served_before: RefCell::default(),
            waiting: WaitingCount::default(),
        })
    }

    /// What is served.
    pub fn served(&self) -> Option<Rc<Served>> {
        self.served.borrow().clone()
    }

    /// The threads that ask its file system.
    pub fn threads(&self) -> &Rc<FileThreads> {
        &self.threads
    }

    /// Serves this folder from now on, or none. False: it is not there.
    pub async fn serve(&self, folder: Option<Published>) -> bool {
        let wanted = folder.is_some();
        let served_before: Vec<Arc<Path>> = self.served_before.borrow().iter().cloned().collect();
        let opened = async {
            let folder = folder?;
            let path = folder.path.clone();
            let found = self.threads.run(move || {
                let root = path.canonicalize().ok().filter(|path| path.is_dir())?;
                let earlier = lookup::earlier(&root, &served_before, MAX_EARLIER);
                Some((root, earlier))
            });
            let found = timeout(LOOKUP_TIMEOUT, found).await.ok()?.ok()?;
            let (root, earlier) = found?;
            Some(Served::new(root, earlier, &folder, self.reader))
        };
        let served = opened.await.map(Rc::new);
        if let Some(served) = &served {
            self.remember(&served.site().root);
        }
        let found = served.is_some();
        self.served.replace(served);
        found || !wanted
    }

    /// Notes that this folder was served, for the time after it.
    fn remember(&self, root: &Path) {
        let mut before = self.served_before.borrow_mut();
        before.retain(|path| **path != *root);
        before.push_back(root.into());
        // One more, for the last one is the folder that is served now.
        if before.len() > MAX_EARLIER + 1 {
            before.pop_front();
        }
    }

    /// Looks up what the path means. Where that takes too long it means what it meant before, or nothing.
    pub async fn look_up(&self, served: &Rc<Served>, path: &[u8], clock: &Clock) -> Meaning {
        let check = Check::begin(served, path, clock);
        let (site, known, names) = (
            Arc::clone(served.site()),
            check.known.clone(),
            check.names.clone(),
        );
        let known = known.map(|file| Arc::clone(&file.found));
        let owned = path.to_vec();
        let work = move || {
            let looked = site.look(&owned, known.as_deref());
            let names = names.map(|names| site.names(names.as_deref()));
            (looked, names)
        };
        let done = async {
            let thread = match self.threads.try_free() {
                Some(thread) => thread,
                None => {
                    let _waiting = self.waiting.enter(MAX_WAITING)?;
                    self.threads.free().await
                }
            };
            self.threads.begin(thread, work).await.ok()
        };
        let done = timeout(LOOKUP_TIMEOUT, done).await.ok().flatten();
        check.end(done)
    }

    /// Opens a form of a file, by its number.
    ///
    /// # Errors
    /// It is not there any more, was changed, or is not opened in time ([`io::ErrorKind::TimedOut`]).
    pub async fn open(&self, found: &Arc<Found>, form: usize) -> io::Result<Arc<File>> {
        self.open_files.open(found, form).await
    }

    /// A form of a file that is in memory as well, where it is open. Where it is not, it is opened for later requests.
    pub fn open_beside_memory(&self, found: &Arc<Found>, form: usize) -> Option<Arc<File>> {
        self.open_files.get_or_open_later(found, form)
    }
}
