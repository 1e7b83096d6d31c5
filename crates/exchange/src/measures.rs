//! What a request cost its worker, as the payload of the frame [`Kind::End`](crate::response::Kind::End). It measures
//! nothing itself, and a payload that makes no sense means that nothing was measured.
//!
//! Layout, little endian: version `u8`, flags `u8`, length of the route `u16`, queries `u32`, then as `u64` CPU time, GC
//! time, allocations, database time, view time and wait for Ruby's lock (times in nanoseconds); then the route.

/// The first byte of a payload.
const VERSION: u8 = 2;
/// Bytes before the route.
const FIXED: usize = 56;
/// The longest route, in bytes.
pub const MAX_ROUTE_BYTES: usize = 200;
/// The longest payload, in bytes.
pub const MAX_BYTES: usize = FIXED + MAX_ROUTE_BYTES;

/// Other threads of the process had a part in GC time and allocations.
const SHARED: u8 = 1;
/// The database time is known.
const DATABASE: u8 = 2;
/// The view time is known.
const VIEW: u8 = 4;
/// The number of queries is known.
const QUERIES: u8 = 8;
/// Another request ran in the process meanwhile.
const OVERLAPPED: u8 = 16;
/// The wait for Ruby's lock is known.
const LOCK_WAIT: u8 = 32;

/// What a request cost its worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures<'a> {
    /// Whether GC time and allocations are those of a process with several threads: those of other requests are in them.
    pub shared: bool,
    /// Whether another request ran in the process meanwhile: then an unknown part of the time went to waiting for Ruby's lock.
    pub overlapped: bool,
    /// CPU time of the thread, in nanoseconds.
    pub cpu_ns: u64,
    /// Time of garbage collection in the process, in nanoseconds.
    pub gc_ns: u64,
    /// Objects that the process has allocated.
    pub allocations: u64,
    /// Time in the database, in nanoseconds.
    pub db_ns: Option<u64>,
    /// Time in views, in nanoseconds.
    pub view_ns: Option<u64>,
    /// Time in which the thread waited for Ruby's lock, in nanoseconds; none where this Ruby does not tell.
    pub lock_wait_ns: Option<u64>,
    /// Queries of the database.
    pub queries: Option<u32>,
    /// The route as the application's framework names it; empty where it names none. It may hold any byte.
    pub route: &'a [u8],
}

impl<'a> Measures<'a> {
    /// Writes the payload and returns its length. A route that is too long is cut.
    pub fn write(&self, into: &mut [u8; MAX_BYTES]) -> usize {
        let route = &self.route[..self.route.len().min(MAX_ROUTE_BYTES)];
        let flag = |known: bool, bit: u8| if known { bit } else { 0 };
        into[0] = VERSION;
        into[1] = flag(self.shared, SHARED)
            | flag(self.db_ns.is_some(), DATABASE)
            | flag(self.view_ns.is_some(), VIEW)
            | flag(self.queries.is_some(), QUERIES)
            | flag(self.overlapped, OVERLAPPED)
            | flag(self.lock_wait_ns.is_some(), LOCK_WAIT);
        into[2..4].copy_from_slice(&(route.len() as u16).to_le_bytes());
        into[4..8].copy_from_slice(&self.queries.unwrap_or(0).to_le_bytes());
        let numbers = [
            self.cpu_ns,
            self.gc_ns,
            self.allocations,
            self.db_ns.unwrap_or(0),
            self.view_ns.unwrap_or(0),
            self.lock_wait_ns.unwrap_or(0),
        ];
        for (place, number) in into[8..FIXED].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        into[FIXED..FIXED + route.len()].copy_from_slice(route);
        FIXED + route.len()
    }

    /// Reads a payload; none of one that is empty or makes no sense.
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let (fixed, route) = payload.split_at_checked(FIXED)?;
        let length = usize::from(u16::from_le_bytes([fixed[2], fixed[3]]));
        if fixed[0] != VERSION || length != route.len() || length > MAX_ROUTE_BYTES {
            return None;
        }
        let has = |bit: u8| fixed[1] & bit != 0;
        let number = |at: usize| {
            let bytes = fixed[8 * at..8 * at + 8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes"))
        };
        let queries = u32::from_le_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        Some(Self {
            shared: has(SHARED),
            overlapped: has(OVERLAPPED),
            cpu_ns: number(1),
            gc_ns: number(2),
            allocations: number(3),
            db_ns: has(DATABASE).then(|| number(4)),
            view_ns: has(VIEW).then(|| number(5)),
            lock_wait_ns: has(LOCK_WAIT).then(|| number(6)),
            queries: has(QUERIES).then_some(queries),
            route,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Measures<'_> = Measures {
        shared: true,
        overlapped: true,
        cpu_ns: 1,
        gc_ns: 2,
        allocations: 3,
        db_ns: Some(4),
        view_ns: Some(u64::MAX),
        lock_wait_ns: Some(5),
        queries: Some(6),
        route: b"/books/:id",
    };

    #[test]
    fn measures_are_read_as_they_were_written() {
        let none_known = Measures {
            db_ns: None,
            view_ns: None,
            lock_wait_ns: None,
            queries: None,
            shared: false,
            overlapped: false,
            route: b"",
            ..ALL
        };
        for measures in [ALL, none_known, Measures::default()] {
            let mut bytes = [0; MAX_BYTES];
            let length = measures.write(&mut bytes);
            assert_eq!(Measures::parse(&bytes[..length]), Some(measures));
        }
    }

    #[test]
    fn a_long_route_is_cut() {
        let route = [b'x'; MAX_ROUTE_BYTES + 1];
        let measures = Measures {
            route: &route,
            ..ALL
        };
        let mut bytes = [0; MAX_BYTES];
        assert_eq!(measures.write(&mut bytes), MAX_BYTES);
        let read = Measures::parse(&bytes).unwrap();
        assert_eq!(read.route, &route[..MAX_ROUTE_BYTES]);
    }

    #[test]
    fn a_payload_without_sense_means_that_nothing_was_measured() {
        let mut bytes = [0; MAX_BYTES];
        let length = ALL.write(&mut bytes);
        assert_eq!(Measures::parse(b""), None);
        assert_eq!(Measures::parse(&bytes[..FIXED - 1]), None);
        assert_eq!(Measures::parse(&bytes[..length - 1]), None);
        assert_eq!(Measures::parse(&[&bytes[..], b"x"].concat()), None);
        bytes[0] = 1;
        assert_eq!(Measures::parse(&bytes[..length]), None);
    }
}
