//! What a server has gathered on its way to the one that replaces it: exceptions, slow requests and counts. Each part is JSON
//! in a file without a name, whose descriptor comes with the message. A part that cannot be read begins empty in the new
//! server: no reason not to serve. What is read is bounded, for the old server may be of another version.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use anyhow::{Context, Result};
use front::{FrequentPath, Front, SavedGroups, SlowRequest, frequent_paths};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::de::DeserializeOwned;

use crate::changes::handover::PartKind;
use crate::hosted::Hosted;
use crate::totals::{ServerTotals, Totals};

/// The longest file that is read, in bytes: more than any part can have.
const MAX_SAVED_BYTES: u64 = 64 * 1024 * 1024;

/// A part of the state. What it is for each application goes by its name, which is empty where a server has only one.
#[derive(Debug)]
pub(crate) enum Part {
    /// Groups of exceptions.
    Exceptions(BTreeMap<String, SavedGroups>),
    /// The slowest requests.
    SlowRequests(BTreeMap<String, Vec<SlowRequest>>),
    /// The public pages that clients ask for most.
    FrequentPaths(BTreeMap<String, Vec<FrequentPath>>),
    /// Counts since those that were given before.
    Totals(ServerTotals),
}

/// Where the state of a server is.
pub(crate) struct State {
    pub(crate) hosted: Vec<Rc<Hosted>>,
    pub(crate) totals: Rc<Totals>,
}

impl State {
    /// That of a server with this front and these applications.
    pub(crate) fn of(front: &Rc<Front>, hosted: &[Rc<Hosted>]) -> Rc<Self> {
        Rc::new(Self {
            hosted: hosted.to_vec(),
            totals: Rc::new(Totals::new(front, hosted)),
        })
    }

    /// Takes away what is there, and of counts what was not given yet.
    pub(crate) fn take(&self) -> Vec<Part> {
        let mut groups = self.each(|one| one.front.exceptions().take());
        groups.retain(|_, groups| !groups.is_empty());
        let mut slow = self.each(|one| one.front.take_slow_requests());
        slow.retain(|_, slow| !slow.is_empty());
        let mut parts = Vec::new();
        if !groups.is_empty() {
            parts.push(Part::Exceptions(groups));
        }
        if !slow.is_empty() {
            parts.push(Part::SlowRequests(slow));
        }
        parts.extend(self.take_counts());
        parts
    }

    /// A copy of the frequent paths, which a new server needs before its first generation; none where there are none.
    pub(crate) fn frequent_paths(&self) -> Option<Part> {
        let mut paths = self.each(|one| frequent_paths(&one.front).list(usize::MAX));
        paths.retain(|_, paths| !paths.is_empty());
        (!paths.is_empty()).then_some(Part::FrequentPaths(paths))
    }

    /// The same of counts alone.
    pub(crate) fn take_counts(&self) -> Option<Part> {
        self.totals.give().map(Part::Totals)
    }

    /// What each application has, by its name.
    fn each<T>(&self, of: impl Fn(&Hosted) -> T) -> BTreeMap<String, T> {
        let all = self.hosted.iter();
        let named = all.map(|one| (one.name().unwrap_or_default(), of(one)));
        named.collect()
    }

    /// Those applications that are here and in `parts`, each with its part.
    fn known<T>(&self, mut parts: BTreeMap<String, T>) -> Vec<(&Hosted, T)> {
        let all = self.hosted.iter();
        let known =
            all.filter_map(|one| Some((&**one, parts.remove(&one.name().unwrap_or_default())?)));
        known.collect()
    }

    /// Puts a part back that has not arrived.
    pub(crate) fn take_back(&self, part: Part) {
        match part {
            Part::Totals(rest) => self.totals.take_back(&rest),
            // Its counts have the right format: they are this server's.
            other => drop(self.add(other)),
        }
    }

    /// Adds a part of another server to this one's. That of an application that is not there is dropped.
    ///
    /// # Errors
    /// Its counts have another format.
    pub(crate) fn add(&self, part: Part) -> Result<()> {
        match part {
            Part::Exceptions(groups) => {
                for (one, groups) in self.known(groups) {
                    one.front.exceptions().merge(groups);
                }
            }
            Part::SlowRequests(slow) => {
                for (one, slow) in self.known(slow) {
                    one.front.merge_slow_requests(slow);
                }
            }
            Part::FrequentPaths(paths) => {
                for (one, paths) in self.known(paths) {
                    if one.front.settings().warm_up.frequent {
                        frequent_paths(&one.front).restore(paths);
                    }
                }
            }
            Part::Totals(totals) => self.totals.add(&totals)?,
        }
        Ok(())
    }
}

impl Part {
    /// Its kind.
    pub(crate) fn kind(&self) -> PartKind {
        match self {
            Self::Exceptions(_) => PartKind::Exceptions,
            Self::SlowRequests(_) => PartKind::SlowRequests,
            Self::FrequentPaths(_) => PartKind::FrequentPaths,
            Self::Totals(_) => PartKind::Totals,
        }
    }

    /// Writes it into a file.
    ///
    /// # Errors
    /// No descriptors or no memory are left.
    pub(crate) fn write(&self) -> io::Result<OwnedFd> {
        let mut file = File::from(memfd_create("highball-state", MemfdFlags::CLOEXEC)?);
        match self {
            Self::Exceptions(groups) => serde_json::to_writer(&mut file, groups)?,
            Self::SlowRequests(slow) => serde_json::to_writer(&mut file, slow)?,
            Self::FrequentPaths(paths) => serde_json::to_writer(&mut file, paths)?,
            Self::Totals(totals) => serde_json::to_writer(&mut file, totals)?,
        }
        file.rewind()?;
        Ok(file.into())
    }

    /// Reads what [`Part::write`] has written; none of a kind that this version does not know.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn read(kind: PartKind, file: OwnedFd) -> Result<Option<Self>> {
        Ok(Some(match kind {
            PartKind::Exceptions => Self::Exceptions(json(file)?),
            PartKind::SlowRequests => Self::SlowRequests(json(file)?),
            PartKind::FrequentPaths => Self::FrequentPaths(json(file)?),
            PartKind::Totals => Self::Totals(json(file)?),
            PartKind::Unknown => return Ok(None),
        }))
    }
}

fn json<T: DeserializeOwned>(file: OwnedFd) -> Result<T> {
    let mut text = Vec::new();
    File::from(file)
        .take(MAX_SAVED_BYTES)
        .read_to_end(&mut text)?;
    serde_json::from_slice(&text).context("it is no JSON of the kind that this server writes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let totals = ServerTotals::default();
        let parts = [
            Part::Exceptions(BTreeMap::from([(
                "shop".to_owned(),
                SavedGroups::default(),
            )])),
            Part::SlowRequests(BTreeMap::from([("shop".to_owned(), Vec::new())])),
            Part::FrequentPaths(BTreeMap::from([(
                "shop".to_owned(),
                vec![FrequentPath::default()],
            )])),
            Part::Totals(totals),
        ];
        for part in parts {
            let file = part.write().expect("a file");
            let read = Part::read(part.kind(), file).expect("JSON").expect("known");
            assert_eq!(format!("{read:?}"), format!("{part:?}"));
        }
    }

    #[test]
    fn what_is_something_else_is_an_error() {
        for kind in [
            PartKind::Exceptions,
            PartKind::SlowRequests,
            PartKind::FrequentPaths,
            PartKind::Totals,
        ] {
            let file = memfd_create("test", MemfdFlags::CLOEXEC).expect("a file");
            assert!(Part::read(kind, file).is_err());
        }
    }

    #[test]
    fn a_kind_of_a_later_version_is_nothing() {
        let kind = serde_json::from_str("\"Colours\"").expect("a kind");
        let file = memfd_create("test", MemfdFlags::CLOEXEC).expect("a file");
        assert_eq!(kind, PartKind::Unknown);
        assert!(Part::read(kind, file).expect("no error").is_none());
    }
}
