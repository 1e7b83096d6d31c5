//! A copy of an application that was made ready: its prepare commands have run in it, and its database is filled. It is kept in
//! the work dir and made again only when the application has changed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::copy;
use super::definition::Database;
use super::mariadb::Mariadb;

/// The variable that tells commands and application where MariaDB listens. Its user is root, without a password.
pub(super) const SOCKET: &str = "MARIADB_SOCKET";

/// What is to be made ready.
pub(super) struct Preparation<'a> {
    pub(super) id: &'a str,
    pub(super) source: &'a Path,
    pub(super) commands: &'a [String],
    pub(super) database: Database,
    pub(super) environment: &'a BTreeMap<String, String>,
}

impl Preparation<'_> {
    /// Gives the copy, ready, and its database, started.
    pub(super) fn run(&self, work_dir: &Path) -> Result<(PathBuf, Option<Mariadb>)> {
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
            self.fill(&copy, &data, &at(".log"))?;
            fs::write(&stamp, digest)
                .with_context(|| format!("cannot write {}", stamp.display()))?;
        }
        let database = match self.database {
            Database::Mariadb => Some(Mariadb::restore(&data)?),
            Database::None | Database::Sqlite => None,
        };
        Ok((copy, database))
    }

    fn fill(&self, copy: &Path, data: &Path, log: &Path) -> Result<()> {
        let database = match self.database {
            Database::Mariadb => Some(Mariadb::create()?),
            Database::None | Database::Sqlite => None,
        };
        let socket = database
            .as_ref()
            .map(|database| (SOCKET, database.socket()));
        for command in self.commands {
            let output =
                File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
            let errors = output
                .try_clone()
                .context("cannot copy a file descriptor")?;
            let status = Command::new("/bin/sh")
                .args(["-e", "-c", command])
                .current_dir(copy)
                .envs(self.environment)
                .envs(socket.clone())
                .stdin(Stdio::null())
                .stdout(output)
                .stderr(errors)
                .status()
                .context("cannot start /bin/sh")?;
            if !status.success() {
                let output = fs::read(log).unwrap_or_default();
                bail!(
                    "making {} ready: `{command}` failed ({status}); the end of its output:\n{}",
                    self.id,
                    copy::end_of(&String::from_utf8_lossy(&output))
                );
            }
        }
        database.map_or(Ok(()), |database| database.save(data))
    }
}
