//! Which of a file's forms a client takes: as it is, or compressed (RFC 9110 section 12.5.3). It compresses nothing.

use http::{HeaderMap, header};

/// How a sibling of a file is compressed, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Zstandard.
    Zstd,
    /// Brotli.
    Brotli,
    /// gzip.
    Gzip,
}

impl Coding {
    /// All of them, best first.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// Its name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// The end of the name of such a sibling.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Zstd => ".zst",
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
        }
    }
}

/// Returns the coding among `there` that the client prefers; none is the file as it is.
pub fn choose(headers: &HeaderMap, there: impl Iterator<Item = Coding>) -> Option<Coding> {
    let mut best: Option<(u16, Coding)> = None;
    let identity = quality(headers, "identity").unwrap_or(1);
    for coding in there {
        let quality = quality(headers, coding.name()).or_else(|| quality(headers, "*"));
        let quality = quality.unwrap_or(0);
        if quality > 0 && quality >= identity && best.is_none_or(|(known, _)| quality > known) {
            best = Some((quality, coding));
        }
    }
    best.map(|(_, coding)| coding)
}

/// How much the client wants a coding that it names, in thousandths.
fn quality(headers: &HeaderMap, coding: &str) -> Option<u16> {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let items = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    let mut found = None;
    for item in items {
        let mut parts = item.split(|&byte| byte == b';');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let name = match name.eq_ignore_ascii_case(b"x-gzip") {
            true => b"gzip",
            false => name,
        };
        if name.eq_ignore_ascii_case(coding.as_bytes()) {
            found = Some(parts.next().map_or(1000, thousandths));
        }
    }
    found
}

/// Reads `q=0.5`; what is malformed is not wanted.
fn thousandths(weight: &[u8]) -> u16 {
    let weight = weight.trim_ascii();
    let digits = weight.strip_prefix(b"q=").or(weight.strip_prefix(b"Q="));
    let number: Option<f32> = digits
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok());
    match number {
        Some(number) if (0.0..=1.0).contains(&number) => (number * 1000.0) as u16,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_client_gets_the_coding_that_it_prefers() {
        use Coding::{Brotli, Gzip, Zstd};
        for (accept, expected) in [
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, br", Some(Brotli)),
            ("gzip", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("GZIP;q=0.5", Some(Gzip)),
            ("gzip;q=1.0, br;q=0.9", Some(Gzip)),
            ("br;q=0.5, zstd;q=0.5", Some(Zstd)),
            ("*", Some(Zstd)),
            ("*;q=0.5, zstd;q=0", Some(Brotli)),
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip;q=0.5", Some(Gzip)),
            ("gzip;q=0", None),
            ("gzip;q=two", None),
            ("gzip;q=7", None),
            ("deflate", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accept));
            let chosen = choose(&headers, Coding::ALL.into_iter());
            assert_eq!(chosen, expected, "{accept:?}");
        }
        assert_eq!(choose(&HeaderMap::new(), Coding::ALL.into_iter()), None);
        let mut headers = HeaderMap::new();
        headers.insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("br, gzip"),
        );
        assert_eq!(choose(&headers, [Gzip].into_iter()), Some(Gzip));
    }
}
