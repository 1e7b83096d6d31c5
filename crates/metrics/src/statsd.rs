//! The lines that StatsD reads, in datagrams of a bounded size. It knows no metric and opens no socket.

use std::fmt::Write;

use crate::exposition::Labels;

/// The longest datagram in bytes: what passes every network whole.
pub const MAX_DATAGRAM_BYTES: usize = 1432;
/// The longest value of a label, in bytes of ASCII.
const MAX_TAG_BYTES: usize = 100;

/// Where the labels of a metric go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tags {
    /// Behind its value, as DogStatsD reads them: `orders:1|c|#kind:web`.
    DogStatsd,
    /// Into its name, for receivers that know no tags: `orders.web:1|c`.
    InName,
}

/// Lines that are being written.
pub struct Lines {
    tags: Tags,
    datagrams: Vec<Vec<u8>>,
    line: String,
}

impl Lines {
    /// Begins without a line.
    pub fn new(tags: Tags) -> Self {
        Self {
            tags,
            datagrams: Vec::new(),
            line: String::new(),
        }
    }

    /// A counter has grown by so much. One that has not grown needs no line.
    pub fn counter(&mut self, name: &str, labels: &Labels<'_>, by: f64) {
        if by > 0.0 {
            self.metric(name, labels, by, 'c');
        }
    }

    /// A gauge has this value.
    pub fn gauge(&mut self, name: &str, labels: &Labels<'_>, value: f64) {
        // A sign is a change of the value before: from nothing to less.
        if value < 0.0 {
            self.metric(name, labels, 0.0, 'g');
        }
        self.metric(name, labels, value, 'g');
    }

    /// The datagrams.
    pub fn finish(self) -> Vec<Vec<u8>> {
        self.datagrams
    }

    /// A line that does not fit into a datagram is left out.
    fn metric(&mut self, name: &str, labels: &Labels<'_>, value: f64, kind: char) {
        self.line.clear();
        self.line.push_str(name);
        let tags = self.tags;
        if tags == Tags::InName {
            for (_, value) in labels {
                self.line.push('.');
                self.line.push_str(&name_part(value));
            }
        }
        // Writing to a string cannot fail.
        let _ = write!(self.line, ":{value}|{kind}");
        if tags == Tags::DogStatsd {
            for (index, (name, value)) in labels.iter().enumerate() {
                self.line.push_str(if index == 0 { "|#" } else { "," });
                self.line.push_str(name);
                self.line.push(':');
                let allowed = |byte: u8| byte.is_ascii_graphic() && !b",|#".contains(&byte);
                self.line.push_str(&word(value, allowed));
            }
        }
        self.put();
    }

    fn put(&mut self) {
        if self.line.len() > MAX_DATAGRAM_BYTES {
            return;
        }
        match self.datagrams.last_mut() {
            Some(last) if last.len() + 1 + self.line.len() <= MAX_DATAGRAM_BYTES => {
                last.push(b'\n');
                last.extend_from_slice(self.line.as_bytes());
            }
            _ => self.datagrams.push(self.line.as_bytes().to_vec()),
        }
    }
}

/// The value of a label as a part of a metric's name ([`Tags::InName`]).
pub fn name_part(value: &str) -> String {
    word(value, |byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A value with `_` for what a line cannot hold.
fn word(text: &str, allowed: impl Fn(u8) -> bool) -> String {
    let bytes = text.bytes().take(MAX_TAG_BYTES);
    let letters = bytes.map(|byte| if allowed(byte) { byte.into() } else { '_' });
    match text {
        "" => "_".to_owned(),
        _ => letters.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(tags: Tags, write: impl FnOnce(&mut Lines)) -> String {
        let mut lines = Lines::new(tags);
        write(&mut lines);
        let datagrams = lines.finish();
        assert!(datagrams.len() <= 1);
        String::from_utf8(datagrams.concat()).expect("text")
    }

    #[test]
    fn labels_are_tags_or_parts_of_the_name() {
        let labels = [("kind", "web shop"), ("place", "a,b|c#d\n:é")];
        let write = |lines: &mut Lines| {
            lines.counter("orders", &labels, 2.0);
            lines.counter("orders", &[("kind", "")], 1.5);
            lines.gauge("carts", &[], -3.0);
            lines.counter("none", &[], 0.0);
        };
        assert_eq!(
            lines(Tags::DogStatsd, write),
            "orders:2|c|#kind:web_shop,place:a_b_c_d_:__\norders:1.5|c|#kind:_\ncarts:0|g\ncarts:-3|g"
        );
        assert_eq!(
            lines(Tags::InName, write),
            "orders.web_shop.a_b_c_d____:2|c\norders._:1.5|c\ncarts:0|g\ncarts:-3|g"
        );
    }

    #[test]
    fn datagrams_are_bounded_and_a_line_is_whole_in_one() {
        let mut lines = Lines::new(Tags::DogStatsd);
        for number in 0..1_000 {
            lines.counter("orders", &[("id", &number.to_string())], 1.0);
        }
        lines.counter(&"x".repeat(MAX_DATAGRAM_BYTES), &[], 1.0);
        lines.counter("long", &[("id", &"y".repeat(5_000))], 1.0);
        let datagrams = lines.finish();
        assert!(datagrams.iter().all(|one| one.len() <= MAX_DATAGRAM_BYTES));
        let all: Vec<_> = datagrams
            .iter()
            .flat_map(|one| one.split(|&byte| byte == b'\n'))
            .collect();
        assert_eq!(all.len(), 1_001);
        assert!(
            all.iter()
                .all(|line| line.starts_with(b"orders:1|c|#id:") || line.len() == 113)
        );
    }
}
