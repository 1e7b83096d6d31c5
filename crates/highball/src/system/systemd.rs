//! systemd's protocols: sockets that it opened for this server (sd_listen_fds(3)), the server's state (sd_notify(3)), and
//! the watchdog (sd_watchdog_enabled(3)). All of them are switched on by variables; without them nothing happens here.

use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use exchange::scheduling::monotonic_ns;
use listenfd::ListenFd;
use tokio::time::MissedTickBehavior;

/// The variables of these protocols. They are for this process only and are removed for its children.
pub(crate) const VARIABLES: [&str; 6] = [
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
];

/// How long the manager's socket may be full when it must receive a message, and how often sending is tried.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);
const NOTIFY_RETRY: Duration = Duration::from_millis(10);

/// A socket that was opened for this process.
#[derive(Debug)]
pub(crate) struct Activated {
    /// Its name; by default the name of its unit.
    pub(crate) name: String,
    /// The socket, or why it accepts no connections.
    pub(crate) socket: io::Result<OwnedFd>,
}

/// Takes the sockets that were opened for this process. To be called once, before any thread is started: it removes
/// variables.
pub(crate) fn sockets() -> Vec<Activated> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':').map(str::to_owned);
    let mut found = ListenFd::from_env();
    let all = 0..found.len();
    let activated = all.map(|index| Activated {
        name: names.next().unwrap_or_default(),
        socket: take(&mut found, index),
    });
    activated.collect()
}

fn take(found: &mut ListenFd, index: usize) -> io::Result<OwnedFd> {
    let socket = match found.take_unix_listener(index) {
        Ok(socket) => socket.map(OwnedFd::from),
        Err(_) => found.take_tcp_listener(index)?.map(OwnedFd::from),
    };
    socket.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// The service manager, if `NOTIFY_SOCKET` names one.
#[derive(Debug, Default)]
pub(crate) struct Manager(Option<(UnixDatagram, SocketAddr)>);

impl Manager {
    /// The one that `NOTIFY_SOCKET` names.
    ///
    /// # Errors
    /// The name is not valid, or no descriptors are left.
    pub(crate) fn from_env() -> io::Result<Self> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
            return Ok(Self(None));
        };
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&name)?,
        };
        let socket = UnixDatagram::unbound()?;
        // The front's thread never blocks.
        socket.set_nonblocking(true)?;
        Ok(Self(Some((socket, address))))
    }

    /// Tells it that this server serves; `status` is a line for people.
    pub(crate) async fn ready(&self, status: &str) {
        self.send_waiting(&format!("READY=1\nSTATUS={status}"))
            .await;
    }

    /// Tells it that this server reads its settings again; [`Manager::ready`] follows in any case.
    pub(crate) async fn reloading(&self) {
        let now = monotonic_ns() / 1000;
        let state = format!("RELOADING=1\nMONOTONIC_USEC={now}");
        self.send_waiting(&state).await;
    }

    /// Tells it that this server is stopping.
    pub(crate) async fn stopping(&self) {
        self.send_waiting("STOPPING=1").await;
    }

    /// Tells it that another process is the service from now on.
    pub(crate) async fn replaced_by(&self, pid: i32) {
        self.send_waiting(&format!("MAINPID={pid}")).await;
    }

    /// Feeds the watchdog, from the front's own loop and twice as often as it asks for. Returns at once where there is no
    /// watchdog.
    pub(crate) async fn feed_watchdog(&self) {
        let Some(period) = watchdog(
            variable("WATCHDOG_USEC"),
            variable("WATCHDOG_PID"),
            std::process::id(),
        ) else {
            return;
        };
        let mut turn = tokio::time::interval(period / 2);
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turn.tick().await;
            // The next message follows soon.
            let _ = self.send("WATCHDOG=1");
        }
    }

    /// Sends a message, and waits for a while if the socket is full.
    async fn send_waiting(&self, state: &str) {
        let tried = async {
            while self
                .send(state)
                .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            {
                tokio::time::sleep(NOTIFY_RETRY).await;
            }
        };
        // A manager that is gone or does not read is no reason not to serve.
        let _ = tokio::time::timeout(NOTIFY_TIMEOUT, tried).await;
    }

    fn send(&self, state: &str) -> io::Result<()> {
        match &self.0 {
            Some((socket, address)) => socket.send_to_addr(state.as_bytes(), address).map(drop),
            None => Ok(()),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// How often the manager wants a message from the process `own`.
fn watchdog(period: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid != own.to_string()) {
        return None;
    }
    let period = Duration::from_micros(period?.parse().ok()?);
    (!period.is_zero()).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_that_reads_nothing_is_waited_for_a_second_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let address = SocketAddr::from_pathname(&path).unwrap();
        let own = UnixDatagram::unbound().unwrap();
        own.set_nonblocking(true).unwrap();
        let manager = Manager(Some((own, address)));
        let mut held = 0;
        while manager.send("STATUS=full").is_ok() {
            held += 1;
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        // It returns, and the message was not sent.
        runtime.block_on(manager.stopping());
        let mut text = [0; 64];
        for _ in 0..held {
            let length = socket.recv(&mut text).unwrap();
            assert_eq!(&text[..length], b"STATUS=full");
        }
        runtime.block_on(manager.stopping());
        let length = socket.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"STOPPING=1");
    }

    #[test]
    fn the_watchdog_is_fed_by_the_process_that_it_watches() {
        let check = |period: Option<&str>, pid: Option<&str>, expect: Option<u64>| {
            let found = watchdog(period.map(Into::into), pid.map(Into::into), 7);
            let expect = expect.map(Duration::from_millis);
            assert_eq!(found, expect, "{period:?} {pid:?}");
        };
        check(Some("2000000"), Some("7"), Some(2000));
        check(Some("2000000"), None, Some(2000));
        check(Some("2000000"), Some("8"), None);
        check(Some("0"), Some("7"), None);
        check(Some("soon"), None, None);
        check(None, Some("7"), None);
    }
}
