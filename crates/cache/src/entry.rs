//! A stored response: whether it may be stored (RFC 9111 section 3), used (section 4) and what a validation changes of it
//! (section 4.3.4).

use std::time::SystemTime;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};

use crate::Policy;
use crate::conditional::Validators;
use crate::control::{RequestControl, ResponseControl};
use crate::freshness::{Freshness, is_heuristically_cacheable};
use crate::vary::Variant;

/// Fields by which the application names what a response is about; `highball purge --tag` finds it by them.
const TAGS: [HeaderName; 2] = [
    HeaderName::from_static("cache-tag"),
    HeaderName::from_static("surrogate-key"),
];
/// What an entry takes beside its texts, in bytes, about.
const ENTRY_BYTES: usize = 512;
/// And a field of it.
const FIELD_BYTES: usize = 96;

/// A request and the head of the response to it.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The request's method.
    pub method: &'a Method,
    /// Its fields.
    pub request: &'a HeaderMap,
    /// The response's status.
    pub status: StatusCode,
    /// Its fields.
    pub response: &'a HeaderMap,
    /// When the request went to the application.
    pub asked: SystemTime,
    /// When the response came.
    pub received: SystemTime,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// Its method or status is none that is stored.
    Kind,
    /// Request or response forbid it.
    Forbidden,
    /// It is for one user.
    Private,
    /// Nothing invites to store it, or it would be stale at once and cannot be validated.
    NotInvited,
    /// It varies by everything.
    Varies,
}

/// How a stored response may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usability {
    /// As it is.
    Fresh,
    /// As it is, while it is validated.
    WhileRevalidate,
    /// After a validation.
    Stale,
}

/// A stored response. It does not change: a validation makes another one.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its status.
    pub status: StatusCode,
    /// Its fields, without `Age`.
    pub fields: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// How long it may be used.
    pub freshness: Freshness,
    /// Its body in other codings, by their names; empty where it would be no shorter.
    pub(crate) encoded: Vec<(&'static str, Bytes)>,
    pub(crate) variant: Variant,
    /// Set by the store: later ones have greater numbers.
    pub(crate) number: u64,
    always_validate: bool,
    must_revalidate: bool,
}

impl Entry {
    /// Returns the response as it is stored, still without its body.
    ///
    /// # Errors
    /// It may not be stored.
    pub fn new(policy: Policy, exchange: &Exchange<'_>) -> Result<Self, NotStored> {
        let Exchange {
            status, response, ..
        } = *exchange;
        let kind = matches!(status.as_u16(), 200..=205 | 207..=303 | 305..=599);
        if exchange.method != Method::GET || !kind {
            return Err(NotStored::Kind);
        }
        let control = ResponseControl::of(response);
        if RequestControl::of(exchange.request).no_store || !allows_store(&control, status) {
            return Err(NotStored::Forbidden);
        }
        let has_credentials = exchange.request.contains_key(header::AUTHORIZATION);
        let for_all = control.public || control.s_maxage.is_some() || control.must_revalidate;
        if control.private
            || response.contains_key(header::SET_COOKIE)
            || has_credentials && !for_all
        {
            return Err(NotStored::Private);
        }
        let freshness = Freshness::of(
            status,
            response,
            &control,
            exchange.asked,
            exchange.received,
        );
        if !is_invited(policy, &control, exchange, &freshness) {
            return Err(NotStored::NotInvited);
        }
        let variant = Variant::of(response, exchange.request).map_err(|_| NotStored::Varies)?;
        let mut fields = response.clone();
        fields.remove(header::AGE);
        fields.remove(header::CONNECTION);
        // Without a field that its content needs, or that says to whom it may be given, the response is of no use: then all of
        // it is validated.
        let named = &control.no_cache_fields;
        let is_needed = |name: &HeaderName| {
            is_of_content(name) || [header::VARY, header::CACHE_CONTROL].contains(name)
        };
        let needs_named = named.iter().any(is_needed);
        if !needs_named {
            named.iter().for_each(|name| drop(fields.remove(name)));
        }
        let date = HeaderValue::from_str(&httpdate::fmt_http_date(exchange.received));
        if let (false, Ok(date)) = (fields.contains_key(header::DATE), date) {
            fields.insert(header::DATE, date);
        }
        Ok(Self {
            status,
            fields,
            body: Bytes::new(),
            freshness,
            encoded: Vec::new(),
            variant,
            number: 0,
            always_validate: control.no_cache || needs_named,
            must_revalidate: control.must_revalidate,
        })
    }

    /// How it may be used for a request that says this of caches.
    pub fn usability(&self, request: &RequestControl, now: SystemTime) -> Usability {
        let age = self.freshness.age_s(now);
        let wants_newer = request.no_cache
            || request.max_age.is_some_and(|most| age > most || most == 0)
            || request
                .min_fresh
                .is_some_and(|seconds| age.saturating_add(seconds) >= self.freshness.lifetime_s);
        if self.always_validate || wants_newer {
            return Usability::Stale;
        }
        let Some(stale_for) = self.freshness.stale_for_s(now) else {
            return Usability::Fresh;
        };
        if self.must_revalidate {
            return Usability::Stale;
        }
        if request.max_stale.is_some_and(|most| stale_for <= most) {
            return Usability::Fresh;
        }
        match stale_for < self.freshness.while_revalidate_s {
            true => Usability::WhileRevalidate,
            false => Usability::Stale,
        }
    }

    /// Whether it may be used where the application fails (RFC 5861 section 4).
    pub fn serves_on_error(&self, now: SystemTime) -> bool {
        let stale_for = self.freshness.stale_for_s(now).unwrap_or(0);
        let allowed = !self.must_revalidate && !self.always_validate;
        allowed && stale_for < self.freshness.if_error_s
    }

    /// What the application is asked to compare with.
    pub fn validators(&self) -> Validators {
        Validators::of(&self.fields)
    }

    /// The entry after an answer 304 to its validation, or after one to HEAD that describes it; none where that takes away that
    /// it may be stored. A 304 counts even if it names another validator (some servers mark it by the encoding): the
    /// application was asked about this one.
    pub fn validated(&self, policy: Policy, exchange: &Exchange<'_>) -> Option<Self> {
        let mut fields = self.fields.clone();
        for name in exchange.response.keys() {
            if !is_of_content(name) {
                fields.remove(name);
                for value in exchange.response.get_all(name) {
                    fields.append(name, value.clone());
                }
            }
        }
        if !exchange.response.contains_key(header::DATE) {
            fields.remove(header::DATE);
        }
        let whole = Exchange {
            method: &Method::GET,
            status: self.status,
            response: &fields,
            ..*exchange
        };
        let mut next = Self::new(policy, &whole).ok()?;
        next.body = self.body.clone();
        next.encoded.clone_from(&self.encoded);
        Some(next)
    }

    /// Its body in another coding, once that was made; empty where it would be no shorter.
    pub fn encoded(&self, coding: &str) -> Option<&Bytes> {
        let form = self.encoded.iter().find(|(name, _)| *name == coding)?;
        Some(&form.1)
    }

    /// Whether an answer to HEAD describes it (RFC 9111 section 4.3.5).
    pub fn is_described_by(&self, fields: &HeaderMap) -> bool {
        let length = fields.get(header::CONTENT_LENGTH);
        let same_length =
            length.is_none_or(|length| length.as_bytes() == self.body.len().to_string().as_bytes());
        same_length && self.validators().are_confirmed_by(fields)
    }

    /// The names of what it is about.
    pub fn tags(&self) -> impl Iterator<Item = &[u8]> {
        let lines = TAGS.into_iter().flat_map(|name| self.fields.get_all(name));
        let words = lines.flat_map(|line| {
            line.as_bytes()
                .split(|byte| matches!(byte, b',' | b' ' | b'\t'))
        });
        words.filter(|word| !word.is_empty())
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        let fields = self.fields.iter();
        let fields: usize = fields
            .map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES)
            .sum();
        let encoded: usize = self.encoded.iter().map(|(_, bytes)| bytes.len()).sum();
        ENTRY_BYTES + fields + self.body.len() + encoded + self.variant.bytes()
    }
}

/// Whether the response forbids no cache to store it (RFC 9111 section 5.2.2.3).
fn allows_store(control: &ResponseControl, status: StatusCode) -> bool {
    let understood =
        is_heuristically_cacheable(status) || matches!(status.as_u16(), 302 | 303 | 307);
    match control.must_understand {
        true => understood,
        false => !control.no_store,
    }
}

fn is_invited(
    policy: Policy,
    control: &ResponseControl,
    exchange: &Exchange<'_>,
    freshness: &Freshness,
) -> bool {
    // What came stale is of use to clients that say `max-stale`, which counts with the standard policy alone.
    let kept_stale = policy == Policy::Standard && freshness.lifetime_s > 0;
    let usable = freshness.lifetime_s > freshness.initial_age_s
        || kept_stale
        || freshness.while_revalidate_s > 0
        || freshness.if_error_s > 0
        || !Validators::of(exchange.response).is_empty();
    let invited = match policy {
        Policy::Explicit => control.invites_shared(),
        Policy::Standard => {
            control.invites_shared()
                || control.max_age.is_some()
                || control.no_cache
                || exchange.response.contains_key(header::EXPIRES)
                || is_heuristically_cacheable(exchange.status)
        }
    };
    usable && invited
}

/// Whether a field belongs to the content that is stored, which an answer without content cannot change (RFC 9111 section
/// 3.2).
fn is_of_content(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::CONTENT_LENGTH
            | header::CONTENT_ENCODING
            | header::CONTENT_RANGE
            | header::ETAG
            | header::TRANSFER_ENCODING
            | header::CONNECTION
            | header::SET_COOKIE
    ) || name.as_str() == "content-md5"
}
