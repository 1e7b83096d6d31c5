//! The nearest known name to a mistyped one. Pure.

/// Returns the index of the candidate with the fewest edits (insertions, deletions, substitutions, swaps of neighbours) from
/// `name`, and the number of edits; the first of several, `None` only without candidates.
pub fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<(usize, usize)> {
    let name = name.to_lowercase().replace('-', "_");
    let candidates = candidates.into_iter().enumerate();
    let edits = candidates.map(|(at, candidate)| (at, strsim::osa_distance(&name, candidate)));
    edits.min_by_key(|(_, edits)| *edits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_wins() {
        let check = |name: &str, expect: (&str, usize)| {
            let known = ["listen", "workers", "threads", "max_body_bytes"];
            let (found, edits) = nearest(name, known).unwrap();
            assert_eq!((known[found], edits), expect, "{name}");
        };
        check("worker", ("workers", 1));
        check("Threads", ("threads", 0));
        check("theads", ("threads", 1));
        check("htreads", ("threads", 1));
        check("max-body-bytes", ("max_body_bytes", 0));
        check("max_body_size", ("max_body_bytes", 4));
        check("lisent", ("listen", 2));
    }
}
