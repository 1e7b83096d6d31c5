//! What a server opens at its start, with the rights that it was started with: its sockets, the directory of its control
//! sockets, more descriptors. Then it gives these rights up. Serves nothing yet, and starts no thread.

use anyhow::Result;
use front::Listener;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::application::{Application, ChildEnvironment};
use crate::changes::handover::Handover;
use crate::control::directory::{ControlDirectory, UnusableDirectory};
use crate::sockets::{Inherited, Origin, Sockets};
use crate::startup::StartupContext;
use crate::system::privileges::{Identity, root_warning};
use crate::system::systemd::Activated;

/// What is opened before anything else runs, with the rights that the server was started with. From then on it is the
/// user that its settings name.
pub(crate) struct Opened {
    pub(crate) sockets: Sockets,
    /// Where commands reach it.
    pub(crate) directory: Option<ControlDirectory>,
    /// What to log.
    pub(crate) warnings: Vec<String>,
}

impl Opened {
    /// Opens it, and gives up the rights that were needed for it. Before there is another thread.
    pub(crate) fn by(application: &mut Application, birth: &mut StartupContext) -> Result<Self> {
        let settings = &application.settings;
        // What the kernel calls this process, by whatever name its program was started.
        let _ = rustix::thread::set_name(c"highball");
        let identity = Identity::find(settings)?;
        application.given = ChildEnvironment {
            descriptors: raise_file_limit(birth.handover.as_ref()),
            variables: identity.variables(),
        };
        let mut warnings = Vec::new();
        let mut inherited = adopt(std::mem::take(&mut birth.activated), &mut warnings);
        let mut directory = None;
        if let Some(handover) = &mut birth.handover {
            inherited.append(&mut handover.listeners);
            directory = handover.control.directory.take();
        }
        let sockets = Sockets::open(settings, identity.user(), inherited)?;
        let mut refused = Vec::new();
        if directory.is_none() && birth.handover.is_none() {
            (directory, refused) = ControlDirectory::open(identity.user(), None);
        }
        identity.assume()?;
        if directory.is_none() {
            let folder = Some(&*application.dir);
            (directory, refused) = ControlDirectory::open(identity.user(), folder);
        }
        warnings.extend(directory_warnings(directory.is_none(), &refused));
        warnings.extend(root_warning(settings).map(str::to_owned));
        Ok(Self {
            sockets,
            directory,
            warnings,
        })
    }
}

/// What to log about directories that are not used for the control sockets.
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
        "no command (status, restart, reload, upgrade, stop) reaches this server, for there is no place for its control \
         sockets: {}; let it write to the application's tmp/, or name a folder of its own in RUNTIME_DIRECTORY",
        reasons.join("; ")
    )]
}

/// The service manager's sockets that connections come from; there is a warning about each other one.
fn adopt(activated: Vec<Activated>, warnings: &mut Vec<String>) -> Vec<Inherited> {
    let adopted = activated.into_iter().filter_map(|one| {
        let adopted = one.socket.map_err(Into::into).and_then(Listener::adopt);
        let listener = adopted.inspect_err(|error| {
            warnings.push(format!("the socket {:?} is left alone: {error}", one.name));
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

/// Each connection takes a descriptor, and the soft limit is a default for programs that use select(2). The limit that
/// the server was started with, be it this one or one before it, which its workers get; `None` where there was none.
fn raise_file_limit(handover: Option<&Handover>) -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    let started_with = limit.current;
    limit.current = limit.maximum;
    // Where it stays as it is, accepting pauses earlier.
    let _ = setrlimit(Resource::Nofile, limit);
    match handover {
        Some(handover) => handover.greeting.descriptors,
        None => started_with,
    }
}
