//! The addresses of operators over TCP: `admin_listen` with tokens, `metrics_listen` without, and
//! `agent_check_listen` for HAProxy. It binds them, hands them over
//! to the server of an upgrade, and has their clients answered by the table of routes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use admin::{Access, Routes, Terms, Tokens, serve_listener};
use anyhow::{Context, Result};
use config::Settings;
use front::panics::spawn_contained;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, spawn_local};

use crate::control::agent_check::{self, AgentSource};
use crate::system::private_file;

/// The largest file of tokens in bytes.
const MAX_TOKENS_FILE_BYTES: u64 = 64 * 1024;

/// The setting of the address for load balancers.
const AGENT_CHECK: &str = "agent_check_listen";

/// An address of operators, by the setting that names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct OperatorAddress {
    /// The setting.
    pub(crate) setting: String,
    /// Its value, as it was bound.
    pub(crate) address: SocketAddr,
}

/// Sockets that listen, by the addresses that they were bound for.
pub(crate) type OperatorSockets = BTreeMap<OperatorAddress, OwnedFd>;

/// The addresses that the settings name.
fn wanted(settings: &Settings) -> impl Iterator<Item = OperatorAddress> {
    let named = [
        ("admin_listen", settings.admin_listen),
        ("metrics_listen", settings.metrics_listen),
        (AGENT_CHECK, settings.agent_check_listen),
    ];
    named.into_iter().filter_map(|(setting, address)| {
        Some(OperatorAddress {
            setting: setting.to_owned(),
            address: address?,
        })
    })
}

/// Binds the addresses of the settings, except for those whose sockets were handed over.
///
/// # Errors
/// One cannot be bound; names it.
pub(crate) fn open(
    settings: &Settings,
    handed_over: &mut OperatorSockets,
) -> Result<OperatorSockets> {
    let bind = |wanted: OperatorAddress| {
        let socket = match handed_over.remove(&wanted) {
            Some(socket) => socket,
            None => {
                let OperatorAddress { setting, address } = &wanted;
                let bound = StdListener::bind(address);
                let bound = bound.with_context(|| format!("{setting}: cannot listen on {address}"));
                bound?.into()
            }
        };
        Ok((wanted, socket))
    };
    wanted(settings).map(bind).collect()
}

/// The addresses of operators while the server runs.
pub(crate) struct OperatorListeners {
    listening: RefCell<Vec<Listening>>,
    /// What clients of `admin_listen` may do.
    access: Rc<RefCell<Access>>,
}

struct Listening {
    address: OperatorAddress,
    listener: Rc<TcpListener>,
    task: Option<AbortHandle>,
}

impl OperatorListeners {
    /// Those on these sockets. They accept nothing yet.
    ///
    /// # Errors
    /// The tokens cannot be read, or a socket cannot be registered with the runtime.
    pub(crate) fn new(sockets: OperatorSockets, settings: &Settings, dir: &Path) -> Result<Self> {
        let access = access(settings, dir)?;
        let listening = sockets.into_iter().map(|(address, socket)| {
            let socket = StdListener::from(socket);
            socket.set_nonblocking(true)?;
            Ok(Listening {
                address,
                listener: Rc::new(TcpListener::from_std(socket)?),
                task: None,
            })
        });
        let listening: io::Result<Vec<_>> = listening.collect();
        Ok(Self {
            listening: RefCell::new(listening.context("cannot listen for operators")?),
            access: Rc::new(RefCell::new(access)),
        })
    }

    /// Answers their clients by these routes from now on. In the state `replaced` each connection ends with its next answer:
    /// its client finds the new server then.
    pub(crate) fn serve(
        &self,
        routes: &Rc<Routes>,
        state: &Rc<Cell<&'static str>>,
        agent: &Rc<AgentSource>,
    ) {
        for one in &mut *self.listening.borrow_mut() {
            if one.address.setting == AGENT_CHECK {
                let (listener, agent) = (Rc::clone(&one.listener), Rc::clone(agent));
                let task = spawn_local(agent_check::serve(listener, agent));
                one.task = Some(task.abort_handle());
                continue;
            }
            let (listener, routes) = (Rc::clone(&one.listener), Rc::clone(routes));
            let (access, state) = (Rc::clone(&self.access), Rc::clone(state));
            let needs_token = one.address.setting == "admin_listen";
            let terms = move || Terms {
                access: match needs_token {
                    true => access.borrow().clone(),
                    false => Access::Open,
                },
                is_last: state.get() == "replaced",
            };
            let task = spawn_local(serve_listener(listener, routes, terms, spawn_contained));
            one.task = Some(task.abort_handle());
        }
    }

    /// Follows the settings and the tokens as they are now.
    ///
    /// # Errors
    /// The tokens cannot be read; the earlier ones stay.
    pub(crate) fn apply(&self, settings: &Settings, dir: &Path) -> Result<()> {
        self.access.replace(access(settings, dir)?);
        Ok(())
    }

    /// A line for the log about each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let listening = self.listening.borrow();
        let line = |one: &Listening| {
            let bound = one.listener.local_addr().unwrap_or(one.address.address);
            match one.address.setting.as_str() {
                AGENT_CHECK => format!("agent checks are answered on {bound} ({AGENT_CHECK})"),
                setting => format!("operators reach http://{bound} ({setting})"),
            }
        };
        listening.iter().map(line).collect()
    }

    /// Duplicates the sockets, for the process that takes over.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn duplicate(&self) -> io::Result<OperatorSockets> {
        let listening = self.listening.borrow();
        let duplicate = |one: &Listening| {
            let socket = one.listener.as_fd().try_clone_to_owned()?;
            Ok((one.address.clone(), socket))
        };
        listening.iter().map(duplicate).collect()
    }

    /// Accepts no further connection. Those that are open are still answered.
    pub(crate) fn close(&self) {
        for one in self.listening.take() {
            one.task.iter().for_each(AbortHandle::abort);
        }
    }
}

/// What clients of `admin_listen` may do, by the settings and the file of tokens as it is now.
fn access(settings: &Settings, dir: &Path) -> Result<Access> {
    let tokens = match &settings.admin_tokens_file {
        Some(file) if settings.admin_listen.is_some() => {
            let file = dir.join(file);
            let tokens = read_tokens(&file);
            tokens.with_context(|| format!("admin_tokens_file {}", file.display()))?
        }
        _ => Tokens::default(),
    };
    Ok(Access::Token {
        tokens,
        write: settings.admin_write,
    })
}

/// Reads a file of tokens that other users cannot read.
fn read_tokens(path: &Path) -> Result<Tokens> {
    let text = private_file::read(path, MAX_TOKENS_FILE_BYTES)?;
    Ok(Tokens::parse(&text)?)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_of_tokens_is_refused_if_others_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
        for (mode, accepted) in [
            (0o600, true),
            (0o400, true),
            (0o440, true),
            (0o644, false),
            (0o620, false),
            (0o601, false),
        ] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_tokens(&path).is_ok(), accepted, "{mode:o}");
        }
        set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        write(&path, "#".repeat(MAX_TOKENS_FILE_BYTES as usize + 1)).unwrap();
        assert!(read_tokens(&path).is_err());
        assert!(read_tokens(dir.path()).is_err());
    }
}
