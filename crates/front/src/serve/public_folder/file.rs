//! A known file as what is answered with it: fields, form, and the part of it that the client wants. It opens no file.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};

use super::coding::{self, Coding};
use super::lookup::{Form, Found};
use crate::serve::preconditions::{self, Validators, Verdict};
use crate::serve::ranges::{self, Wanted};

/// What is said of files whose name changes with their content.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// A file, and what is said of it.
pub struct KnownFile {
    /// The file.
    pub found: Arc<Found>,
    media_type: HeaderValue,
    /// Of each form, in their order.
    validators: Vec<Validators>,
    /// The file as it is, in codings in which it was sent; empty where that is no shorter.
    encoded: RefCell<Vec<(&'static str, Bytes)>>,
}

/// What is answered.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The fields.
    pub headers: HeaderMap,
    /// The content.
    pub content: Content,
}

/// The content of an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// None.
    Empty,
    /// This.
    Memory(Bytes),
    /// The bytes from `start` to `end` of a form, by its number.
    File {
        /// The number of the form.
        form: usize,
        /// The first byte.
        start: u64,
        /// The byte after the last one.
        end: u64,
    },
    /// These parts of a form, in one body.
    Parts {
        /// The number of the form.
        form: usize,
        /// The parts.
        parts: Vec<std::ops::Range<u64>>,
    },
}

impl KnownFile {
    /// Returns the file with what is said of it.
    pub fn new(found: Found) -> Self {
        let validators = found.forms.iter().map(validators).collect();
        Self {
            media_type: HeaderValue::from_static(found.candidate.media_type),
            validators,
            encoded: RefCell::default(),
            found: Arc::new(found),
        }
    }

    /// Bytes that it holds in memory.
    pub fn memory(&self) -> usize {
        let encoded = self.encoded.borrow();
        let encoded: usize = encoded.iter().map(|(_, bytes)| bytes.len()).sum();
        self.found.memory() + encoded + 256
    }

    /// The file as it is in a coding in which it was sent; empty where that is no shorter.
    pub fn encoded(&self, coding: &str) -> Option<Bytes> {
        let encoded = self.encoded.borrow();
        let mut found = encoded.iter().filter(|(name, _)| *name == coding);
        found.next().map(|(_, bytes)| bytes.clone())
    }

    /// Keeps it in a coding, for the store, which counts these bytes; false where it is kept already.
    pub(super) fn keep_encoded(&self, coding: &'static str, bytes: Bytes) -> bool {
        let is_new = self.encoded(coding).is_none();
        if is_new {
            self.encoded.borrow_mut().push((coding, bytes));
        }
        is_new
    }

    /// The length of a form, in bytes.
    pub fn length(&self, form: usize) -> u64 {
        self.found.forms[form].facts.size
    }

    /// Its media type.
    pub fn media_type(&self) -> &'static str {
        self.found.candidate.media_type
    }

    /// Answers GET or HEAD; `own` are the fields that the application wants on such answers.
    pub fn answer(
        &self,
        method: &Method,
        request: &HeaderMap,
        own: &[(HeaderName, HeaderValue)],
    ) -> Answer {
        let at = self.choose(request);
        let validators = &self.validators[at];
        let verdict = preconditions::verdict(request, validators);
        let mut headers = self.fields(at, own);
        if verdict != Verdict::Send {
            let status = match verdict {
                Verdict::NotModified => StatusCode::NOT_MODIFIED,
                _ => StatusCode::PRECONDITION_FAILED,
            };
            if status == StatusCode::PRECONDITION_FAILED {
                headers.remove(header::CACHE_CONTROL);
            }
            return Answer {
                status,
                headers,
                content: Content::Empty,
            };
        }
        headers.insert(header::CONTENT_TYPE, self.media_type.clone());
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        let form = &self.found.forms[at];
        if let Some(coding) = form.coding {
            let name = HeaderValue::from_static(coding.name());
            headers.insert(header::CONTENT_ENCODING, name);
        }
        let length = form.facts.size;
        let (status, content, length) = match ranges::wanted(method, request, validators, length) {
            Wanted::Unsatisfiable => {
                return unsatisfiable(headers, length);
            }
            Wanted::Parts(parts) if parts.len() == 1 => {
                let part = &parts[0];
                insert(
                    &mut headers,
                    header::CONTENT_RANGE,
                    &ranges::content_range(part, length),
                );
                let content = self.part(at, part.start, part.end);
                (
                    StatusCode::PARTIAL_CONTENT,
                    content,
                    Some(part.end - part.start),
                )
            }
            Wanted::Parts(parts) => {
                let content = Content::Parts { form: at, parts };
                (StatusCode::PARTIAL_CONTENT, content, None)
            }
            Wanted::All => (StatusCode::OK, self.part(at, 0, length), Some(length)),
        };
        if let Some(length) = length {
            headers.insert(header::CONTENT_LENGTH, length.into());
        }
        let content = match *method {
            Method::HEAD => Content::Empty,
            _ => content,
        };
        Answer {
            status,
            headers,
            content,
        }
    }

    /// The number of the form that the client takes.
    fn choose(&self, request: &HeaderMap) -> usize {
        let forms = &self.found.forms;
        if forms.len() == 1 {
            return 0;
        }
        let there = forms.iter().filter_map(|form| form.coding);
        let chosen: Option<Coding> = coding::choose(request, there);
        let at = forms.iter().position(|form| form.coding == chosen);
        at.unwrap_or(0)
    }

    /// The fields of every answer with this form.
    fn fields(&self, at: usize, own: &[(HeaderName, HeaderValue)]) -> HeaderMap {
        let validators = &self.validators[at];
        let mut headers = HeaderMap::with_capacity(8 + own.len());
        headers.insert(header::LAST_MODIFIED, validators.last_modified.clone());
        headers.insert(header::ETAG, validators.etag.clone());
        for (name, value) in own {
            headers.insert(name, value.clone());
        }
        let public = headers.get(header::CACHE_CONTROL);
        let public = public.is_none_or(|said| contains(said.as_bytes(), b"public"));
        if self.found.digested && public {
            headers.insert(header::CACHE_CONTROL, IMMUTABLE);
        }
        if self.found.forms.len() > 1 {
            headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        headers
    }

    fn part(&self, form: usize, start: u64, end: u64) -> Content {
        match &self.found.forms[form].bytes {
            _ if start == end => Content::Empty,
            Some(bytes) => Content::Memory(bytes.slice(start as usize..end as usize)),
            None => Content::File { form, start, end },
        }
    }
}

fn validators(form: &Form) -> Validators {
    let (ns, size) = (form.facts.modified_ns, form.facts.size);
    let ending = form.coding.map_or("", |coding| coding.ending());
    Validators::of_file(ns, size, &ending.replace('.', "-"))
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len())
        .any(|part| part.eq_ignore_ascii_case(word))
}

/// Inserts a field whose value is printable.
pub fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// The file ends before what the client wants of it.
fn unsatisfiable(mut headers: HeaderMap, length: u64) -> Answer {
    headers.remove(header::CONTENT_ENCODING);
    headers.remove(header::CACHE_CONTROL);
    let text = HeaderValue::from_static("text/plain");
    headers.insert(header::CONTENT_TYPE, text);
    insert(
        &mut headers,
        header::CONTENT_RANGE,
        &format!("bytes */{length}"),
    );
    Answer {
        status: StatusCode::RANGE_NOT_SATISFIABLE,
        headers,
        // As Rack has it.
        content: Content::Memory(Bytes::from_static(b"Byte range unsatisfiable\n")),
    }
}
