//! The step that answers with files of the application's public folder, as Rails' `ActionDispatch::Static` does. It asks no
//! file system itself, and leaves to the application what the folder does not have.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use tokio::time::timeout;

use crate::http::forwarded;
use crate::http::response_body::ResponseBody;
use crate::http::transaction::Transaction;
use crate::serve::file_body::{FileBody, read_parts};
use crate::serve::kept_body::KeptBody;
use crate::serve::public_folder::LOOKUP_TIMEOUT;
use crate::serve::public_folder::file::{self, Answer, Content, KnownFile};
use crate::serve::public_folder::served::Served;
use crate::serve::public_folder::store::Meaning;
use crate::serve::ranges;

/// Answers from the public folder, which serves this; none where the application is to answer.
pub async fn answer(
    transaction: &Transaction,
    served: Rc<Served>,
) -> Option<Response<ResponseBody>> {
    let folder = &transaction.application.public_folder;
    let request = &transaction.request;
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return None;
    }
    if served.https_only() && forwarded::scheme(&request.headers, &request.peer) != "https" {
        return None;
    }
    let clock = &transaction.edge.clock;
    let meaning = match served.known(request.path(), clock.now_ms()) {
        Some(meaning) => meaning,
        None => Box::pin(folder.look_up(&served, request.path(), clock)).await,
    };
    let Meaning::File(file) = meaning else {
        return None;
    };
    let answer = file.answer(&request.method, &request.headers, served.headers());
    match &answer.content {
        Content::File { .. } | Content::Parts { .. } => {
            Box::pin(from_disk(transaction, &served, &file, answer)).await
        }
        _ => {
            let whole = answer.status == StatusCode::OK;
            let mut response = from_memory(transaction, answer);
            if whole {
                let kept = KeptBody::File(served, file);
                response.body_mut().set_kept(kept);
            }
            Some(response)
        }
    }
}

/// The response whose content is in memory.
fn from_memory(transaction: &Transaction, answer: Answer) -> Response<ResponseBody> {
    let bytes = match answer.content {
        Content::Memory(bytes) => Some(bytes),
        _ => None,
    };
    let body = ResponseBody::own(transaction, bytes, answer.status, None);
    respond(answer.status, answer.headers, body)
}

fn respond(
    status: StatusCode,
    headers: http::HeaderMap,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The response whose content must be read; none where the file has become another one.
async fn from_disk(
    transaction: &Transaction,
    served: &Served,
    file: &Rc<KnownFile>,
    mut answer: Answer,
) -> Option<Response<ResponseBody>> {
    let settings = transaction.application.settings.get();
    let limit = settings.file_timeout;
    let (Content::File { form, .. } | Content::Parts { form, .. }) = answer.content else {
        return Some(from_memory(transaction, answer));
    };
    let found = Arc::clone(&file.found);
    let threads = transaction.application.public_folder.threads();
    let opened = threads.run(move || found.open(&found.forms[form]));
    let Some(opened) = timeout(LOOKUP_TIMEOUT, opened).await.ok()?.ok()?.ok() else {
        served.forget(transaction.request.path());
        return None;
    };
    let body = match answer.content {
        Content::File { start, end, .. } => {
            FileBody::of(opened, start..end, limit, Rc::clone(threads))
        }
        Content::Parts { parts, .. } => {
            let read = threads.run(move || read_parts(&opened, parts));
            let parts = timeout(limit, read).await.ok()?.ok()?.ok()?;
            let bytes = put_together(&mut answer.headers, file, form, &parts);
            answer.content = Content::Memory(bytes);
            return Some(from_memory(transaction, answer));
        }
        Content::Memory(_) | Content::Empty => return None,
    };
    let body = ResponseBody::of_file(transaction, body, answer.status);
    Some(respond(answer.status, answer.headers, body))
}

/// Puts several parts of a file into one body, and says so in the fields.
fn put_together(
    headers: &mut http::HeaderMap,
    file: &KnownFile,
    form: usize,
    parts: &[(std::ops::Range<u64>, Bytes)],
) -> Bytes {
    let boundary = ranges::boundary();
    let value = format!("multipart/byteranges; boundary={boundary}");
    file::insert(headers, header::CONTENT_TYPE, &value);
    ranges::multipart(parts, file.length(form), file.media_type(), &boundary)
}
