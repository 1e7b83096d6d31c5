//! The launchers of a server: which users its applications have of their own, and a launcher for each of them. They are started
//! while this process is root, or come from the server that this one replaces. What they do is in the crate `supervisor`.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use exchange::control;
use supervisor::{Introduced, Launcher};
use tokio::task::spawn_local;

use crate::cli::launcher::VARIABLE;
use crate::setup::Setup;
use crate::system::privileges::{Identity, User};

/// The launchers of a server that has not begun to serve, with the names of their users.
#[derive(Debug, Default)]
pub(crate) struct IdleLaunchers(Vec<(String, Introduced)>);

/// The launchers of a server, with their users.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launchers(Vec<(User, Rc<Launcher>)>);

impl IdleLaunchers {
    /// Finds the user of each application that has one of its own, and a launcher for each of them: one that was `handed_over`,
    /// or a new one. To be called before this process gives up the rights that it was started with. `front` is the user that it
    /// becomes.
    ///
    /// # Errors
    /// There is no such user, it is root, or this process may not start a launcher; names application and user.
    pub(crate) fn open(
        setup: &mut Setup,
        front: User,
        handed_over: Option<Vec<OwnedFd>>,
    ) -> Result<Self> {
        let replaces = handed_over.is_some();
        let mut old = Vec::new();
        for socket in handed_over.into_iter().flatten() {
            let introduced = Introduced::await_first(socket, None);
            old.push(introduced.context("cannot take over a launcher of the running server")?);
        }
        let mut all: Vec<(String, Introduced)> = Vec::new();
        for application in &mut setup.applications {
            let Some(table) = &application.table else {
                continue;
            };
            let Some(name) = &table.user else { continue };
            let of = || format!("application {}", table.name);
            let identity = Identity::of_application(name, table.group.as_deref());
            let identity = identity.with_context(of)?;
            let user = identity.user();
            application.child_environment.variables = identity.variables();
            if user == front {
                // As if nothing were set.
                continue;
            }
            application.child_environment.user = Some(user);
            // It belongs to the user that has started the server.
            application.child_environment.terminal = None;
            if all.iter().any(|(_, one)| is_for(one, user)) {
                continue;
            }
            let launcher = match old.iter().position(|one| is_for(one, user)) {
                Some(at) => old.swap_remove(at),
                None => start(&identity, table.group.as_deref(), replaces).with_context(of)?,
            };
            all.push((identity.name(), launcher));
        }
        let users: Vec<u32> = all.iter().map(|(_, one)| one.uid).collect();
        for application in &mut setup.applications {
            if let Some(own) = application.child_environment.user {
                let others = users.iter().copied().filter(|uid| *uid != own.uid);
                application.child_environment.others = others.collect();
            }
        }
        Ok(Self(all))
    }

    /// Begins to serve with them. `on_end` gets a text about the end of each. Needs a `LocalRuntime`.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub(crate) fn begin(self, on_end: impl Fn(&str) + Clone + 'static) -> io::Result<Launchers> {
        let mut all = Vec::new();
        for (name, introduced) in self.0 {
            let user = User {
                uid: introduced.uid,
                gid: introduced.gid,
            };
            let (pid, on_end) = (introduced.pid, on_end.clone());
            let launcher = introduced.begin(name)?;
            all.push((user, Rc::clone(&launcher)));
            spawn_local(async move {
                let reason = launcher.ended().await;
                let text = format!(
                    "the launcher of user {} (pid {pid}) is there no more: {reason}; its applications are unavailable until \
                     the server is stopped and started again as root",
                    launcher.user()
                );
                on_end(&text);
            });
        }
        Ok(Launchers(all))
    }
}

impl Launchers {
    /// That of an application's own user, if it has one.
    ///
    /// # Errors
    /// There is none for this user: the application must not be started by the front in its place.
    pub(crate) fn of(&self, user: Option<User>) -> Result<Option<&Rc<Launcher>>> {
        let Some(user) = user else { return Ok(None) };
        let found = self.0.iter().find(|(of, _)| *of == user);
        let found = found.with_context(|| format!("there is no launcher for uid {}", user.uid))?;
        Ok(Some(&found.1))
    }

    /// Makes a socket to each of them, for a server that is to replace this one.
    ///
    /// # Errors
    /// One is there no more, or no descriptors are left.
    pub(crate) fn connect(&self) -> io::Result<Vec<OwnedFd>> {
        self.0.iter().map(|(_, one)| one.connect()).collect()
    }
}

fn is_for(launcher: &Introduced, user: User) -> bool {
    (launcher.uid, launcher.gid) == (user.uid, user.gid)
}

/// Starts a launcher. It has this process's program, whatever file has its path by now, and waits as root for nothing: it
/// becomes its user first.
fn start(identity: &Identity, group: Option<&str>, replaces: bool) -> Result<Introduced> {
    let described = identity.described();
    let own = User::of_this_process().uid;
    if own != 0 {
        let remedy = match replaces {
            true => {
                "the running server has no launcher for that user, and an upgrade cannot start one: stop the server and start \
                 it again as root"
            }
            false => {
                "only root can start processes of another user: start it as root, or remove user from its table"
            }
        };
        bail!(
            "cannot run it as {described} (user in its table): this server was started as uid {own}; {remedy}"
        );
    }
    let failed = || format!("cannot start a launcher for {described} (user in its table)");
    let (near, far) = control::pair().with_context(failed)?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("highball: launcher")
        .arg(identity.name())
        .args(group)
        .env(VARIABLE, "stdin")
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::from(far));
    let child = command.spawn().with_context(failed)?;
    // It has the only other end.
    drop(command);
    let introduced = Introduced::await_first(near, Some(child)).with_context(failed)?;
    let user = identity.user();
    if !is_for(&introduced, user) {
        bail!(
            "{}: it is uid {} and gid {}",
            failed(),
            introduced.uid,
            introduced.gid
        );
    }
    Ok(introduced)
}
