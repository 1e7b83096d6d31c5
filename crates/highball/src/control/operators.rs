//! The addresses of operators over TCP: `admin_listen` with tokens, `metrics_listen` without, `dashboard_listen` for those who sign
//! in, and `agent_check_listen` for HAProxy. It binds them, hands them over
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
use crate::dashboard::sign_in::SignIn;
use crate::system::private_file;

/// The setting of the dashboard's address.
const DASHBOARD_LISTEN: &str = "dashboard_listen";
/// The largest file of tokens in bytes.
const MAX_TOKENS_FILE_BYTES: u64 = 64 * 1024;

/// The setting of the address for load balancers.
const AGENT_CHECK: &str = "agent_check_listen";

/// What answers, by the kind of address.
#[derive(Clone)]
pub(crate) struct Endpoints {
    /// The operators' API.
    pub(crate) routes: Rc<Routes>,
    /// The dashboard for those who sign in.
    pub(crate) pages: Rc<Routes>,
    /// What HAProxy is told.
    pub(crate) agent: Rc<AgentSource>,
}

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
        (DASHBOARD_LISTEN, settings.dashboard_listen),
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
    /// Who may look at the dashboard of `dashboard_listen`.
    sign_in: Rc<SignIn>,
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
        let port = settings
            .dashboard_listen
            .map_or(0, |address| address.port());
        let trusted = settings.trusted_proxies.clone();
        let sign_in = Rc::new(SignIn::new(port, trusted.clone()));
        sign_in.apply(dashboard_tokens(settings, dir)?, trusted);
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
            sign_in,
        })
    }

    /// Answers their clients from now on. In the state `replaced` each connection ends with its next answer: its client finds the
    /// new server then.
    pub(crate) fn serve(&self, endpoints: &Endpoints, state: &Rc<Cell<&'static str>>) {
        for one in &mut *self.listening.borrow_mut() {
            let listener = Rc::clone(&one.listener);
            let routes = match &*one.address.setting {
                AGENT_CHECK => {
                    let task = agent_check::serve(listener, Rc::clone(&endpoints.agent));
                    one.task = Some(spawn_local(task).abort_handle());
                    continue;
                }
                DASHBOARD_LISTEN => Rc::clone(&endpoints.pages),
                _ => Rc::clone(&endpoints.routes),
            };
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

    /// Who may look at the dashboard of `dashboard_listen`.
    pub(crate) fn sign_in(&self) -> &Rc<SignIn> {
        &self.sign_in
    }

    /// Follows the settings and the tokens as they are now.
    ///
    /// # Errors
    /// The tokens cannot be read; the earlier ones stay.
    pub(crate) fn apply(&self, settings: &Settings, dir: &Path) -> Result<()> {
        let (access, tokens) = (access(settings, dir)?, dashboard_tokens(settings, dir)?);
        self.access.replace(access);
        self.sign_in.apply(tokens, settings.trusted_proxies.clone());
        Ok(())
    }

    /// A line for the log about each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let listening = self.listening.borrow();
        let line = |one: &Listening| {
            let bound = one.bound();
            match one.address.setting.as_str() {
                AGENT_CHECK => format!("agent checks are answered on {bound} ({AGENT_CHECK})"),
                setting => format!("operators reach http://{bound} ({setting})"),
            }
        };
        listening.iter().map(line).collect()
    }

    /// What people should know about these addresses.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let listening = self.listening.borrow();
        let warning = |one: &Listening| warning(&one.address.setting, one.bound());
        listening.iter().filter_map(warning).collect()
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

impl Listening {
    /// The address with its port, also where the setting leaves that to the kernel.
    fn bound(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or(self.address.address)
    }
}

/// What is to be known about an address.
fn warning(setting: &str, bound: SocketAddr) -> Option<String> {
    let is_open = setting == DASHBOARD_LISTEN && !bound.ip().to_canonical().is_loopback();
    is_open.then(|| {
        format!(
            "dashboard_listen {bound}: tokens and pages pass without TLS; let only a private network or a proxy with TLS reach it"
        )
    })
}

/// The tokens of the dashboard, as the file is now.
fn dashboard_tokens(settings: &Settings, dir: &Path) -> Result<Tokens> {
    match &settings.dashboard_tokens_file {
        Some(file) if settings.dashboard_listen.is_some() => {
            let file = dir.join(file);
            let tokens = read_tokens(&file);
            tokens.with_context(|| format!("dashboard_tokens_file {}", file.display()))
        }
        _ => Ok(Tokens::default()),
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
    fn a_dashboard_that_others_reach_is_warned_of() {
        let warned = |setting: &str, address: &str| warning(setting, address.parse().unwrap());
        for loopback in ["127.0.0.1:9292", "[::1]:9292", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(warned(DASHBOARD_LISTEN, loopback), None);
        }
        for open in ["0.0.0.0:9292", "[::]:9292", "192.0.2.7:9292"] {
            assert!(warned(DASHBOARD_LISTEN, open).is_some(), "{open}");
            assert_eq!(warned("metrics_listen", open), None);
        }
    }

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
