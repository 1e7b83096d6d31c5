//! The body of a request, read whole into memory or a file before the request waits for a worker. It answers nobody.

use std::sync::Arc;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;

use crate::edge::Edge;
use crate::failure::Failure;
use crate::http::body_memory::BodyMemory;
use crate::http::request::{Request, RequestBody};
use crate::http::transaction::Transaction;
use crate::messages::Admission;
use crate::spool::Spool;

/// Reads the whole body, so that a slow client never holds Ruby. A client that waits for 100
/// (Continue) gets it from hyper with the first read, and only if the request would be taken.
pub(super) async fn admit_and_read(
    transaction: &Transaction,
    mut incoming: impl Body<Data = Bytes> + Unpin,
) -> Result<RequestBody, Failure> {
    let Transaction {
        edge,
        client,
        request,
        ..
    } = transaction;
    if client.expects_continue() {
        admit(edge, request).await?;
    }
    if incoming.is_end_stream() {
        return Ok(RequestBody::Inline(Bytes::new()));
    }
    let mut memory = BodyMemory::default();
    let mut file: Option<Spool> = None;
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|_| match client.refusal() {
            Some(refusal) => Failure::Refused(refusal),
            None => Failure::BodyCut,
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if file.is_none() && memory.append(&data, &edge.responses.long_bodies) {
            continue;
        }
        if file.is_none() {
            let directory = Arc::clone(&edge.responses.spools.directory);
            let space = edge.responses.space_of(request.application());
            let mut spool = Spool::new(directory, crate::spool::BATCH_BYTES).within(space);
            spool.push(&memory.take());
            file = Some(spool);
        }
        if let Some(spool) = &mut file {
            client.set_storing(true);
            let stored = spool.append(&data).await;
            client.set_storing(false);
            stored.map_err(|error| edge.not_stored(&error))?;
        }
    }
    match file {
        None => Ok(RequestBody::Inline(memory.freeze())),
        Some(mut spool) => {
            let flushed = spool.flush().await;
            flushed.map_err(|error| edge.not_stored(&error))?;
            Ok(RequestBody::File(spool))
        }
    }
}

/// Asks whether the request would be taken.
async fn admit(edge: &Edge, request: &Request) -> Result<(), Failure> {
    match edge
        .dispatcher
        .admits(request.application(), request.path())
    {
        Admission::Decided(decided) => decided,
        Admission::Asked(asked) => asked.await.unwrap_or(Err(Failure::Stopping)),
    }
}
