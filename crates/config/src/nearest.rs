//! The nearest known name to a mistyped one. Pure.

/// Returns the candidate with the fewest edits (insertions, deletions, substitutions, swaps of neighbours) from `name`; the
/// first of several, `None` only without candidates.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let name = name.to_lowercase().replace('-', "_");
    candidates.min_by_key(|candidate| strsim::osa_distance(&name, candidate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_wins() {
        let check = |name: &str, expect: &str| {
            let known = ["listen", "workers", "threads", "max_body_bytes"];
            assert_eq!(nearest(name, known.into_iter()), Some(expect), "{name}");
        };
        check("worker", "workers");
        check("Threads", "threads");
        check("theads", "threads");
        check("htreads", "threads");
        check("max-body-bytes", "max_body_bytes");
        check("max_body_size", "max_body_bytes");
        check("lisent", "listen");
    }
}
