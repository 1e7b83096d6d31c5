//! The differences between the settings of a running server and those that it has read again. It only compares them.

use crate::setting::Reload;
use crate::table::{SETTINGS, Settings};

/// A setting whose value has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The setting.
    pub name: &'static str,
    /// The old value, as written in a flag.
    pub from: String,
    /// The new value.
    pub to: String,
    /// What the change needs.
    pub reload: Reload,
}

impl Settings {
    /// Returns the settings that differ in `new`, in the order of the documentation.
    pub fn changes(&self, new: &Self) -> Vec<Change> {
        let pairs = self.values().into_iter().zip(new.values());
        let pairs = SETTINGS.iter().zip(pairs);
        let changed = pairs.filter(|(_, (from, to))| from != to);
        let change = changed.map(|(setting, (from, to))| Change {
            name: setting.name,
            from: setting.shown(&from),
            to: setting.shown(&to),
            reload: setting.reload,
        });
        change.collect()
    }

    /// Returns the settings that a running server uses after reading `new`: those, but its own where a change needs a new start.
    #[must_use]
    pub fn reloaded(&self, new: &Self) -> Self {
        let of = |settings: &Self| {
            let values = settings.values().into_iter();
            values.zip(settings.origins.clone()).collect::<Vec<_>>()
        };
        let pairs = of(self).into_iter().zip(of(new));
        let kept = SETTINGS.iter().zip(pairs);
        let kept = kept.map(|(setting, (old, new))| match setting.reload {
            Reload::Start => old,
            Reload::AtOnce | Reload::Generation => new,
        });
        Self::from_values(kept.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn changes_are_listed_as_they_are_written() {
        let old = Settings::for_tests();
        let mut new = old.clone();
        assert_eq!(old.changes(&new), []);
        new.request_timeout = Some(Duration::from_millis(1500));
        new.threads = 5.into();
        new.backlog = 7;
        let changes = old.changes(&new);
        let changes = changes.iter().map(|change| {
            let Change { name, from, to, .. } = change;
            (*name, &**from, &**to, change.reload)
        });
        let expect = [
            ("backlog", "1024", "7", Reload::Start),
            ("threads", "3", "5", Reload::Generation),
            ("request_timeout", "1m", "1500ms", Reload::AtOnce),
        ];
        assert_eq!(changes.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn what_only_a_start_changes_stays_with_its_origin() {
        let old = Settings::for_tests();
        let mut new = old.clone();
        new.threads = 5.into();
        new.backlog = 7;
        let backlog = SETTINGS.iter().position(|one| one.name == "backlog");
        let backlog = backlog.expect("a setting of the table");
        new.origins[backlog].auto = true;
        let reloaded = old.reloaded(&new);
        assert_eq!((reloaded.threads.most(), reloaded.backlog), (5, 1024));
        assert_eq!(reloaded.origins[backlog], old.origins[backlog]);
    }
}
