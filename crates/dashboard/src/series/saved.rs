//! Figures over time and marks as bytes, for a file that outlives the server, and back. What is read may be damaged or of
//! somebody else: it is checked as a whole, and every number and length in it is bounded.
//!
//! ```text
//! magic, then numbers (LEB128), texts (length, UTF-8) and floats (8 bytes, little-endian):
//!   marks:   count, of each: time, text, application (empty: the server)
//!   series:  count, of each: name (empty: all together), bounds of buckets, recent points, points of the day
//! at the end the FNV-1a hash of all that
//! ```

use super::{Bucket, DAY_POINTS, MAX_BUCKETS, Measured, Point, RECENT_POINTS};
use crate::model::Mark;

/// What such a file begins with; another layout has another one.
const MAGIC: &[u8; 8] = b"HBHIST1\n";
/// Bytes of the hash at its end.
const HASH_BYTES: usize = 8;
/// The most bytes of one series: a series with more loses its oldest points of the day.
const MAX_SERIES_BYTES: usize = 900 * 1024;
/// The most series: those of all applications that one server may have, and the one of all together.
const MAX_SERIES: usize = 65;
/// The most marks.
const MAX_SAVED_MARKS: usize = 100;
/// The most bytes of a mark's text or an application's name; longer ones are left out.
const MAX_SAVED_TEXT: usize = 1024;
/// The most different buckets of a series.
const MAX_BOUNDS: usize = 1024;
/// The most bytes of marks, and of names and counts around the series.
const MAX_OTHER_BYTES: usize = 256 * 1024;

/// What a file of history holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// Deploys, restarts and upgrades, the oldest first.
    pub marks: Vec<Mark>,
    /// The figures of each application by its name; those of all together have an empty one.
    pub series: Vec<(String, Measured)>,
}

/// A file is no history, or a damaged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is damaged, or no history of a dashboard")]
pub struct DamagedHistory;

impl Saved {
    /// The most bytes of a history of so many applications.
    pub fn max_bytes(applications: usize) -> u64 {
        let series = applications.min(MAX_SERIES - 1) + 1;
        (MAX_OTHER_BYTES + series * MAX_SERIES_BYTES) as u64
    }

    /// Returns the bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let is_short = |mark: &&Mark| mark.text.len() <= MAX_SAVED_TEXT;
        let newest = self.marks.len().saturating_sub(MAX_SAVED_MARKS);
        let marks: Vec<&Mark> = self.marks[newest..].iter().filter(is_short).collect();
        put_number(&mut bytes, marks.len() as u64);
        for mark in marks {
            put_number(&mut bytes, mark.at);
            put_text(&mut bytes, &mark.text);
            put_text(&mut bytes, mark.application.as_deref().unwrap_or_default());
        }
        let known = self.series.iter();
        let known = known.filter(|(name, _)| name.len() <= MAX_SAVED_TEXT);
        let known: Vec<_> = known.take(MAX_SERIES).collect();
        put_number(&mut bytes, known.len() as u64);
        for (name, measured) in known {
            put_text(&mut bytes, name);
            put_series(&mut bytes, measured);
        }
        let hash = hash(&bytes);
        bytes.extend_from_slice(&hash.to_le_bytes());
        bytes
    }

    /// Reads such bytes.
    ///
    /// # Errors
    /// They are something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DamagedHistory> {
        let at = bytes.len().checked_sub(HASH_BYTES).ok_or(DamagedHistory)?;
        let (content, end) = bytes.split_at(at);
        let body = content.strip_prefix(MAGIC).ok_or(DamagedHistory)?;
        if hash(content).to_le_bytes() != end {
            return Err(DamagedHistory);
        }
        let mut reader = Reader(body);
        let saved = reader.saved().ok_or(DamagedHistory)?;
        match reader.0.is_empty() {
            true => Ok(saved),
            false => Err(DamagedHistory),
        }
    }
}

/// FNV-1a: finds damage, and protects from nobody.
fn hash(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_number(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

fn put_float(bytes: &mut Vec<u8>, value: f64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

/// Writes a series: its points name their buckets by their places in a list of all bounds.
fn put_series(bytes: &mut Vec<u8>, measured: &Measured) {
    let mut bounds: Vec<(f64, f64)> = Vec::new();
    let mut encode = |points: &[Point], most: usize| -> Vec<Vec<u8>> {
        let newest = points.len().saturating_sub(most);
        let points = points[newest..].iter();
        points
            .map(|point| point_bytes(point, &mut bounds))
            .collect()
    };
    let recent = encode(&measured.recent, RECENT_POINTS);
    let mut day = encode(&measured.day, DAY_POINTS + 1);
    let size = |points: &[Vec<u8>]| points.iter().map(Vec::len).sum::<usize>();
    let room = MAX_SERIES_BYTES - MAX_BOUNDS * 16 - 64;
    let too_much = (size(&recent) + size(&day)).saturating_sub(room);
    let mut dropped = 0;
    while dropped < too_much && !day.is_empty() {
        dropped += day.remove(0).len();
    }
    put_number(bytes, bounds.len() as u64);
    for (above_s, up_to_s) in bounds {
        put_float(bytes, above_s);
        put_float(bytes, up_to_s);
    }
    for points in [recent, day] {
        put_number(bytes, points.len() as u64);
        points
            .iter()
            .for_each(|point| bytes.extend_from_slice(point));
    }
}

fn point_bytes(point: &Point, bounds: &mut Vec<(f64, f64)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_number(&mut bytes, point.at);
    put_float(&mut bytes, point.seconds);
    for number in [point.requests, point.errors, point.queue, point.threads] {
        put_number(&mut bytes, number);
    }
    put_float(&mut bytes, point.busy);
    put_number(
        &mut bytes,
        point
            .memory_bytes
            .map_or(0, |memory| memory.saturating_add(1)),
    );
    let mut known = Vec::new();
    for bucket in point.latency.iter().take(MAX_BUCKETS) {
        let bound = (bucket.above_s, bucket.up_to_s);
        let place = match bounds.iter().position(|one| *one == bound) {
            None if bounds.len() == MAX_BOUNDS => continue,
            None => {
                bounds.push(bound);
                bounds.len() - 1
            }
            Some(place) => place,
        };
        known.push((place, bucket.count));
    }
    put_number(&mut bytes, known.len() as u64);
    for (place, count) in known {
        put_number(&mut bytes, place as u64);
        put_number(&mut bytes, count);
    }
    bytes
}

/// What is left to read. Each method returns `None` where it is something else.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn saved(&mut self) -> Option<Saved> {
        let mut saved = Saved::default();
        for _ in 0..self.count(MAX_SAVED_MARKS)? {
            saved.marks.push(Mark {
                at: self.number()?,
                text: self.text()?,
                application: Some(self.text()?).filter(|name| !name.is_empty()),
            });
        }
        for _ in 0..self.count(MAX_SERIES)? {
            let name = self.text()?;
            let mut bounds = Vec::new();
            for _ in 0..self.count(MAX_BOUNDS)? {
                bounds.push((self.float()?, self.float()?));
            }
            let recent = self.points(RECENT_POINTS, &bounds)?;
            let day = self.points(DAY_POINTS + 1, &bounds)?;
            saved.series.push((name, Measured { recent, day }));
        }
        Some(saved)
    }

    fn points(&mut self, most: usize, bounds: &[(f64, f64)]) -> Option<Vec<Point>> {
        let count = self.count(most)?;
        (0..count).map(|_| self.point(bounds)).collect()
    }

    fn point(&mut self, bounds: &[(f64, f64)]) -> Option<Point> {
        let (at, seconds) = (self.number()?, self.float()?);
        let [requests, errors, queue, threads] = [
            self.number()?,
            self.number()?,
            self.number()?,
            self.number()?,
        ];
        let (busy, memory) = (self.float()?, self.number()?);
        let mut latency = Vec::new();
        for _ in 0..self.count(MAX_BUCKETS)? {
            let (above_s, up_to_s) = *bounds.get(usize::try_from(self.number()?).ok()?)?;
            latency.push(Bucket {
                above_s,
                up_to_s,
                count: self.number()?,
            });
        }
        Some(Point {
            at,
            seconds,
            requests,
            errors,
            latency,
            queue,
            busy,
            threads,
            memory_bytes: memory.checked_sub(1),
        })
    }

    fn count(&mut self, most: usize) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= most).then_some(count)
    }

    /// A number below 2^56: sums of some of them never overflow.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..56).step_by(7) {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn float(&mut self) -> Option<f64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        let value = f64::from_le_bytes(*first);
        (value.is_finite() && value >= 0.0).then_some(value)
    }

    fn text(&mut self) -> Option<String> {
        let length = self.count(MAX_SAVED_TEXT)?;
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(std::str::from_utf8(first).ok()?.to_owned())
    }
}

#[cfg(test)]
mod tests;
