//! The number of workers that is wanted: an operator's, by load, or that of the settings. Pure arithmetic.

/// How many workers there shall be, in place of the number of the settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// As an operator wants, from 1 to the most of the settings. It goes before the load.
    pub operator: Option<u16>,
    /// By load. It counts within the range of the settings.
    pub load: Option<u16>,
}

impl Scale {
    /// How many workers are wanted where the settings say `least`, `most_by_load` at most by load, and `most` at all.
    pub fn wanted(self, least: u16, most_by_load: u16, most: u16) -> u16 {
        let by_load = self.load.unwrap_or(least);
        let by_load = by_load.clamp(least, most_by_load.max(least));
        let wanted = self.operator.unwrap_or(by_load);
        wanted.clamp(1, most.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operators_number_goes_before_the_load_and_that_stays_in_its_range() {
        let check = |operator, load, expect: u16| {
            let scale = Scale { operator, load };
            assert_eq!(scale.wanted(2, 8, 12), expect, "{scale:?}");
            // A fixed number follows no load.
            assert_eq!(
                scale.wanted(4, 4, 12),
                operator.map_or(4, |_| expect),
                "{scale:?}"
            );
        };
        check(None, None, 2);
        check(None, Some(5), 5);
        check(None, Some(1), 2);
        check(None, Some(9), 8);
        check(Some(1), Some(5), 1);
        check(Some(12), Some(5), 12);
        check(Some(13), None, 12);
    }
}
