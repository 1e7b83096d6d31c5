//! Which coding a client gets (RFC 9110 section 12.5.3). It sees no response.

/// A way to compress content, the one that costs least for its result first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 8878.
    Zstd,
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
}

impl Coding {
    const ALL: [Self; 3] = [Self::Zstd, Self::Gzip, Self::Brotli];

    /// The name in Content-Encoding.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
            Self::Brotli => "br",
        }
    }

    fn named(name: &[u8]) -> Option<Self> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let known = Self::ALL.into_iter().find(|coding| is(coding.name()));
        // An old name of gzip (RFC 9110 section 8.4.1.3).
        known.or(is("x-gzip").then_some(Self::Gzip))
    }
}

/// Returns the coding that the client likes best of those that it accepts; none where that is none of these. `values` are
/// those of its fields Accept-Encoding.
pub fn negotiate<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Option<Coding> {
    let mut weights = [None; Coding::ALL.len()];
    let (mut identity, mut others) = (None, None);
    for item in values
        .into_iter()
        .flat_map(|value| value.split(|&byte| byte == b','))
    {
        let Some((name, weight)) = parse(item) else {
            continue;
        };
        let place = match Coding::named(name) {
            Some(coding) => &mut weights[coding as usize],
            None if name == b"*" => &mut others,
            None if name.eq_ignore_ascii_case(b"identity") => &mut identity,
            None => continue,
        };
        // Of several for one coding the lowest counts: no client gets what it excludes.
        *place = Some(place.map_or(weight, |known: u16| known.min(weight)));
    }
    // A client that says only `*` does not know the newer ones.
    let gzip = &mut weights[Coding::Gzip as usize];
    *gzip = gzip.or(others);
    let mut best = (identity.unwrap_or(0), None);
    for coding in Coding::ALL.into_iter().rev() {
        let weight = weights[coding as usize].unwrap_or(0);
        if weight > 0 && weight >= best.0 {
            best = (weight, Some(coding));
        }
    }
    best.1
}

/// A coding and its weight in thousandths; none where the item is malformed.
fn parse(item: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let mut weight = 1000;
    for parameter in parts {
        if let [b'q' | b'Q', b'=', value @ ..] = parameter {
            weight = thousandths(value)?;
        }
    }
    Some((name, weight))
}

/// A `qvalue`: from 0 to 1, with at most three decimal places (RFC 9110 section 12.4.2).
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] => (whole, decimals),
        _ => return None,
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = decimals.iter().chain(std::iter::repeat(&b'0')).take(3);
    let part = digits.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    match whole {
        b'0' => Some(part),
        b'1' if part == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(value: &str) -> Option<Coding> {
        negotiate([value.as_bytes()])
    }

    #[test]
    fn a_client_gets_the_coding_that_it_likes_best() {
        use Coding::{Brotli, Gzip, Zstd};
        for (value, expected) in [
            ("", None),
            (",", None),
            (" , ;q=1", None),
            ("identity", None),
            ("deflate, compress", None),
            ("gzip", Some(Gzip)),
            ("GZip", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, deflate, br", Some(Gzip)),
            ("br", Some(Brotli)),
            ("br;q=1.0, gzip;q=0.8, *;q=0.1", Some(Brotli)),
            ("gzip;q=0.5, zstd;q=0.4", Some(Gzip)),
            ("gzip;q=0.001", Some(Gzip)),
            ("gzip;q=0", None),
            ("gzip;q=0.000, br", Some(Brotli)),
            ("zstd;q=0, gzip", Some(Gzip)),
            ("gzip ; q=0.5 , zstd\t;\tQ=0.5", Some(Zstd)),
            ("*", Some(Gzip)),
            ("*;q=0", None),
            ("gzip, *;q=0", Some(Gzip)),
            ("gzip;q=0, *", None),
            ("identity;q=0, *", Some(Gzip)),
            ("identity;q=0", None),
            ("identity, gzip", Some(Gzip)),
            ("identity;q=0.5, gzip;q=0.4", None),
            ("identity;q=0.5, gzip;q=0.4, br;q=0.6", Some(Brotli)),
            ("gzip, gzip;q=0", None),
            // Malformed weights: the item does not count.
            ("gzip;q=", None),
            ("gzip;q=1.001", None),
            ("gzip;q=2", None),
            ("gzip;q=0.1234", None),
            ("gzip;q=-1", None),
            ("gzip;q=.5", None),
            ("gzip;q=0,5", None),
            ("gzip;q=1.", Some(Gzip)),
            ("gzip;q=1.000", Some(Gzip)),
            ("gzip;level=9;q=0.3", Some(Gzip)),
            ("gzip zstd", None),
            ("\u{e9}, gzip", Some(Gzip)),
        ] {
            assert_eq!(accepted(value), expected, "{value:?}");
        }
    }

    #[test]
    fn several_fields_are_one_list() {
        assert_eq!(negotiate([&b"gzip;q=0.5"[..], b"br"]), Some(Coding::Brotli));
        assert_eq!(negotiate([]), None);
    }
}
