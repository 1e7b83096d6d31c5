//! An upgrade, in the running server: starts the new server, hands its sockets over, and lets it accept connections once it
//! is ready. A new server that fails or takes too long is killed, and nothing has changed. The new server's side is
//! `predecessor.rs`.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use front::log::Level;
use supervisor::{Channel, scale_of};
use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::changes::handover::{
    GreetedApplication, Greeting, HandedOver, Scaled, VARIABLE, VERSION,
};
use crate::changes::successor::Successor;
use crate::control::log_level::LevelReport;
use crate::control::messages::Progress;
use crate::server::Server;
use crate::sockets::Origin;
use crate::system::privileges::User;
use crate::system::program::{Program, own_pid};
use crate::system::{systemd, trusted_file};

/// Makes upgrades of a server.
pub(crate) struct Upgrades {
    pub(crate) server: Rc<Server>,
    /// What this server was started as.
    pub(crate) program: Program,
    /// Where the front's listeners came from, in the front's order.
    pub(crate) origins: Vec<Origin>,
}

impl Upgrades {
    /// Lets another program take over. Returns the new server if it has: then this server is to end.
    pub(crate) async fn upgrade(
        &self,
        boot_timeout: Duration,
        descriptors: Option<u64>,
        binary: Option<&Path>,
    ) -> (Progress, Option<Successor>) {
        let began = Instant::now();
        let (log, before) = (&self.server.log, own_pid());
        let highball_before = env!("CARGO_PKG_VERSION");
        match self.replace(boot_timeout, descriptors, binary).await {
            Ok((highball, successor)) => {
                let pid = successor.pid();
                let text = format!("highball {highball} (pid {pid}) has taken over");
                log.event(Level::Info, &text, &[]);
                let answer = format!(
                    "highball {highball} (pid {pid}) serves after {:.2} s; highball {highball_before} (pid {before}) finishes \
                     its requests\n",
                    began.elapsed().as_secs_f64()
                );
                (Progress::done(answer), Some(successor))
            }
            Err(error) => {
                let reason = format!("{error:#}");
                let text = format!("the upgrade failed, this server keeps serving: {reason}");
                log.event(Level::Warn, &text, &[]);
                let answer =
                    format!("highball {highball_before} (pid {before}) keeps serving: {reason}");
                (Progress::failed(answer), None)
            }
        }
    }

    /// Starts the new server and lets it serve. Returns its version of Highball, and itself.
    async fn replace(
        &self,
        boot_timeout: Duration,
        descriptors: Option<u64>,
        binary: Option<&Path>,
    ) -> Result<(String, Successor)> {
        if rustix::process::getpid().is_init() {
            bail!(
                "this server is the first process of its container (pid 1), and the container would end with it: start \
                 another container with the new highball instead"
            );
        }
        let server = &self.server;
        if server.terminal.is_some() {
            bail!(
                "this server runs in a terminal, in development or test, and its shell waits for this very process: stop it \
                 with Ctrl-C and start the new highball instead"
            );
        }
        let mut greeting = self.greeting().await?;
        greeting.descriptors = descriptors;
        let mut successor = self.start(binary).await?;
        let set_other = |other| {
            let all = server.hosted.iter();
            all.for_each(|one| one.supervisor.set_other_server(other));
        };
        set_other(true);
        let serves = self.hand_over(&mut successor, greeting, boot_timeout).await;
        let highball = match serves {
            Ok(highball) => highball,
            Err(error) => {
                successor.end().await;
                set_other(false);
                return Err(error);
            }
        };
        server.front.acceptors().leave_socket_files();
        server.control.release_shared();
        server.operators.close();
        server.state.set("replaced");
        // Before the new server may speak to the service manager, which listens to the main process only.
        server.manager.replaced_by(successor.pid()).await;
        successor.say_named().await;
        Ok((highball, successor))
    }

    /// Says what this server is, and how many workers fit into memory in addition to its own.
    async fn greeting(&self) -> Result<Greeting> {
        let mut greeting = Greeting {
            version: VERSION,
            highball: env!("CARGO_PKG_VERSION").to_owned(),
            pid: own_pid(),
            log_level: LevelReport::of(&self.server.log),
            ..Greeting::default()
        };
        for hosted in &self.server.hosted {
            let workers = hosted.supervisor.room_for_other_server().await;
            let workers = workers.map_err(|held| {
                anyhow!(
                    "no memory for a second server next to this one: {held}; stop this server and start the new one instead"
                )
            })?;
            let generation = hosted.latest.get();
            let setting = hosted.application.borrow().settings.workers;
            let scale = scale_of(&hosted.supervisor);
            let workers_by_load = scale.load;
            let scaled = scale.operator.map(|workers| Scaled {
                setting: setting.to_string(),
                workers,
            });
            greeting.generation = greeting.generation.max(generation);
            match hosted.name() {
                None => {
                    greeting.workers = workers;
                    greeting.scaled = scaled;
                    greeting.workers_by_load = workers_by_load;
                }
                Some(name) => {
                    let serves = hosted.serving.get().is_some();
                    let application = GreetedApplication {
                        generation,
                        serves,
                        stopped: hosted.is_stopped.get(),
                        workers,
                        scaled,
                        workers_by_load,
                    };
                    greeting.applications.insert(name, application);
                }
            }
        }
        Ok(greeting)
    }

    /// Starts a program with this server's arguments: the named file, if only root and this server's user can change it, by
    /// default the file that this server was started from.
    async fn start(&self, named: Option<&Path>) -> Result<Successor> {
        let this = &self.program;
        let housekeeping = &self.server.housekeeping;
        let limit = self.server.front.settings().boot_timeout;
        let program = named.unwrap_or(&this.path);
        let file = match named.map(Path::to_owned) {
            Some(named) => {
                let check = move || trusted_file::check(&named, User::of_this_process().uid);
                housekeeping.look(program.display(), limit, check).await?
            }
            None => program.to_owned(),
        };
        let (channel, far) = Channel::pair().context("cannot make a socket")?;
        let mut command = Command::new(file);
        command
            // By its own name, which may be a link: the next upgrade follows it again.
            .arg0(program)
            .args(&this.arguments)
            .env(VARIABLE, "stdin")
            .stdin(Stdio::from(far));
        // Its sockets come over the channel, and the watchdog is for it instead of this process.
        let kept = ["NOTIFY_SOCKET", "WATCHDOG_USEC"];
        for name in systemd::VARIABLES {
            if !kept.contains(&name) {
                command.env_remove(name);
            }
        }
        let (folder, runtime) = (this.folder.clone(), Handle::current());
        let spawn = housekeeping.look(program.display(), limit, move || {
            // A link in its path may lead elsewhere by now.
            if folder.is_dir() {
                command.current_dir(&folder).env("PWD", &folder);
            }
            // The runtime waits for the child.
            let _runtime = runtime.enter();
            Ok(command.spawn()?)
        });
        let child = spawn.await;
        let child = child.with_context(|| format!("cannot run {}", program.display()))?;
        Successor::new(child, channel)
    }

    /// Hands everything over and lets the new server accept connections. Returns its version.
    async fn hand_over(
        &self,
        successor: &mut Successor,
        mut greeting: Greeting,
        boot_timeout: Duration,
    ) -> Result<String> {
        // As long as a start may take: twice for the load (at low priority, then at normal), once for the workers.
        let limit = 3 * boot_timeout;
        let sockets = self.sockets()?;
        greeting.sockets = sockets.len();
        let frequent = self.frequent_paths().await;
        let ready = successor.prepare(&greeting, frequent.as_ref(), &sockets);
        let highball = match tokio::time::timeout(limit, ready).await {
            Ok(ready) => ready?,
            Err(_) => {
                bail!("the new server was not ready within {limit:?} (three times boot_timeout)")
            }
        };
        // Before it serves: people who were told of an exception are not told again, and no count falls.
        let state = &self.server.gathered;
        state.totals.freeze();
        let given = successor.give_state(state).await;
        if let Err(error) = successor.accept_connections().await {
            given.into_iter().for_each(|part| state.take_back(part));
            state.totals.keep();
            return Err(error);
        }
        Ok(highball)
    }

    /// A file with the frequent paths, where there are any. Without it the new server requests none: no reason to give the
    /// upgrade up.
    async fn frequent_paths(&self) -> Option<OwnedFd> {
        let part = self.server.gathered.frequent_paths()?;
        spawn_blocking(move || part.write()).await.ok()?.ok()
    }

    /// Duplicates the sockets that are handed over.
    fn sockets(&self) -> Result<Vec<(HandedOver, OwnedFd)>> {
        let server = &self.server;
        let duplicate = "cannot duplicate a socket";
        let mut sockets = Vec::new();
        if let Some(directory) = server.control.directory() {
            let fd = directory.as_fd().try_clone_to_owned().context(duplicate)?;
            let path = directory.path().to_owned();
            sockets.push((HandedOver::ControlDirectory(path), fd));
        }
        let listeners = server.front.acceptors().sockets().context(duplicate)?;
        for (origin, fd) in self.origins.iter().zip(listeners) {
            sockets.push((HandedOver::Listener(origin.clone()), fd));
        }
        for (address, fd) in server.operators.duplicate().context(duplicate)? {
            sockets.push((HandedOver::Operators(address), fd));
        }
        for (name, fd) in server.control.duplicate_shared().context(duplicate)? {
            sockets.push((HandedOver::Control(name), fd));
        }
        let launchers = server.launchers.connect();
        let launchers = launchers.context("cannot hand the launchers over")?;
        sockets.extend(launchers.into_iter().map(|fd| (HandedOver::Launcher, fd)));
        Ok(sockets)
    }
}
