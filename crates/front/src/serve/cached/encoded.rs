//! The body of a stored response in the coding of its clients: it is compressed once, and kept with the response. It compresses
//! nothing itself.

use std::sync::Arc;

use ::cache::Entry;
use bytes::{Bytes, BytesMut};

use super::key::key;
use crate::http::transaction::Transaction;

/// Keeps what became of a stored response's body in a coding; none where it would be no shorter.
pub fn keep(
    transaction: &Transaction,
    entry: &Entry,
    coding: &'static str,
    encoded: Option<Bytes>,
) {
    let (cache, key) = (&transaction.application.cache, key(&transaction.request));
    cache.keep_encoded(&key, entry, coding, encoded.unwrap_or_default());
}

/// A copy of a body that is compressed on its way.
pub struct EncodedCopy {
    entry: Arc<Entry>,
    coding: &'static str,
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl EncodedCopy {
    /// Returns an empty copy of the body of this response.
    pub fn new(entry: Arc<Entry>, coding: &'static str) -> Self {
        Self {
            entry,
            coding,
            pieces: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &Bytes) {
        self.bytes += piece.len();
        self.pieces.push(piece.clone());
    }

    /// Keeps it: the body is whole.
    pub fn keep(self, transaction: &Transaction) {
        let shorter = self.bytes < self.entry.body.len();
        let encoded = shorter.then(|| {
            let mut whole = BytesMut::with_capacity(self.bytes);
            let pieces = self.pieces.iter();
            pieces.for_each(|piece| whole.extend_from_slice(piece));
            whole.freeze()
        });
        keep(transaction, &self.entry, self.coding, encoded);
    }
}
