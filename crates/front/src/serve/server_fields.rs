//! Fields of a response that are for the server nearest to the application, not for the client: which file it names, whether
//! the application waits for the client, how long a cache may keep it. nginx gave them their names. It reads no request: what
//! a client says in such a field means nothing.

use http::HeaderMap;
use http::header::HeaderName;

use crate::failure::Failure;
use crate::http::request::Peer;
use crate::http::response_head::ResponseHead;
use crate::http::transaction::Transaction;
use crate::serve::files::named;

/// `no`: the application waits for the client; [`ResponseHead::unbuffered`].
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// How long a cache may keep the response; the crate `cache` reads it.
const X_ACCEL_EXPIRES: HeaderName = HeaderName::from_static("x-accel-expires");

/// Looks at these fields of a response. Those that name a file are taken out.
///
/// # Errors
/// One names a file wrongly. The log has the reason.
pub fn take(transaction: &Transaction, head: &mut ResponseHead) -> Result<(), Failure> {
    if !head.has_server_fields {
        return Ok(());
    }
    let settings = transaction.application.settings.get();
    let named = named::take_field(&settings, &mut head.headers).map_err(|reason| {
        transaction.log_invalid_response(reason);
        Failure::BadResponse(reason)
    })?;
    if named.is_some() {
        // It was that of the body, which is empty (Rack::Sendfile), and is out of the fields now.
        head.declared = None;
    }
    head.named_file = named.map(Box::new);
    Ok(())
}

/// Takes the others out of what a client gets. A trusted proxy keeps them: it may be the nginx that they are for.
pub fn hide(peer: &Peer, headers: &mut HeaderMap) {
    if !peer.trusted {
        remove(headers);
    }
}

/// Takes them out of a stored response, whose time has begun for all that get it.
pub fn remove(headers: &mut HeaderMap) {
    headers.remove(X_ACCEL_BUFFERING);
    headers.remove(X_ACCEL_EXPIRES);
}
