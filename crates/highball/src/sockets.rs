//! The sockets that a server listens on: inherited ones that stand for an address of the settings, and those that it binds
//! itself. Accepts nothing.

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, Result};
use config::{FileMode, Listen, Place, SETTINGS, Settings};
use front::{FileAccess, Front, Listener};
use serde::{Deserialize, Serialize};

use crate::system::privileges::{User, group_named};

/// Where a socket came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Origin {
    /// The address in the settings that it was bound for, as written there.
    pub(crate) setting: Option<String>,
    /// The name that the service manager gave it; its file then belongs to the service manager.
    pub(crate) activated: Option<String>,
}

/// A socket that listened before this process started.
#[derive(Debug)]
pub(crate) struct Inherited {
    pub(crate) listener: Listener,
    pub(crate) origin: Origin,
}

/// All sockets of a server.
#[derive(Debug)]
pub(crate) struct Sockets {
    listening: Vec<ListeningSocket>,
    /// Inherited sockets that the settings do not name any more.
    unused: Vec<Inherited>,
}

#[derive(Debug)]
struct ListeningSocket {
    listener: Listener,
    origin: Origin,
    inherited: bool,
}

impl Sockets {
    /// Binds the addresses of the settings for which no socket was inherited. The server also listens on sockets of the
    /// service manager that no setting names, and only on those if `listen` has its default.
    ///
    /// Files of UNIX sockets are given to `user`, which the server becomes.
    ///
    /// # Errors
    /// An address cannot be bound; names it.
    pub(crate) fn open(
        settings: &Settings,
        user: User,
        mut inherited: Vec<Inherited>,
    ) -> Result<Self> {
        let access = access(settings, user)?;
        let activated = |one: &Inherited| one.origin.activated.is_some();
        let wanted = match inherited.iter().any(activated) && is_default(settings) {
            true => &[][..],
            false => &settings.listen[..],
        };
        let mut listening: Vec<ListeningSocket> = Vec::new();
        for listen in wanted {
            // An inherited socket may serve IPv4 and IPv6, which are two addresses here.
            let mut taken = listening.iter().filter(|one| one.inherited);
            if taken.any(|one| one.listener.stands_for(listen)) {
                continue;
            }
            let setting = Some(listen.to_string());
            let found = position(&inherited, listen);
            let (listener, activated) = match found.map(|at| inherited.remove(at)) {
                Some(one) => (one.listener.for_clients_of(listen), one.origin.activated),
                None => (Listener::bind(listen, settings.backlog, access)?, None),
            };
            listening.push(ListeningSocket {
                listener,
                origin: Origin { setting, activated },
                inherited: found.is_some(),
            });
        }
        let (kept, unused): (Vec<_>, Vec<_>) = inherited.into_iter().partition(activated);
        listening.extend(kept.into_iter().map(|one| ListeningSocket {
            listener: one.listener,
            origin: Origin {
                setting: None,
                ..one.origin
            },
            inherited: true,
        }));
        Ok(Self { listening, unused })
    }

    /// Whether clients of one of them speak TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.listening.iter().any(|one| one.listener.is_tls())
    }

    /// Whether clients of one of them come over TCP and speak HTTP without TLS.
    pub(crate) fn has_plain_tcp(&self) -> bool {
        let mut all = self.listening.iter();
        all.any(|one| !one.listener.is_tls() && one.listener.path().is_none())
    }

    /// The addresses that it listens on, for people.
    pub(crate) fn names(&self) -> Vec<String> {
        self.listening
            .iter()
            .map(|one| one.listener.name())
            .collect()
    }

    /// A line for the log about each socket.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.listening.iter().map(|one| {
            let name = one.listener.name();
            match (&one.origin.activated, &one.origin.setting) {
                (None, _) => format!("listening on {name}"),
                (Some(by), Some(_)) => format!("listening on {name} (socket {by:?})"),
                (Some(by), None) => {
                    format!("listening on {name} (socket {by:?}, not in the settings)")
                }
            }
        })
    }

    /// The files of UNIX sockets that this server removes at its end.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let own = self
            .listening
            .iter()
            .filter(|one| one.origin.activated.is_none());
        own.filter_map(|one| one.listener.path().map(Into::into))
            .collect()
    }

    /// Has the front accept connections from them, and closes the unused ones. Returns where they came from, in the front's
    /// order.
    ///
    /// # Errors
    /// A socket cannot be registered with the runtime.
    pub(crate) fn accept(self, front: &Rc<Front>, backlog: u32) -> Result<Vec<Origin>> {
        let mut origins = Vec::new();
        for one in self.listening {
            if one.inherited {
                one.listener
                    .claim(backlog)
                    .context("cannot listen on an inherited socket")?;
            }
            one.listener.own_file(one.origin.activated.is_none());
            front
                .acceptors()
                .accept(one.listener)
                .context("cannot accept connections")?;
            origins.push(one.origin);
        }
        for one in self.unused {
            one.listener.own_file(true);
        }
        Ok(origins)
    }
}

/// Returns who may connect to the UNIX sockets of a server that becomes `user`.
///
/// # Errors
/// The group does not exist.
fn access(settings: &Settings, user: User) -> Result<FileAccess> {
    let named = settings.unix_socket_group.as_deref();
    let group = named.map(|name| group_named("unix_socket_group", name));
    let group = group.transpose()?;
    let becomes = user != User::of_this_process();
    Ok(FileAccess {
        mode: match settings.unix_socket_mode {
            FileMode::Bits(mode) => mode,
            FileMode::Auto if group.is_some() => 0o660,
            FileMode::Auto => 0o600,
        },
        user: becomes.then_some(user.uid),
        group: group.or(becomes.then_some(user.gid)),
    })
}

/// Returns the inherited socket for an address: the one that was bound for it, otherwise one that its clients reach.
fn position(inherited: &[Inherited], listen: &Listen) -> Option<usize> {
    let text = listen.to_string();
    let bound = |one: &Inherited| one.origin.setting.as_ref() == Some(&text);
    let reached = |one: &Inherited| one.listener.stands_for(listen);
    let at = inherited.iter().position(bound);
    at.or_else(|| inherited.iter().position(reached))
}

/// Whether `listen` has its default.
fn is_default(settings: &Settings) -> bool {
    let origins = SETTINGS.iter().zip(&settings.origins);
    let mut listen = origins.filter(|(setting, _)| setting.name == "listen");
    listen.any(|(_, origin)| origin.place == Place::Default)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn inherited(socket: TcpListener, setting: Option<&str>, name: Option<&str>) -> Inherited {
        Inherited {
            listener: Listener::adopt(socket.into()).unwrap(),
            origin: Origin {
                setting: setting.map(Into::into),
                activated: name.map(Into::into),
            },
        }
    }

    fn socket() -> (TcpListener, String) {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("http://{}", socket.local_addr().unwrap());
        (socket, name)
    }

    /// Settings that ask for these addresses.
    fn asking(listen: &[&str]) -> Settings {
        let flag = |text: &&str| ("listen".to_owned(), (*text).to_owned());
        let sources = config::Sources {
            dir: "/dev/null".into(),
            flags: listen.iter().map(flag).collect(),
            ..config::Sources::default()
        };
        Settings::load(sources).unwrap()
    }

    #[test]
    fn an_inherited_socket_stands_for_the_address_that_it_was_bound_for_or_has() {
        let ((first, first_name), (second, second_name)) = (socket(), socket());
        let address = second_name.strip_prefix("http://").unwrap();
        let settings = asking(&["127.0.0.1:0", address]);
        let handed = vec![
            inherited(second, None, None),
            inherited(first, Some("127.0.0.1:0"), None),
        ];
        let sockets = Sockets::open(&settings, User::of_this_process(), handed).unwrap();
        assert_eq!(sockets.names(), [&*first_name, &*second_name]);
        assert_eq!(
            sockets.listening[1].origin.setting.as_deref(),
            Some(address)
        );
        assert!(sockets.listening.iter().all(|one| one.inherited) && sockets.unused.is_empty());
    }

    #[test]
    fn sockets_without_a_setting_are_kept_if_the_service_manager_made_them() {
        let ((left, _), (given, given_name)) = (socket(), socket());
        let handed = vec![
            inherited(left, Some("127.0.0.1:7"), None),
            inherited(given, None, Some("app.socket")),
        ];
        let sockets =
            Sockets::open(&asking(&["127.0.0.1:0"]), User::of_this_process(), handed).unwrap();
        assert_eq!((sockets.listening.len(), sockets.unused.len()), (2, 1));
        let line = sockets.lines().last().unwrap();
        let expect = "(socket \"app.socket\", not in the settings)";
        assert_eq!(line, format!("listening on {given_name} {expect}"));
    }

    #[test]
    fn sockets_of_the_service_manager_take_the_place_of_the_default() {
        let (given, name) = socket();
        let handed = vec![inherited(given, None, Some("app.socket"))];
        let sockets = Sockets::open(&asking(&[]), User::of_this_process(), handed).unwrap();
        assert_eq!(sockets.names(), [name]);
    }

    #[test]
    fn the_file_of_a_socket_stays_until_its_listener_is_accepted_from() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let setting = format!("unix:{}", path.display());
        let handed = Inherited {
            listener: Listener::adopt(listener.into()).unwrap(),
            origin: Origin {
                setting: Some(setting.clone()),
                activated: None,
            },
        };
        let sockets =
            Sockets::open(&asking(&[&setting]), User::of_this_process(), vec![handed]).unwrap();
        assert_eq!(sockets.files(), [&*path]);
        drop(sockets);
        assert!(path.exists());
    }
}
