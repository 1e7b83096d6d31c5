//! Looks at the small files of the application's folder that the front answers with or obeys: error pages, maintenance,
//! passwords. It looks once a second, in a thread of its own, for their file system may hang.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use config::Settings;
use tokio::time::{MissedTickBehavior, timeout};

use crate::log::{Level, Value};
use crate::serve::application::Application;
use crate::serve::error_pages::STATUSES;
use crate::serve::file_threads::FileThreads;
use crate::serve::gate::maintenance::{FORMS, Pages};
use crate::serve::reader::Reader;
use crate::serve::watched_files::WatchedFile;

/// How often the files are looked at.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// How long a server that starts waits for the first look.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// Threads that look.
const WATCH_THREADS: usize = 1;

/// What a file is for.
#[derive(Clone, Debug)]
enum Purpose {
    /// The page for this status.
    ErrorPage(u16),
    /// One of the forms of the maintenance file.
    Maintenance(usize),
    /// The passwords of `basic_auth`, by the name of the file there.
    Passwords(String),
}

impl Purpose {
    fn name(&self) -> &'static str {
        match self {
            Self::ErrorPage(_) => "an error page",
            Self::Maintenance(_) => "the maintenance file",
            Self::Passwords(_) => "the file of passwords",
        }
    }
}

/// The files of one application.
pub(crate) struct Watch {
    application: Rc<Application>,
    /// The application's folder, as it was named: links in it may lead elsewhere later.
    folder: PathBuf,
    threads: FileThreads,
    known: HashMap<PathBuf, WatchedFile>,
}

impl Watch {
    /// Reads the files now. Where their file system does not answer within `FIRST_LOOK_TIMEOUT` they are read as soon as it does:
    /// until then there are no error pages, no maintenance, and nobody knows a password.
    ///
    /// # Errors
    /// The thread cannot be had, or a file of passwords cannot be used.
    pub(crate) async fn begin(application: &Rc<Application>, folder: PathBuf) -> io::Result<Self> {
        let mut watch = Self {
            application: Rc::clone(application),
            folder,
            threads: FileThreads::new("watch", WATCH_THREADS)?,
            known: HashMap::new(),
        };
        let wanted = watch.wanted(&application.settings.get());
        let latest = watch.latest(&wanted);
        let looked = watch.threads.run(move || look(&latest));
        let Ok(changed) = timeout(FIRST_LOOK_TIMEOUT, looked).await else {
            let folder = watch.folder.display();
            let text = format!(
                "the folder did not answer within {FIRST_LOOK_TIMEOUT:?}: error pages, maintenance file and files of \
                 passwords are read when it does"
            );
            let fields = [("folder", Value::Text(&folder))];
            watch.application.log.event(Level::Warn, &text, &fields);
            return Ok(watch);
        };
        watch.apply(&wanted, changed?);
        let unusable = watch.set_passwords(&wanted).into_iter().next();
        match unusable {
            Some(reason) => Err(io::Error::other(reason)),
            None => Ok(watch),
        }
    }

    /// Reads them again whenever they have changed.
    pub(crate) async fn run(mut self) {
        let mut look_at = tokio::time::interval(WATCH_INTERVAL);
        let mut last = self.application.settings.get();
        look_at.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = look_at.tick() => {}
                () = self.application.settings.changed() => {}
            }
            let settings = self.application.settings.get();
            let wanted = self.wanted(&settings);
            let latest = self.latest(&wanted);
            let changed = self.threads.run(move || look(&latest)).await;
            let has_changed = self.apply(&wanted, changed.unwrap_or_default());
            if has_changed || !Rc::ptr_eq(&settings, &last) {
                last = settings;
                for reason in self.set_passwords(&wanted) {
                    let fields = [("reason", Value::Text(&reason))];
                    self.application
                        .log
                        .event(Level::Error, PASSWORDS_KEPT, &fields);
                }
            }
        }
    }

    /// The files that these settings name.
    fn wanted(&self, settings: &Settings) -> Vec<(Purpose, PathBuf)> {
        let mut wanted = Vec::new();
        if let Some(pages) = &settings.error_pages {
            let folder = self.folder.join(pages);
            let page = |&status| {
                let path = folder.join(format!("{status}.html"));
                (Purpose::ErrorPage(status), path)
            };
            wanted.extend(STATUSES.iter().map(page));
        }
        if let Some(file) = &settings.maintenance_file {
            let file = self.folder.join(file);
            let form = |(index, (extension, ..)): (usize, &(&str, _, _))| {
                let mut path = file.clone().into_os_string();
                path.push(format!(".{extension}"));
                (Purpose::Maintenance(index), path.into())
            };
            wanted.extend(FORMS.iter().enumerate().map(form));
        }
        let files = settings
            .basic_auth
            .iter()
            .filter_map(|(_, file)| file.as_ref());
        wanted.extend(files.map(|file| {
            let path = self.folder.join(file);
            (Purpose::Passwords(file.clone()), path)
        }));
        wanted
    }

    /// What is known of these files.
    fn latest(&self, wanted: &[(Purpose, PathBuf)]) -> Vec<(PathBuf, WatchedFile, Reader)> {
        let missing = WatchedFile::Missing;
        let known = |path: &Path| self.known.get(path).unwrap_or(&missing).clone();
        let own = self.application.reader;
        let all = wanted.iter().map(|(purpose, path)| {
            let reader = match purpose {
                Purpose::ErrorPage(_) | Purpose::Maintenance(_) => own,
                // Its content reaches no client, and the application need not know it.
                Purpose::Passwords(_) => Reader::default(),
            };
            (path.clone(), known(path), reader)
        });
        all.collect()
    }

    /// Notes what has changed, and puts it in force, but for passwords. Returns whether anything has changed.
    fn apply(
        &mut self,
        wanted: &[(Purpose, PathBuf)],
        changed: Vec<(PathBuf, WatchedFile)>,
    ) -> bool {
        let named = self.known.len();
        self.known
            .retain(|path, _| wanted.iter().any(|(_, wanted)| wanted == path));
        if changed.is_empty() && self.known.len() == named {
            return false;
        }
        for (path, file) in changed {
            let mut purposes = wanted.iter().filter(|(_, wanted)| *wanted == path);
            let purpose = purposes.next().map(|(purpose, _)| purpose);
            if let (WatchedFile::Failed(reason), Some(purpose)) = (&file, purpose) {
                self.log_failed(purpose, &path, reason);
            }
            self.known.insert(path, file);
        }
        self.put_in_force(wanted);
        true
    }

    fn log_failed(&self, purpose: &Purpose, path: &Path, reason: &str) {
        let (path, text) = (path.display(), format!("cannot read {}", purpose.name()));
        let fields = [
            ("path", Value::Text(&path)),
            ("reason", Value::Text(&reason)),
        ];
        self.application.log.event(Level::Warn, &text, &fields);
    }

    /// Puts the passwords in force, and returns what is wrong with each file that cannot be used.
    fn set_passwords(&self, wanted: &[(Purpose, PathBuf)]) -> Vec<String> {
        let mut unusable = Vec::new();
        for (purpose, path) in wanted {
            let Purpose::Passwords(name) = purpose else {
                continue;
            };
            let set = match self.known.get(path) {
                Some(WatchedFile::Read { content, .. }) => {
                    self.application.gate.set_passwords(name, content)
                }
                Some(WatchedFile::Failed(reason)) => Err(reason.clone()),
                Some(WatchedFile::Missing) | None => Err("there is no such file".to_owned()),
            };
            let reason = |reason| format!("basic_auth: {}: {reason}", path.display());
            unusable.extend(set.err().map(reason));
        }
        unusable
    }

    fn put_in_force(&self, wanted: &[(Purpose, PathBuf)]) {
        let mut pages = BTreeMap::new();
        let mut maintenance: Pages = Pages::default();
        for (purpose, path) in wanted {
            let content = match self.known.get(path) {
                Some(WatchedFile::Read { content, .. }) => content.clone(),
                // It is there, and that is what counts of it.
                Some(WatchedFile::Failed(_)) => Bytes::new(),
                Some(WatchedFile::Missing) | None => continue,
            };
            match purpose {
                Purpose::ErrorPage(_) if content.is_empty() => {}
                Purpose::ErrorPage(status) => drop(pages.insert(*status, content)),
                Purpose::Maintenance(form) => maintenance[*form] = Some(content),
                Purpose::Passwords(_) => {}
            }
        }
        let application = &self.application;
        application.error_pages.replace(pages);
        let was_on = application.gate.maintenance.is_on();
        application.gate.set_maintenance(maintenance);
        match (was_on, application.gate.maintenance.is_on()) {
            (false, true) => application.log.event(Level::Info, MAINTENANCE_BEGINS, &[]),
            (true, false) => application.log.event(Level::Info, MAINTENANCE_ENDS, &[]),
            _ => {}
        }
    }
}

/// What the log says of a file of passwords that cannot be used.
const PASSWORDS_KEPT: &str =
    "a file of passwords cannot be used: those that were read before stay in force";
const MAINTENANCE_BEGINS: &str = "maintenance begins: requests get 503 (maintenance_file exists)";
const MAINTENANCE_ENDS: &str = "maintenance ends: requests are served again";

/// Returns the files that have changed. Blocks.
fn look(latest: &[(PathBuf, WatchedFile, Reader)]) -> Vec<(PathBuf, WatchedFile)> {
    let changed = latest.iter().filter_map(|(path, last, reader)| {
        let now = WatchedFile::look(path, last, *reader)?;
        Some((path.clone(), now))
    });
    changed.collect()
}
