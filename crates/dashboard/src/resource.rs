//! The files that the page consists of besides itself, and the header fields of all of them.

/// Fields that every response of the dashboard has. The policy allows what this server sends and nothing else: no script or
/// style within the page, no other host, no form that leads elsewhere, no frame around it. Nothing may be kept by a cache.
pub const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
    ("x-robots-tag", "noindex"),
];

/// The same for a flame graph that is opened by itself: a picture with a style of its own, and no script. Within a page
/// browsers never run what is in a picture.
pub const FLAME_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox";

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its media type.
    pub content_type: &'static str,
    /// Its content.
    pub body: &'static str,
}

/// Returns a file by its name below `/dashboard/`.
pub fn resource(name: &str) -> Option<Resource> {
    let (content_type, body) = match name {
        "page.css" => ("text/css; charset=utf-8", include_str!("page.css")),
        "page.js" => ("text/javascript; charset=utf-8", include_str!("page.js")),
        _ => return None,
    };
    Some(Resource { content_type, body })
}
