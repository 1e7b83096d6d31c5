//! A MariaDB of the lab's own: its data, socket and log in a fresh folder, no network, no password, as an unprivileged
//! user. It ends with the lab, however that ends, and never touches the system's own instance.
//!
//! The folder is a new one below the system's temporary folder and not the work dir: a socket's path is limited to 107 bytes
//! (unix(7)), and another user must be able to get there where the lab runs as root.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::copy;
use super::description::output;
use crate::process_tree::ProcessTree;

/// Runs the server as long as the lab lives.
const GUARD: &str = include_str!("mariadb.sh");
/// How long a start and a stop may take each.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// The packages that install it. `mariadb-server` is not among them, because it starts a service.
const PACKAGES: &str = "mariadb-server-core mariadb-client-core";
/// The default is 96 MB, of which a small database fills nothing.
const LOG_SIZE: &str = "--innodb-log-file-size=8M";
/// What differs from MariaDB's defaults: small files, since they are copied, and room for every thread of many workers.
const OPTIONS: [&str; 6] = [
    "--skip-networking",
    "--character-set-server=utf8mb4",
    LOG_SIZE,
    "--innodb-buffer-pool-size=64M",
    "--max-connections=1000",
    "--skip-name-resolve",
];

/// A running server. Dropping it stops the server and removes its folder.
#[derive(Debug)]
pub(super) struct Mariadb {
    guard: Child,
    folder: TempDir,
}

impl Mariadb {
    /// Starts a server with an empty database.
    ///
    /// # Errors
    /// It isn't installed, or doesn't start; with the end of its log.
    pub(super) fn create() -> Result<Self> {
        let folder = new_folder()?;
        let data = folder.path().join("data");
        std::fs::create_dir(&data).context("cannot make the database's folder")?;
        let mut install = Command::new(program("mariadb-install-db")?);
        install.args([
            "--no-defaults",
            // The root of the database, which has nothing to do with the system's, needs no password on the socket.
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
            LOG_SIZE,
        ]);
        install.arg(format!("--datadir={}", data.display()));
        if let Some(user) = user() {
            install.arg(format!("--user={user}"));
        }
        let made = install
            .stdin(Stdio::null())
            .output()
            .context("cannot start mariadb-install-db")?;
        if !made.status.success() {
            let text = [made.stdout, made.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            bail!(
                "mariadb-install-db failed ({}); it needs the packages {PACKAGES}; the end of its output:\n{}",
                made.status,
                copy::end_of(&text)
            );
        }
        Self::start(folder)
    }

    /// Starts a server on a copy of `data`, which [`Mariadb::save`] made.
    ///
    /// # Errors
    /// The copy can't be made, the server isn't installed, or doesn't start; with the end of its log.
    pub(super) fn restore(data: &Path) -> Result<Self> {
        let folder = new_folder()?;
        copy::folder(data, &folder.path().join("data"), &[])?;
        Self::start(folder)
    }

    /// Where it listens.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// CPU time that it has used since it started.
    pub(super) fn cpu(&self) -> Duration {
        ProcessTree::rooted(self.guard.id().cast_signed()).cpu()
    }

    /// Stops the server and keeps its data in `data`.
    ///
    /// # Errors
    /// It doesn't stop cleanly, or the data can't be copied.
    pub(super) fn save(mut self, data: &Path) -> Result<()> {
        let mut orders = self.guard.stdin.take();
        if let Some(orders) = &mut orders {
            orders
                .write_all(b"stop\n")
                .context("cannot stop mariadbd")?;
        }
        match wait(&mut self.guard) {
            Some(status) if status.success() => {}
            _ => bail!("mariadbd did not stop cleanly:\n{}", self.log_end()),
        }
        copy::folder(&self.folder.path().join("data"), data, &[])
    }

    fn start(folder: TempDir) -> Result<Self> {
        let at = |name: &str| folder.path().join(name).display().to_string();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GUARD, "mariadb"]).arg(folder.path());
        command.arg(program("mariadbd")?).arg("--no-defaults");
        command.args(OPTIONS);
        command.arg(format!("--datadir={}", at("data")));
        command.arg(format!("--socket={}", at("socket")));
        command.arg(format!("--pid-file={}", at("pid")));
        command.arg(format!("--log-error={}", at("log")));
        if let Some(user) = user() {
            command.arg(format!("--user={user}"));
            let owned = Command::new("chown")
                .args(["-R", "--", user])
                .arg(folder.path())
                .status();
            if !owned.is_ok_and(|status| status.success()) {
                bail!("cannot give {} to the user {user}", folder.path().display());
            }
        }
        let guard = command
            // Ctrl-C on a terminal goes to the whole group of the lab, which still needs the database until it has stopped.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start /bin/sh")?;
        let mut server = Self { guard, folder };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The server greets a client first: its first byte says that it is ready.
    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let greeting = UnixStream::connect(self.socket()).and_then(|mut stream| {
                stream.set_read_timeout(Some(Duration::from_secs(5)))?;
                stream.read_exact(&mut [0])
            });
            if greeting.is_ok() {
                return Ok(());
            }
            if let Some(status) = self.guard.try_wait().context("cannot wait for mariadbd")? {
                bail!(
                    "mariadbd ended at its start ({status}); the end of its log:\n{}",
                    self.log_end()
                );
            }
            if Instant::now() > deadline {
                bail!(
                    "mariadbd was not ready within {} s; the end of its log:\n{}",
                    TIME_LIMIT.as_secs(),
                    self.log_end()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log_end(&self) -> String {
        let text = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        copy::end_of(&String::from_utf8_lossy(&text)).to_owned()
    }
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        // The pipe's end is the order to stop.
        drop(self.guard.stdin.take());
        if wait(&mut self.guard).is_none() {
            // The guard leads a group of its own: this ends the server with it.
            if let Some(group) = rustix::process::Pid::from_raw(self.guard.id().cast_signed()) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = self.guard.wait();
        }
    }
}

/// The version, such as `10.11.6`.
pub(super) fn version() -> Option<String> {
    let text = output(Command::new(program("mariadbd").ok()?).arg("--version"))?;
    let version = text
        .split_whitespace()
        .skip_while(|word| *word != "Ver")
        .nth(1)?;
    Some(version.split('-').next().unwrap_or(version).to_owned())
}

fn wait(child: &mut Child) -> Option<std::process::ExitStatus> {
    let deadline = Instant::now() + TIME_LIMIT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().ok()? {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

fn new_folder() -> Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("highball-lab-")
        .tempdir()
        .context("cannot make a temporary folder")?;
    // Workers may run as another user than the lab (Passenger's do): they must get to the socket.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))
        .context("cannot open the temporary folder to others")?;
    Ok(folder)
}

/// The user that the server runs as; `None` where the lab isn't root and the server runs as the lab's user.
fn user() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let exists = |user: &&str| output(Command::new("id").args(["-u", user])).is_some();
    // The package mariadb-server makes the first, every system has the second.
    ["mysql"].into_iter().find(exists).or(Some("nobody"))
}

/// Finds a program also in the folders that only root has in `PATH`.
fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .with_context(|| format!("{name} isn't installed: apt-get install {PACKAGES}"))
}
