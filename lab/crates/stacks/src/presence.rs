//! Whether a stack can be started here: each of its programs, or the command that installs what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::definition::Definition;

/// Whether a stack can be started here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// It can; versions by the names of its programs.
    Installed {
        /// Versions by program.
        versions: BTreeMap<String, String>,
    },
    /// It can't.
    Missing {
        /// Why.
        reason: String,
        /// The command that installs what is missing, where there is one.
        install: Option<String>,
    },
}

impl Definition {
    /// Whether it can be started here, with this `highball`.
    pub fn presence_of(&self, highball: &Path) -> Presence {
        if self.url.as_deref() == Some("") {
            return Presence::Missing {
                reason: "no address: give one with --url NAME=http://host:port".to_owned(),
                install: None,
            };
        }
        let mut versions = BTreeMap::new();
        let (mut reasons, mut installs, mut may_do) = (Vec::new(), Vec::new(), true);
        for program in &self.programs {
            match program.look_up(highball) {
                Ok(found) => {
                    versions.extend(found.version.map(|version| (program.name.clone(), version)))
                }
                Err(reason) => {
                    let caveat = program.caveat.as_ref();
                    reasons.push(
                        caveat.map_or(reason.clone(), |caveat| format!("{reason}: {caveat}")),
                    );
                    // With one that may not do, the others alone are no answer.
                    may_do &= caveat.is_none();
                    installs.push(program.install.clone());
                }
            }
        }
        if reasons.is_empty() {
            return Presence::Installed { versions };
        }
        Presence::Missing {
            reason: reasons.join("; "),
            install: may_do.then(|| together(installs)),
        }
    }

    /// Where its programs are, by name; those that are missing are left out.
    pub(super) fn program_paths(&self, highball: &Path) -> BTreeMap<String, String> {
        let found = self.programs.iter().filter_map(|program| {
            Some((
                program.name.clone(),
                program.path(highball)?.display().to_string(),
            ))
        });
        found.collect()
    }
}

/// Several commands as one: what the same installer installs becomes one call of it.
fn together(installs: Vec<String>) -> String {
    const APT: &str = "apt-get install ";
    let (packages, mut others): (Vec<String>, Vec<String>) = installs
        .into_iter()
        .partition(|command| command.starts_with(APT));
    if !packages.is_empty() {
        let names: BTreeSet<&str> = packages
            .iter()
            .flat_map(|command| command[APT.len()..].split_whitespace())
            .collect();
        others.insert(
            0,
            format!("{APT}{}", names.into_iter().collect::<Vec<_>>().join(" ")),
        );
    }
    others.dedup();
    others.join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_installed_by_one_command() {
        assert_eq!(
            together(
                ["apt-get install b a", "gem install c", "apt-get install a"]
                    .map(str::to_owned)
                    .to_vec()
            ),
            "apt-get install a b && gem install c"
        );
    }
}
