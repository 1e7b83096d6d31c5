//! Connections that applications take over: the announcement comes through the exchange, the socket by a control
//! message, in either order. This brings the two together, and keeps nothing of what will never be complete.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use super::pending::PendingRequest;
use crate::failure::Failure;
use crate::messages::SubmissionId;

/// A slot and its publication.
type Key = (u16, u32);

/// What waits for its other half. Almost always empty.
#[derive(Default)]
pub(super) struct Hijacks {
    requests: Vec<(Key, Rc<PendingRequest>)>,
    sockets: Vec<(Key, OwnedFd)>,
}

impl Hijacks {
    /// The application has taken the connection of `request`.
    pub(super) fn announced(&mut self, slot: u16, sequence: u32, request: &Rc<PendingRequest>) {
        let key = (slot, sequence);
        match take(&mut self.sockets, key) {
            Some(socket) => request.reply.hijacked(socket),
            None => self.requests.push((key, Rc::clone(request))),
        }
    }

    /// The request of this publication that waits for its socket.
    pub(super) fn waiting(&self, slot: u16, sequence: u32) -> Option<&Rc<PendingRequest>> {
        let mut waiting = self.requests.iter();
        waiting
            .find(|(key, _)| *key == (slot, sequence))
            .map(|(_, request)| request)
    }

    /// Whether a request waits for its socket.
    pub(super) fn any_waiting(&self) -> bool {
        !self.requests.is_empty()
    }

    /// The socket is here. `expected` says whether its announcement can still come; where it cannot, the
    /// socket is closed, which the application sees as the client's end.
    pub(super) fn arrived(&mut self, slot: u16, sequence: u32, socket: OwnedFd, expected: bool) {
        let key = (slot, sequence);
        if let Some(request) = take(&mut self.requests, key) {
            request.reply.hijacked(socket);
            request.reply.wake();
        } else if expected {
            // A second one for the same publication takes the place of the first.
            drop(take(&mut self.sockets, key));
            self.sockets.push((key, socket));
        }
    }

    /// A publication of this slot is over: no announcement comes any more.
    pub(super) fn slot_ended(&mut self, slot: u16) {
        self.sockets.retain(|((of, _), _)| *of != slot);
    }

    /// No client waits for the connection any more.
    pub(super) fn forget(&mut self, request: SubmissionId) {
        self.requests.retain(|(_, other)| other.id != request);
    }

    /// What was announced stays incomplete where its deadline has passed at `now`, nanoseconds of the monotonic
    /// clock: a worker that lives may still never send the socket.
    pub(super) fn expire(&mut self, now: u64) {
        let late = |(_, request): &mut (Key, Rc<PendingRequest>)| request.is_late(now);
        for (_, request) in self.requests.extract_if(.., late) {
            request.lose_hijack(Failure::ExpiredInWorker);
        }
    }

    /// What a dead worker announced stays incomplete: all that it sent was delivered before the supervisor reported its death.
    pub(super) fn worker_died(&mut self, worker: u16) {
        let dead =
            |request: &PendingRequest| request.worker.get().is_some_and(|by| by.worker == worker);
        for (_, request) in self.requests.extract_if(.., |(_, request)| dead(request)) {
            request.lose_hijack(Failure::WorkerDied);
        }
    }

    /// Everything fails.
    pub(super) fn fail_all(&mut self, failure: Failure) {
        for (_, request) in self.requests.drain(..) {
            request.lose_hijack(failure);
        }
    }
}

fn take<T>(from: &mut Vec<(Key, T)>, key: Key) -> Option<T> {
    let at = from.iter().position(|(known, _)| *known == key)?;
    Some(from.swap_remove(at).1)
}
