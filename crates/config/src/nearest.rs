//! The nearest known name to one that was mistyped. Pure.

/// The candidate with the fewest changes to `name`; the first of equals, `None` only without candidates.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let name = name.to_lowercase().replace('-', "_");
    candidates.min_by_key(|candidate| distance(&name, candidate))
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1)
                .min(row[j - 1] + 1)
                .min(rows[i - 1][j - 1] + changed);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_changes() {
        let check = |a: &str, b: &str, expect: usize| assert_eq!(distance(a, b), expect, "{a} {b}");
        check("", "", 0);
        check("", "abc", 3);
        check("threads", "threads", 0);
        check("thread", "threads", 1);
        check("theads", "threads", 1);
        check("htreads", "threads", 1);
        check("kitten", "sitting", 3);
    }

    #[test]
    fn the_nearest_name_wins() {
        let check = |name: &str, expect: &str| {
            let known = ["listen", "workers", "threads", "max_body_bytes"];
            assert_eq!(nearest(name, known.into_iter()), Some(expect), "{name}");
        };
        check("worker", "workers");
        check("Threads", "threads");
        check("max-body-bytes", "max_body_bytes");
        check("max_body_size", "max_body_bytes");
        check("lisent", "listen");
    }
}
