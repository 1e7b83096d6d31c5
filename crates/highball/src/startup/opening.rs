//! What a server has at its start: what it was started with, and what it opens with the rights of that user (sockets, the
//! directory of its control sockets, more descriptors) before it gives these rights up. Serves nothing, starts no thread.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result};
use front::Listener;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::application::{Application, ChildEnvironment};
use crate::changes::predecessor::{self, Handover};
use crate::control::directory::{ControlDirectory, UnusableDirectory};
use crate::control::operators::{self, OperatorSockets};
use crate::launchers::IdleLaunchers;
use crate::setup::Setup;
use crate::sockets::{Inherited, Origin, Sockets};
use crate::system::privileges::{Identity, root_warning};
use crate::system::program::Program;
use crate::system::systemd::{self, Activated};
use crate::system::terminal::Terminal;

/// What this process was started with.
pub(crate) struct StartupContext {
    pub(crate) program: Program,
    /// Sockets of the service manager.
    activated: Vec<Activated>,
    /// What the running server hands over, where this one is to replace it.
    pub(crate) handover: Option<Handover>,
    /// The socket to that server, until this one serves.
    reply: Option<OwnedFd>,
}

impl StartupContext {
    /// That of this process. To be called once, before any thread is started.
    ///
    /// # Errors
    /// The path of the program is unknown, or a running server hands over in a way that cannot be read.
    pub(crate) fn of_this_process() -> Result<Self> {
        let program = Program::of_this_process();
        let program = program.context("cannot find the path of this program")?;
        let activated = systemd::sockets();
        let handover = predecessor::receive()?;
        let reply = handover.as_ref().map(Handover::reply).transpose()?;
        Ok(Self {
            program,
            activated,
            handover,
            reply,
        })
    }

    /// Tells the running server why this one does not replace it, unless it has already.
    pub(crate) fn refuse(&mut self, error: &anyhow::Error) {
        if let Some(reply) = self.reply.take() {
            predecessor::refuse(&reply, error);
        }
    }

    /// This server has taken over: an error concerns the running server no more.
    pub(crate) fn serves(&mut self) {
        self.reply = None;
    }
}

/// What is opened before anything else runs, with the rights that the server was started with.
pub(crate) struct Opened {
    pub(crate) sockets: Sockets,
    /// The listeners for operators.
    pub(crate) operators: OperatorSockets,
    /// The directory of its control sockets; `None` where no place is usable.
    pub(crate) directory: Option<ControlDirectory>,
    /// What starts the processes of applications that have a user of their own.
    pub(crate) launchers: IdleLaunchers,
    /// Warnings for the log.
    pub(crate) warnings: Vec<String>,
}

impl Opened {
    /// Opens everything, and becomes the user that the settings name. To be called before any thread is started.
    ///
    /// # Errors
    /// An address cannot be bound, or this process may not become that user.
    pub(crate) fn open(setup: &mut Setup, context: &mut StartupContext) -> Result<Self> {
        let settings = Rc::clone(&setup.settings);
        let settings = &*settings;
        // Commands look for processes of this name, by whatever name the program was started.
        let _ = rustix::thread::set_name(c"highball");
        let identity = Identity::find(settings)?;
        setup.set_child_environment(&ChildEnvironment {
            descriptors: raise_file_limit(context.handover.as_ref()),
            user: None,
            others: Vec::new(),
            variables: identity.variables(),
            // Before the rights to open it by its path are given up.
            terminal: settings
                .is_development()
                .then(Terminal::of_stdin)
                .flatten()
                .map(Arc::new),
        });
        let mut warnings = settings.warnings.clone();
        let mut inherited = adopt(std::mem::take(&mut context.activated), &mut warnings);
        let mut directory = None;
        if let Some(handover) = &mut context.handover {
            inherited.append(&mut handover.listeners);
            directory = handover.control.directory.take();
        }
        let sockets = Sockets::open(settings, identity.user(), inherited)?;
        let handed_over = context.handover.as_mut().map(|one| &mut one.operators);
        let operators =
            operators::open(settings, handed_over.unwrap_or(&mut OperatorSockets::new()))?;
        let mut refused = Vec::new();
        if directory.is_none() && context.handover.is_none() {
            (directory, refused) = ControlDirectory::open(identity.user(), None);
        }
        let handed_over = context.handover.as_mut();
        let handed_over = handed_over.map(|one| std::mem::take(&mut one.launchers));
        let launchers = IdleLaunchers::open(setup, identity.user(), handed_over)?;
        identity.assume()?;
        if directory.is_none() {
            let folder = Some(&*setup.dir);
            (directory, refused) = ControlDirectory::open(identity.user(), folder);
        }
        warnings.extend(directory_warnings(directory.is_none(), &refused));
        warnings.extend(user_warnings(setup));
        Ok(Self {
            sockets,
            operators,
            directory,
            launchers,
            warnings,
        })
    }
}

/// Returns the warnings about users: that of the server, and applications that share it while others have their own.
fn user_warnings(setup: &Setup) -> Vec<String> {
    let is_shared = |one: &&Application| one.child_environment.user.is_none();
    let shared: Vec<&Application> = setup.applications.iter().filter(is_shared).collect();
    let mut all = Vec::new();
    all.extend(root_warning(&setup.settings, !shared.is_empty()).map(str::to_owned));
    if shared.len() < setup.applications.len() {
        all.extend(shared.iter().filter_map(|one| one.name()).map(|name| {
            format!(
                "application {name} has the user of the front, and so may do to the applications with users of their own what \
                 the front may: set user in its table too"
            )
        }));
    }
    all
}

/// Returns the warnings about directories that are not used for the control sockets.
fn directory_warnings(none: bool, refused: &[UnusableDirectory]) -> Vec<String> {
    let insecure = |one: &&UnusableDirectory| matches!(one, UnusableDirectory::Insecure { .. });
    if !none {
        let refused = refused.iter().filter(insecure);
        return refused
            .map(|one| format!("a directory is not used for control sockets: {one}"))
            .collect();
    }
    let reasons: Vec<String> = refused.iter().map(ToString::to_string).collect();
    vec![format!(
        "commands (status, restart, reload, upgrade, stop) cannot reach this server: no place for its control sockets: {}; \
         let it write to the application's tmp/, or set RUNTIME_DIRECTORY to a folder of its user",
        reasons.join("; ")
    )]
}

/// Returns the service manager's sockets that accept connections, and warns about each other one.
fn adopt(activated: Vec<Activated>, warnings: &mut Vec<String>) -> Vec<Inherited> {
    let adopted = activated.into_iter().filter_map(|one| {
        let adopted = one.socket.map_err(Into::into).and_then(Listener::adopt);
        let listener = adopted.inspect_err(|error| {
            warnings.push(format!(
                "the socket {:?} of the service manager is not used: {error}",
                one.name
            ));
        });
        let origin = Origin {
            setting: None,
            activated: Some(one.name.clone()),
        };
        let listener = listener.ok()?;
        Some(Inherited { listener, origin })
    });
    adopted.collect()
}

/// Raises the soft limit of descriptors, for each connection takes one. Returns the limit that this server, or the first one
/// of its upgrades, was started with; workers get that one. `None` if there was none.
fn raise_file_limit(handover: Option<&Handover>) -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    let started_with = limit.current;
    limit.current = limit.maximum;
    // If that fails, accepting pauses earlier.
    let _ = setrlimit(Resource::Nofile, limit);
    match handover {
        Some(handover) => handover.greeting.descriptors,
        None => started_with,
    }
}
