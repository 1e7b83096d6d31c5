//! Tells a StatsD server how this server and its applications are (setting `statsd`). It never waits: what the socket does not
//! take is dropped.

mod figures;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::Settings;
use front::log::{AccessLog, Level};
use metrics::{ApplicationTotals, Lines, Tags};
use tokio::task::spawn_local;
use tokio::time::{MissedTickBehavior, interval};

use crate::control::reporter::Reporter;

/// Tells one StatsD server.
pub(crate) struct Statsd {
    reporter: Rc<Reporter>,
    log: Rc<AccessLog>,
    receiver: Receiver,
    tags: Tags,
    /// What each application had counted the last time.
    last: RefCell<BTreeMap<String, ApplicationTotals>>,
    /// Whether the last time nothing could be sent, which is logged once.
    is_unreachable: Cell<bool>,
}

/// Who receives.
enum Receiver {
    Udp(UdpSocket, SocketAddr),
    Unix(UnixDatagram, PathBuf),
}

impl Statsd {
    /// Tells the server that the settings name from now on, if they name one.
    ///
    /// # Errors
    /// The setting is no address, or there is no descriptor.
    pub(crate) fn begin(
        settings: &Settings,
        reporter: &Rc<Reporter>,
        log: &Rc<AccessLog>,
    ) -> Result<Option<Rc<Self>>> {
        let Some(receiver) = &settings.statsd else {
            return Ok(None);
        };
        let names = reporter.hosted.iter().filter_map(|one| one.name());
        if let (false, Some([one, other])) = (settings.statsd_tags, same_in_names(names)) {
            bail!(
                "statsd: the applications {one} and {other} would be one to it, because statsd_tags is false and the names of \
                 metrics hold no dot or underscore of theirs; rename one of them"
            );
        }
        let own = Rc::new(Self {
            reporter: Rc::clone(reporter),
            log: Rc::clone(log),
            receiver: Receiver::of(receiver)?,
            tags: match settings.statsd_tags {
                true => Tags::DogStatsd,
                false => Tags::InName,
            },
            last: RefCell::default(),
            is_unreachable: Cell::new(false),
        });
        spawn_local(Rc::clone(&own).run(settings.statsd_interval));
        Ok(Some(own))
    }

    async fn run(self: Rc<Self>, every: Duration) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is at once.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.tell();
        }
    }

    /// Tells how things are, and what has been counted since the last time.
    pub(crate) fn tell(&self) {
        let report = self.reporter.report_without_memory();
        let totals = self.reporter.own_totals().applications;
        let mut lines = Lines::new(self.tags);
        for (name, now) in &totals {
            let mut since = now.clone();
            if let Some(last) = self.last.borrow().get(name) {
                since.since(last);
            }
            figures::counts(&mut lines, name, &since);
        }
        // A server that boots or was replaced stands beside one whose gauges count.
        if matches!(&*report.state, "serving" | "stopping") {
            figures::gauges(&mut lines, &report, &totals);
        }
        match self.send(&lines.finish()) {
            Ok(()) => {
                self.is_unreachable.set(false);
                self.last.replace(totals);
            }
            // What was counted is told when it is there again.
            Err(error) => self.complain(&error),
        }
    }

    /// Sends the datagrams, and drops the rest where the receiver has no room for more.
    ///
    /// # Errors
    /// Not even the first one could be sent.
    fn send(&self, datagrams: &[Vec<u8>]) -> io::Result<()> {
        for (index, datagram) in datagrams.iter().enumerate() {
            match self.receiver.send(datagram) {
                Err(error) if index == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn complain(&self, error: &io::Error) {
        if !self.is_unreachable.replace(true) {
            let text =
                format!("cannot send metrics to StatsD (setting statsd): {error}; trying again");
            self.log.event(Level::Warn, &text, &[]);
        }
    }
}

/// Two applications that [`Tags::InName`] does not distinguish, if there are any.
fn same_in_names(names: impl Iterator<Item = String>) -> Option<[String; 2]> {
    let mut seen = BTreeMap::new();
    for name in names {
        if let Some(other) = seen.insert(metrics::name_part(&name), name.clone()) {
            return Some([other, name]);
        }
    }
    None
}

impl Receiver {
    fn of(setting: &str) -> Result<Self> {
        if setting.starts_with('/') {
            let socket = UnixDatagram::unbound().context("statsd: cannot open a socket")?;
            socket.set_nonblocking(true)?;
            return Ok(Self::Unix(socket, setting.into()));
        }
        let Ok(address) = setting.parse::<SocketAddr>() else {
            bail!(
                "statsd: \"{setting}\" is neither an IP address with a port, such as 127.0.0.1:8125, nor an absolute path"
            );
        };
        // Not connected: a receiver that is not there is no error then.
        let socket = match address {
            SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = socket.context("statsd: cannot open a socket")?;
        socket.set_nonblocking(true)?;
        Ok(Self::Udp(socket, address))
    }

    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp(socket, address) => socket.send_to(datagram, address),
            Self::Unix(socket, path) => socket.send_to(datagram, path),
        }
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_that_reads_nothing_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("statsd.sock");
        let peer = UnixDatagram::bind(&path).expect("a socket");
        let receiver = Receiver::of(&path.display().to_string()).expect("a receiver");
        let refused = (0..100_000).find_map(|_| receiver.send(b"a:1|c").err());
        assert_eq!(
            refused.expect("a full queue").kind(),
            io::ErrorKind::WouldBlock
        );
        drop(peer);
        assert!(receiver.send(b"a:1|c").is_err());
    }

    #[test]
    fn applications_with_the_same_part_of_a_name_are_found() {
        let same = |names: [&str; 3]| same_in_names(names.into_iter().map(str::to_owned));
        assert_eq!(same(["shop", "shop-2", "blog"]), None);
        let expected = ["shop.2", "shop_2"].map(str::to_owned);
        assert_eq!(same(["shop.2", "blog", "shop_2"]), Some(expected));
    }

    #[test]
    fn a_receiver_of_udp_that_is_not_there_is_no_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = socket.local_addr().expect("an address").to_string();
        drop(socket);
        let receiver = Receiver::of(&address).expect("a receiver");
        for _ in 0..3 {
            receiver.send(b"a:1|c").expect("sent to nobody");
        }
        assert!(Receiver::of("localhost:8125").is_err());
    }
}
