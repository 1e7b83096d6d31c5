//! The clients of one operators' address: how many there may be, of one network and of all together, and which of them makes
//! room for the next. It reads and writes no socket.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

/// The most clients of an address at once.
const MAX_ADMIN_CLIENTS: usize = 32;
/// The most clients of an address from one network at once.
const MAX_ADMIN_CLIENTS_PER_NETWORK: usize = 16;
/// How long a client may take to send its first head.
const ADMIN_FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// The clients of an address, those first that came first.
#[derive(Debug, Default)]
pub(crate) struct Clients(RefCell<Vec<Rc<Client>>>);

/// A client that is connected.
#[derive(Debug)]
struct Client {
    network: IpAddr,
    /// Whether a request has come.
    has_asked: Cell<bool>,
    /// Whether a token was accepted.
    is_trusted: Cell<bool>,
    /// Another client has got its place.
    displaced: Notify,
}

/// The place of a client. Dropping it makes room for another one.
#[derive(Debug)]
pub(crate) struct Place {
    clients: Rc<Clients>,
    client: Rc<Client>,
}

impl Clients {
    /// Returns a place for a client from this address. Where there is none, the oldest client makes room that has shown no
    /// token: silent clients keep nobody out. `None` if all have shown one.
    pub(crate) fn admit(self: &Rc<Self>, address: IpAddr) -> Option<Place> {
        let network = network(address);
        let mut all = self.0.borrow_mut();
        let of_network = |one: &Rc<Client>| one.network == network;
        let too_many = match all.iter().filter(|one| of_network(one)).count() {
            MAX_ADMIN_CLIENTS_PER_NETWORK.. => Some(true),
            _ => (all.len() >= MAX_ADMIN_CLIENTS).then_some(false),
        };
        if let Some(of_network_alone) = too_many {
            let oldest = all
                .iter()
                .position(|one| !one.is_trusted.get() && (!of_network_alone || of_network(one)));
            all.remove(oldest?).displaced.notify_one();
        }
        let client = Rc::new(Client {
            network,
            has_asked: Cell::new(false),
            is_trusted: Cell::new(false),
            displaced: Notify::new(),
        });
        all.push(Rc::clone(&client));
        let clients = Rc::clone(self);
        Some(Place { clients, client })
    }
}

impl Place {
    /// Notes that a request has come, and whether with a token.
    pub(crate) fn asked(&self, with_token: bool) {
        self.client.has_asked.set(true);
        if with_token {
            self.client.is_trusted.set(true);
        }
    }

    /// Waits until the client has to go: another one has its place, or its first request is late.
    pub(crate) async fn until_lost(&self) {
        tokio::select! {
            () = self.client.displaced.notified() => return,
            () = tokio::time::sleep(ADMIN_FIRST_HEAD_TIMEOUT) => {}
        }
        if self.client.has_asked.get() {
            self.client.displaced.notified().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.clients.0.borrow_mut();
        all.retain(|one| !Rc::ptr_eq(one, &self.client));
    }
}

/// The network of an address: of IPv6 the first 64 bits, for one client has all addresses of such a network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(clients: &Rc<Clients>, address: &str) -> Option<Place> {
        clients.admit(address.parse().expect("an address"))
    }

    fn is_there(place: &Place) -> bool {
        let all = place.clients.0.borrow();
        all.iter().any(|one| Rc::ptr_eq(one, &place.client))
    }

    #[test]
    fn the_oldest_client_without_a_token_makes_room() {
        let clients = Rc::default();
        let address = |number: usize| format!("192.0.2.{number}");
        let places: Vec<_> = (0..MAX_ADMIN_CLIENTS)
            .map(|number| admit(&clients, &address(number)).expect("a place"))
            .collect();
        places[0].asked(true);
        places[1].asked(false);
        let newcomer = admit(&clients, "198.51.100.1").expect("a place");
        let there: Vec<_> = places.iter().map(is_there).collect();
        assert_eq!((there[0], there[1], there[2]), (true, false, true));
        assert!(is_there(&newcomer));
        for place in &places {
            place.asked(true);
        }
        newcomer.asked(true);
        assert!(admit(&clients, "198.51.100.2").is_none());
        drop(newcomer);
        assert!(admit(&clients, "198.51.100.2").is_some());
    }

    #[test]
    fn a_network_displaces_its_own_clients_first() {
        let clients = Rc::default();
        let other = admit(&clients, "192.0.2.1").expect("a place");
        let address = |number: usize| format!("2001:db8::{number}");
        let own: Vec<_> = (0..MAX_ADMIN_CLIENTS_PER_NETWORK)
            .map(|number| admit(&clients, &address(number)).expect("a place"))
            .collect();
        let more = admit(&clients, "2001:db8:0:0:ffff::1").expect("a place");
        assert!(is_there(&other) && is_there(&more) && !is_there(&own[0]));
        own.iter().for_each(|place| place.asked(true));
        more.asked(true);
        assert!(admit(&clients, "2001:db8::ffff").is_none());
        assert!(admit(&clients, "2001:db8:0:1::1").is_some());
    }
}
