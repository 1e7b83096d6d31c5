//! What an entry of the cache is found by: the host and the target of a GET (RFC 9111 section 2).

/// What follows it is no part of the URL, which has no such byte.
const SEPARATOR: u8 = b'\n';

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Box<[u8]>);

impl Key {
    /// Returns the key of a target of a host. The host is compared in small letters; the target is taken as it is, for only
    /// the application knows which spellings mean the same.
    pub fn new(scheme: &str, host: &[u8], target: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(scheme.len() + host.len() + target.len() + 3);
        bytes.extend_from_slice(scheme.as_bytes());
        bytes.extend_from_slice(b"://");
        bytes.extend(host.iter().map(u8::to_ascii_lowercase));
        bytes.extend_from_slice(target);
        Self(bytes.into_boxed_slice())
    }

    /// The same for requests that have this as well, for instance a proxy's word on the host.
    pub fn and(self, more: &[u8]) -> Self {
        let mut bytes = self.0.into_vec();
        bytes.push(SEPARATOR);
        bytes.extend_from_slice(more);
        Self(bytes.into_boxed_slice())
    }

    /// The part of its URL that compares with `pattern`: the whole, or without the scheme where the pattern has none, or the
    /// target alone where the pattern begins with a slash.
    pub fn comparable(&self, pattern: &[u8]) -> &[u8] {
        let url = match self.0.iter().position(|&byte| byte == SEPARATOR) {
            Some(end) => &self.0[..end],
            None => &self.0,
        };
        let after_scheme = url
            .iter()
            .position(|&byte| byte == b'/')
            .map_or(0, |at| at + 2);
        let without_scheme = url.get(after_scheme..).unwrap_or_default();
        if pattern.starts_with(b"/") {
            let path = without_scheme.iter().position(|&byte| byte == b'/');
            return path.map_or(b"", |at| &without_scheme[at..]);
        }
        match pattern.windows(3).any(|three| three == b"://") {
            true => url,
            false => without_scheme,
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}
