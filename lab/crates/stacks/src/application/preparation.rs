//! A copy of an application that was made ready: its prepare commands have run in it, and its database is filled. It is
//! kept in the work dir and made again only when the application has changed. Whatever the commands start ends with
//! them, and with the lab.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::copy;
use super::definition::Database;
use super::mariadb::Mariadb;
use crate::keeper::kept::{Kept, Start};

/// The variable that holds MariaDB's socket, for commands and application. Its user is root, without a password.
pub(super) const SOCKET: &str = "MARIADB_SOCKET";
/// Time between two checks of a running command.
const POLL: Duration = Duration::from_millis(10);

/// What is to be made ready.
pub(super) struct Preparation<'a> {
    pub(super) id: &'a str,
    pub(super) source: &'a Path,
    pub(super) commands: &'a [String],
    pub(super) database: Database,
    pub(super) environment: &'a BTreeMap<String, String>,
}

impl Preparation<'_> {
    /// Gives the copy, ready, and its database, started. Once `stop` is set it fails as soon as it can.
    pub(super) fn run(
        &self,
        work_dir: &Path,
        stop: &AtomicBool,
    ) -> Result<(PathBuf, Option<Mariadb>)> {
        let work_dir = fs::create_dir_all(work_dir)
            .and_then(|()| work_dir.canonicalize())
            .with_context(|| format!("cannot make {}", work_dir.display()))?;
        let at =
            |suffix: &str| work_dir.join(format!("{}-{}{suffix}", self.id, self.database.name()));
        let (copy, data, stamp) = (at(""), at(".data"), at(".digest"));
        let skipped = [work_dir.as_path()];
        let more = format!(
            "{:?} {:?} {:?}",
            self.database, self.commands, self.environment
        );
        let digest = copy::digest(self.source, &skipped, &more)?;
        if fs::read_to_string(&stamp).ok().as_ref() != Some(&digest) {
            if stamp.exists() {
                fs::remove_file(&stamp)
                    .with_context(|| format!("cannot remove {}", stamp.display()))?;
            }
            copy::remove(&copy)?;
            copy::remove(&data)?;
            copy::folder(self.source, &copy, &skipped)?;
            self.fill(&copy, &data, &at(".log"), stop)?;
            fs::write(&stamp, digest)
                .with_context(|| format!("cannot write {}", stamp.display()))?;
        }
        let database = match self.database {
            Database::Mariadb => Some(Mariadb::restore(&data)?),
            Database::None | Database::Sqlite => None,
        };
        Ok((copy, database))
    }

    fn fill(&self, copy: &Path, data: &Path, log: &Path, stop: &AtomicBool) -> Result<()> {
        let database = match self.database {
            Database::Mariadb => Some(Mariadb::create()?),
            Database::None | Database::Sqlite => None,
        };
        let mut environment = self.environment.clone();
        if let Some(database) = &database {
            let socket = database.socket().display().to_string();
            environment.insert(SOCKET.to_owned(), socket);
        }
        if !self.commands.is_empty() {
            let run = tempfile::tempdir().context("cannot make a temporary folder")?;
            let mut kept = Kept::new(run, &[], &environment)?;
            for command in self.commands {
                self.carry_out(command, &mut kept, copy, log, stop)?;
            }
        }
        database.map_or(Ok(()), |database| database.save(data))
    }

    fn carry_out(
        &self,
        command: &str,
        kept: &mut Kept,
        directory: &Path,
        log: &Path,
        stop: &AtomicBool,
    ) -> Result<()> {
        // The keeper appends; a message is to show the output of one command.
        File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let pid = kept.start(Start {
            command: ["/bin/sh", "-e", "-c", command].map(str::to_owned).into(),
            environment: BTreeMap::new(),
            directory,
            log: log.to_owned(),
        })?;
        let how = loop {
            if let Some(how) = kept.end_of(pid) {
                break how.to_owned();
            }
            if stop.load(Ordering::Relaxed) {
                bail!("making {} ready was stopped", self.id);
            }
            thread::sleep(POLL);
        };
        if how != ExitStatus::default().to_string() {
            let output = fs::read(log).unwrap_or_default();
            bail!(
                "making {} ready: `{command}` failed ({how}); the end of its output:\n{}",
                self.id,
                copy::end_of(&String::from_utf8_lossy(&output))
            );
        }
        Ok(())
    }
}
