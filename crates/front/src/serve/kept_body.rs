//! A body that stays in memory for later clients, a stored response's or a small public file's: it is compressed once for each
//! coding, and kept in it too. It compresses nothing itself.

use std::rc::Rc;
use std::sync::Arc;

use ::cache::Entry;
use bytes::{Bytes, BytesMut};

use super::cached::key::key;
use super::public_folder::file::KnownFile;
use super::public_folder::served::Served;
use crate::http::transaction::Transaction;

/// What keeps a body.
#[derive(Clone)]
pub enum KeptBody {
    /// A stored response.
    Stored(Arc<Entry>),
    /// A file of this folder, whose content is in memory.
    File(Rc<Served>, Rc<KnownFile>),
}

impl KeptBody {
    /// The body in a coding, as far as that was kept; empty where it would be no shorter.
    pub fn encoded(&self, coding: &str) -> Option<Bytes> {
        match self {
            Self::Stored(entry) => entry.encoded(coding).cloned(),
            Self::File(_, file) => file.encoded(coding),
        }
    }

    /// Keeps what became of it in a coding; none where it would be no shorter. Without effect where the body was replaced
    /// meanwhile, or where there is no room.
    pub fn keep(&self, transaction: &Transaction, coding: &'static str, encoded: Option<Bytes>) {
        let (request, encoded) = (&transaction.request, encoded.unwrap_or_default());
        match self {
            Self::Stored(entry) => {
                let cache = &transaction.application.cache;
                cache.keep_encoded(&key(request), entry, coding, encoded);
            }
            Self::File(served, file) => {
                served.keep_encoded(request.path(), file, coding, encoded);
            }
        }
    }

    /// Its length in bytes without a coding.
    fn length(&self) -> usize {
        match self {
            Self::Stored(entry) => entry.body.len(),
            Self::File(_, file) => file.length(0) as usize,
        }
    }
}

/// A copy of a body that is compressed on its way.
pub struct EncodedCopy {
    of: KeptBody,
    coding: &'static str,
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl EncodedCopy {
    /// Returns an empty copy of this body.
    pub fn new(of: KeptBody, coding: &'static str) -> Self {
        Self {
            of,
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
        let shorter = self.bytes < self.of.length();
        let encoded = shorter.then(|| {
            let mut whole = BytesMut::with_capacity(self.bytes);
            let pieces = self.pieces.iter();
            pieces.for_each(|piece| whole.extend_from_slice(piece));
            whole.freeze()
        });
        self.of.keep(transaction, self.coding, encoded);
    }
}
