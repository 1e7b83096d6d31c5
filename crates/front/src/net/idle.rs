//! Connections on which nothing is under way, in the order in which they are given up where a newcomer finds no place.
//! It accepts nothing, and decides nothing about when there is a place.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use crate::failure::Outcome;
use crate::http::h1::connection::Connection;

/// How many are looked at for one newcomer: something may have come on each that its task has not seen.
const LOOKED_AT: usize = 64;

/// Of those that were answered the one that has been idle longest, then those that have never sent anything: whether it
/// is of the latter, since when it is idle, and which it is.
type Key = (bool, u64, usize);

/// Connections that are idle without buffers.
#[derive(Default)]
pub struct IdleConnections(RefCell<BTreeMap<Key, Weak<Connection>>>);

impl IdleConnections {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Counts this one among them until what it returns is dropped.
    pub fn add(&self, connection: &Rc<Connection>) -> Idle<'_> {
        let (answered, since) = connection.idle_since();
        let key = (!answered, since, Rc::as_ptr(connection).addr());
        let weak = Rc::downgrade(connection);
        self.0.borrow_mut().insert(key, weak);
        Idle { all: self, key }
    }

    /// Closes the first one in the order on which nothing has come, other than `newcomer`. False where there is none.
    pub fn close_first(&self, newcomer: Option<&Rc<Connection>>) -> bool {
        let mut all = self.0.borrow_mut();
        let found = all.iter().take(LOOKED_AT).find_map(|(key, connection)| {
            let connection = connection.upgrade()?;
            let other = newcomer.is_none_or(|newcomer| !Rc::ptr_eq(newcomer, &connection));
            (other && !connection.has_news()).then_some((*key, connection))
        });
        let Some((key, connection)) = found else {
            return false;
        };
        // Not found a second time before its task has run.
        all.remove(&key);
        drop(all);
        connection.kill(Outcome::Timeout);
        true
    }
}

/// A connection's place among the idle ones.
pub struct Idle<'a> {
    all: &'a IdleConnections,
    key: Key,
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.all.0.borrow_mut().remove(&self.key);
    }
}
