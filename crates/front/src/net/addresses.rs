//! How many connections each address has. It accepts and closes nothing.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::http::request::Peer;

/// Of an IPv6 address the part that names a network: a client that has one has all addresses in it.
const NETWORK: u128 = u128::MAX << 64;

/// Counts connections by their peer's address, those of all edges.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Mutex<HashMap<IpAddr, usize>>);

/// One connection that is counted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    all: Arc<Addresses>,
    address: IpAddr,
}

impl Addresses {
    /// Counts a connection, unless its address has `limit` of them. Peers whose
    /// X-Forwarded-* are believed stand for many clients, and are not counted; no one else is without a limit.
    ///
    /// # Errors
    /// [`TooMany`].
    pub(crate) fn count(
        self: &Arc<Self>,
        peer: &Peer,
        limit: Option<usize>,
    ) -> Result<Option<Counted>, TooMany> {
        let (Some(limit), false) = (limit, peer.trusted) else {
            return Ok(None);
        };
        let Ok(address) = peer.address.parse().map(network) else {
            return Ok(None);
        };
        let mut counts = self.counts();
        let count = counts.entry(address).or_default();
        if *count >= limit {
            return Err(TooMany);
        }
        *count += 1;
        let all = Arc::clone(self);
        Ok(Some(Counted { all, address }))
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address has as many connections as it may.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("max_connections_per_address is reached")]
pub(crate) struct TooMany;

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// What stands for a client in counts: its address, and of IPv6 its network.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & NETWORK).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str, trusted: bool) -> Peer {
        Peer {
            address: address.to_owned(),
            port: 1,
            local_host: "localhost".to_owned(),
            local_port: 80,
            trusted,
            tls: None,
            proxied: false,
        }
    }

    #[test]
    fn an_address_has_so_many_connections_and_a_network_of_ipv6_is_one() {
        let all = Arc::new(Addresses::default());
        let count = |address| all.count(&peer(address, false), Some(2));
        let _one = count("192.0.2.1").expect("room");
        let two = count("192.0.2.1").expect("room");
        assert!(count("192.0.2.1").is_err());
        assert!(count("192.0.2.2").is_ok());
        drop(two);
        let _again = count("192.0.2.1").expect("room again");
        let _six = count("2001:db8::1").expect("room");
        let _other = count("2001:db8::2:1").expect("room");
        assert!(count("2001:db8::3").is_err());
        assert!(count("2001:db8:0:1::3").is_ok());
        // A proxy brings as many as it likes.
        let proxy = all.count(&peer("192.0.2.1", true), Some(1));
        assert!(proxy.is_ok_and(|counted| counted.is_none()));
        drop((_one, _again, _six, _other));
        assert!(all.counts().is_empty());
    }
}
