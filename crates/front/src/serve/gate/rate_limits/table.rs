//! The table of clients: the generic cell rate algorithm (ITU-T I.371), in memory of a fixed size. It knows neither rules nor
//! addresses.

/// Entries that one key may take.
const WAYS: usize = 8;
/// Groups of so many entries.
const GROUPS: usize = 8192;

/// A client: when its next request would be due if all were evenly spaced, nanoseconds of the monotonic clock. One that is
/// due already is as good as empty.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: u64,
    due_ns: u64,
}

/// Clients. A new one takes the place of the entry of its group that is due first, so that those who send most stay. A client
/// that lost its place begins at zero: nobody is refused because the table is full.
#[derive(Debug)]
pub(super) struct Table(Vec<[Entry; WAYS]>);

impl Default for Table {
    fn default() -> Self {
        Self(vec![[Entry::default(); WAYS]; GROUPS])
    }
}

impl Table {
    /// Counts a request of the client `key`, of which one may come every `interval_ns`, and `burst` at once.
    ///
    /// # Errors
    /// It comes too early; by how many nanoseconds. It does not count.
    pub(super) fn count(
        &mut self,
        key: u64,
        interval_ns: u64,
        burst: u32,
        now_ns: u64,
    ) -> Result<(), u64> {
        // The key is a hash already: its upper bits choose the group.
        let group = &mut self.0[(key >> 32) as usize % GROUPS];
        let at = group.iter().position(|entry| entry.key == key);
        let known = at.map_or(0, |at| group[at].due_ns);
        let due_ns = known.max(now_ns);
        let ahead_ns = due_ns - now_ns;
        let allowed_ns = interval_ns.saturating_mul(u64::from(burst - 1));
        if ahead_ns > allowed_ns {
            return Err(ahead_ns - allowed_ns);
        }
        let first_due = || (0..WAYS).min_by_key(|&at| group[at].due_ns);
        let at = at.or_else(first_due).unwrap_or_default();
        let due_ns = due_ns.saturating_add(interval_ns);
        group[at] = Entry { key, due_ns };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys as a hash would spread them.
    fn key(number: u64) -> u64 {
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    #[test]
    fn a_burst_passes_and_then_one_in_each_interval() {
        let mut table = Table::default();
        let mut count = |now| table.count(key(1), 10, 3, now);
        assert_eq!([count(100), count(100), count(100)], [Ok(()); 3]);
        assert_eq!(count(100), Err(10));
        assert_eq!(count(109), Err(1));
        assert_eq!(count(110), Ok(()));
        assert_eq!(count(110), Err(10));
        // After a pause the whole burst is there again, and no more than that.
        assert_eq!([count(500), count(500), count(500)], [Ok(()); 3]);
        assert_eq!(count(500), Err(10));
    }

    #[test]
    fn a_burst_of_one_spaces_requests_evenly() {
        let mut table = Table::default();
        let mut count = |now| table.count(key(1), 10, 1, now);
        assert_eq!(count(7), Ok(()));
        assert_eq!(count(16), Err(1));
        assert_eq!(count(17), Ok(()));
    }

    #[test]
    fn a_flood_of_clients_takes_no_memory_and_refuses_no_good_one() {
        let mut table = Table::default();
        let size = (table.0.len(), size_of_val(&table.0[..]));
        // One that sends too much all the while, among a million others.
        let (mut refused, bad) = (0, key(u64::MAX));
        for number in 1..=1_000_000 {
            assert_eq!(table.count(key(number), 1_000_000, 5, number), Ok(()));
            if number % 100 == 0 {
                refused += u32::from(table.count(bad, 1_000_000, 5, number).is_err());
            }
        }
        assert_eq!(size, (GROUPS, 1 << 20));
        assert_eq!(table.0.len(), GROUPS);
        assert!(refused > 9_900, "{refused}");
    }
}
