//! The step that answers with files of the application's public folder, as Rails' `ActionDispatch::Static` does. It asks no
//! file system itself, and leaves to the application what the folder does not have.

use std::io;
use std::rc::Rc;

use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use tokio::time::timeout;

use crate::http::forwarded;
use crate::http::response_body::ResponseBody;
use crate::http::transaction::Transaction;
use crate::serve::file_body::{FileBody, read_parts};
use crate::serve::kept_body::KeptBody;
use crate::serve::public_folder::file::{self, Answer, Content, KnownFile};
use crate::serve::public_folder::served::Served;
use crate::serve::public_folder::store::Meaning;
use crate::serve::ranges;

/// How often a path is looked up for a request: a second time where its file has become another one before it was opened.
const MAX_LOOKS: usize = 2;
/// From so many bytes on, copying a file costs more than the system calls that it saves.
const SENDFILE_FROM: usize = 48 * 1024;

/// Answers from the public folder, which serves this; none where the application is to answer.
pub async fn answer(
    transaction: &Transaction,
    served: Rc<Served>,
) -> Option<Response<ResponseBody>> {
    let request = &transaction.request;
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return None;
    }
    if served.https_only() && forwarded::scheme(&request.headers, &request.peer) != "https" {
        return None;
    }
    for _ in 0..MAX_LOOKS {
        let file = look_up(transaction, &served).await?;
        let answer = file.answer(&request.method, &request.headers, served.headers());
        if !matches!(answer.content, Content::File { .. } | Content::Parts { .. }) {
            return Some(from_memory(transaction, served, file, answer));
        }
        match Box::pin(from_disk(transaction, &file, answer)).await {
            Ok(response) => return Some(response),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return None,
            Err(_) => served.forget(request.path()),
        }
    }
    None
}

/// The file that the path of the request means, if it means one.
async fn look_up(transaction: &Transaction, served: &Rc<Served>) -> Option<Rc<KnownFile>> {
    let (path, clock) = (transaction.request.path(), &transaction.edge.clock);
    let meaning = match served.known(path, clock.now_ms()) {
        Some(meaning) => meaning,
        None => {
            let folder = &transaction.application.public_folder;
            Box::pin(folder.look_up(served, path, clock)).await
        }
    };
    match meaning {
        Meaning::File(file) => Some(file),
        Meaning::Nothing => None,
    }
}

/// The response whose content is in memory. A whole file may be kept as it is sent.
fn from_memory(
    transaction: &Transaction,
    served: Rc<Served>,
    file: Rc<KnownFile>,
    answer: Answer,
) -> Response<ResponseBody> {
    let is_whole = answer.status == StatusCode::OK;
    let mut response = respond_from_memory(transaction, answer);
    if is_whole {
        let kept = KeptBody::File(served, file);
        response.body_mut().set_kept(kept);
    }
    response
}

/// Has a large file that is in memory sent by the kernel, without a copy, where nothing changes it on its way and the file is
/// open.
pub fn send_from_file(transaction: &Transaction, response: &mut Response<ResponseBody>) {
    let body = response.body_mut();
    let (Some(KeptBody::File(_, file)), Some(whole)) = (body.kept(), body.whole()) else {
        return;
    };
    if whole.len() < SENDFILE_FROM {
        return;
    }
    let Some(socket) = transaction.client.file_socket() else {
        return;
    };
    let application = &transaction.application;
    let is_sent = |bytes: &Bytes| bytes.as_ptr() == whole.as_ptr() && bytes.len() == whole.len();
    let mut forms = file.found.forms.iter();
    let form = forms.position(|form| form.bytes.as_ref().is_some_and(is_sent));
    let folder = &application.public_folder;
    let open = form.and_then(|form| folder.open_beside_memory(&file.found, form));
    if let Some(open) = open {
        let file = FileBody::beside_memory(open, whole.clone(), Rc::clone(folder.threads()));
        body.send_from(file.past_hyper(Some(socket)));
    }
}

fn respond_from_memory(transaction: &Transaction, answer: Answer) -> Response<ResponseBody> {
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

/// The response whose content must be read.
///
/// # Errors
/// The file has become another one, or is not read in time ([`io::ErrorKind::TimedOut`]).
async fn from_disk(
    transaction: &Transaction,
    file: &KnownFile,
    mut answer: Answer,
) -> io::Result<Response<ResponseBody>> {
    let settings = transaction.application.settings.get();
    let limit = settings.file_timeout;
    let folder = &transaction.application.public_folder;
    let threads = folder.threads();
    match answer.content {
        Content::File { form, start, end } => {
            let opened = folder.open(&file.found, form).await?;
            let body = FileBody::of(opened, start..end, limit, Rc::clone(threads));
            let body = ResponseBody::of_file(transaction, body, answer.status);
            return Ok(respond(answer.status, answer.headers, body));
        }
        Content::Parts { form, parts } => {
            let opened = folder.open(&file.found, form).await?;
            let read = threads.run(move || read_parts(&opened, parts));
            let parts = timeout(limit, read).await???;
            let bytes = put_together(&mut answer.headers, file, form, &parts);
            answer.content = Content::Memory(bytes);
        }
        Content::Memory(_) | Content::Empty => {}
    }
    Ok(respond_from_memory(transaction, answer))
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
