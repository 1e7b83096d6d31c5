//! Lists of addresses and networks: which peers may speak for others with X-Forwarded-*, which clients are let in. Holds
//! addresses only; reads no header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The forms of an item, in words that follow "expected a list of".
pub(crate) const ALLOWED: &str = "addresses and networks such as \"10.0.0.0/8\", \"192.0.2.7\" or \"fd00::/8\", and \"unix\"; or \"all\" or \"none\" alone";

/// A list of addresses, of networks, and of peers on UNIX sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressList {
    items: Vec<String>,
    networks: Vec<Network>,
    unix: bool,
}

/// Bits of an IPv6 address before those of a mapped IPv4 address.
const V4_PREFIX: u32 = 96;

/// A network, in IPv6 terms: an IPv4 one stands under `::ffff:0:0/96`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: u128,
    mask: u128,
}

/// One item of the list.
enum Item {
    All,
    None,
    Unix,
    Network(Network),
}

impl AddressList {
    /// Reads a list of items.
    ///
    /// # Errors
    /// What is wrong with the first wrong item, or that `all` or `none` does not stand alone.
    pub fn parse<S: AsRef<str>>(items: &[S]) -> Result<Self, String> {
        let mut list = Self {
            items: Vec::new(),
            networks: Vec::new(),
            unix: false,
        };
        for item in items {
            let text = item.as_ref();
            list.items.push(text.to_owned());
            match parse_item(text)? {
                Item::All | Item::None if items.len() > 1 => {
                    return Err(format!("{text:?} must stand alone in the list"));
                }
                Item::All => {
                    list.unix = true;
                    list.networks.push(Network {
                        address: 0,
                        mask: 0,
                    });
                }
                Item::None => {}
                Item::Unix => list.unix = true,
                Item::Network(network) => list.networks.push(network),
            }
        }
        Ok(list)
    }

    /// Whether this address is in the list. An IPv4 address mapped into IPv6, as sockets that
    /// listen on `[::]` report it, counts as the IPv4 address.
    pub fn contains(&self, peer: IpAddr) -> bool {
        let peer = bits(peer);
        self.networks
            .iter()
            .any(|network| peer & network.mask == network.address)
    }

    /// Whether peers on UNIX sockets are in the list.
    pub fn contains_unix(&self) -> bool {
        self.unix
    }

    /// Whether a client is in the list; a peer on a UNIX socket has no address.
    pub fn contains_client(&self, client: Option<IpAddr>) -> bool {
        client.map_or(self.unix, |address| self.contains(address))
    }

    /// Whether every IPv4 address is in the list by one item, such as `all`.
    pub fn contains_everyone(&self) -> bool {
        let v4 = bits(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let every = |network: &Network| {
            network.mask.leading_ones() <= V4_PREFIX && v4 & network.mask == network.address
        };
        self.networks.iter().any(every)
    }

    /// The list as it was written.
    pub(crate) fn items(&self) -> &[String] {
        &self.items
    }
}

/// Checks one item of the list.
///
/// # Errors
/// What is wrong with it and what is allowed.
pub(crate) fn check_item(text: &str) -> Result<(), String> {
    parse_item(text).map(drop)
}

fn parse_item(text: &str) -> Result<Item, String> {
    match text {
        "all" => return Ok(Item::All),
        "none" => return Ok(Item::None),
        "unix" => return Ok(Item::Unix),
        _ => {}
    }
    let wrong = || {
        format!("{text:?} is not an address, a network or \"unix\"; expected a list of {ALLOWED}")
    };
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let width: u32 = if address.is_ipv4() { 32 } else { 128 };
    let length: u32 = match length {
        None => width,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map_err(|_| wrong())?
        }
        Some(_) => return Err(wrong()),
    };
    if length > width {
        return Err(format!(
            "{text:?} has a prefix of {length} bits; expected 0 to {width}"
        ));
    }
    // A prefix of /0 of all 128 bits shifts everything out, which the plain shift would refuse.
    let mask = u128::MAX.checked_shl(width - length).unwrap_or(0);
    let network = Network {
        address: bits(address) & mask,
        mask,
    };
    if network.address != bits(address) {
        let start = Ipv6Addr::from_bits(network.address).to_canonical();
        return Err(format!(
            "{text:?} has address bits beyond its prefix; write \"{start}/{length}\""
        ));
    }
    Ok(Item::Network(network))
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_matched_with_networks() {
        let check = |items: &[&str], peer: &str, expect: bool| {
            let proxies = AddressList::parse(items).expect("good items");
            assert_eq!(
                proxies.contains(peer.parse().expect("an address")),
                expect,
                "{items:?} {peer}"
            );
        };
        check(&["127.0.0.0/8"], "127.255.255.255", true);
        check(&["127.0.0.0/8"], "128.0.0.0", false);
        check(&["127.0.0.0/8"], "126.255.255.255", false);
        check(&["127.0.0.0/8"], "::ffff:127.0.0.1", true);
        check(&["127.0.0.0/8"], "::1", false);
        check(&["::ffff:127.0.0.1"], "127.0.0.1", true);
        check(&["192.0.2.7"], "192.0.2.7", true);
        check(&["192.0.2.7"], "192.0.2.6", false);
        check(&["10.0.0.0/31"], "10.0.0.1", true);
        check(&["10.0.0.0/31"], "10.0.0.2", false);
        check(&["0.0.0.0/0"], "203.0.113.9", true);
        check(&["0.0.0.0/0"], "2001:db8::1", false);
        check(&["::/0"], "2001:db8::1", true);
        check(&["fd00::/8"], "fdff::1", true);
        check(&["fd00::/8"], "fe00::1", false);
        check(&["::1", "10.0.0.0/8"], "10.1.2.3", true);
        check(&["all"], "203.0.113.9", true);
        check(&["none"], "127.0.0.1", false);
        check(&["unix"], "127.0.0.1", false);
        check(&[], "127.0.0.1", false);
    }

    #[test]
    fn unix_peers_are_trusted_by_name_or_by_all() {
        let check = |items: &[&str], expect: bool| {
            assert_eq!(
                AddressList::parse(items)
                    .expect("good items")
                    .contains_unix(),
                expect,
                "{items:?}"
            );
        };
        check(&["unix"], true);
        check(&["all"], true);
        check(&["none"], false);
        check(&["0.0.0.0/0", "::/0"], false);
    }

    #[test]
    fn a_list_that_holds_all_ipv4_addresses_says_so() {
        for (items, expect) in [
            (&["all"][..], true),
            (&["0.0.0.0/0"], true),
            (&["::/0"], true),
            (&["fd00::/8"], false),
            (&["0.0.0.0/1"], false),
            (&["none"], false),
        ] {
            let list = AddressList::parse(items).expect("good items");
            assert_eq!(list.contains_everyone(), expect, "{items:?}");
        }
    }

    #[test]
    fn wrong_items_are_named() {
        let check = |items: &[&str], expect: &str| {
            let error = AddressList::parse(items).expect_err("a wrong item");
            assert!(error.contains(expect), "{items:?}: {error}");
        };
        check(&["10.0.0.1/8"], "write \"10.0.0.0/8\"");
        check(&["fd00::1/8"], "write \"fd00::/8\"");
        check(&["10.0.0.0/33"], "expected 0 to 32");
        check(&["fd00::/129"], "expected 0 to 128");
        check(&["10.0.0.0/+8"], "is not an address");
        check(&["10.0.0.0/"], "is not an address");
        check(&["localhost"], "is not an address");
        check(&[""], "is not an address");
        check(&["all", "unix"], "\"all\" must stand alone");
        check(&["::1", "none"], "\"none\" must stand alone");
    }
}
