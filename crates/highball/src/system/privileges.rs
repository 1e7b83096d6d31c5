//! What this process may do: the user and group that it becomes once its ports are bound, and the capabilities that it
//! gives up then. Before any other thread is started: the kernel keeps these for each thread.

use std::ffi::CString;
use std::os::fd::AsFd;

use anyhow::{Context, Result, bail};
use config::Settings;
use rustix::fs::{Gid, Uid};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// The numbers of a user and its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    /// That of this process.
    pub(crate) fn of_this_process() -> Self {
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    /// Makes it the owner of a file.
    ///
    /// # Errors
    /// This process may not.
    pub(crate) fn own(self, file: impl AsFd) -> rustix::io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        rustix::fs::fchown(file, Some(uid), Some(gid))
    }
}

/// Who a server is to be, by its settings.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    user: User,
    /// The entry of the user that was named.
    entry: Option<nix::unistd::User>,
    /// Whether a group was named.
    has_group: bool,
}

impl Identity {
    /// Finds user and group in the system's tables.
    ///
    /// # Errors
    /// There is none of that name.
    pub(crate) fn find(settings: &Settings) -> Result<Self> {
        let mut user = User::of_this_process();
        let entry = settings.user.as_deref().map(user_named).transpose()?;
        if let Some(entry) = &entry {
            user = User {
                uid: entry.uid.as_raw(),
                gid: entry.gid.as_raw(),
            };
        }
        if let Some(name) = &settings.group {
            user.gid = group_named("group", name)?;
        }
        Ok(Self {
            user,
            entry,
            has_group: settings.group.is_some(),
        })
    }

    /// User and group.
    pub(crate) fn user(&self) -> User {
        self.user
    }

    /// The variables by which programs know who they are; none where the settings name no user.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let entry = self.entry.iter().flat_map(|entry| {
            let home = entry.dir.display().to_string();
            [
                ("HOME", home),
                ("USER", entry.name.clone()),
                ("LOGNAME", entry.name.clone()),
            ]
        });
        entry
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Has this process be that user, with its groups, and gives up what it does not need any more.
    ///
    /// # Errors
    /// Only root may become another user.
    pub(crate) fn assume(&self) -> Result<()> {
        let now = User::of_this_process();
        if now != self.user {
            self.change(now)?;
        }
        give_up_capabilities().context("cannot give up capabilities")?;
        // Workers open bodies of requests by this process's entry in /proc, which the kernel gives to root as soon as a
        // process has changed its user or held capabilities of its own.
        set_dumpable_behavior(DumpableBehavior::Dumpable).context("cannot be read by workers")?;
        Ok(())
    }

    fn change(&self, now: User) -> Result<()> {
        if now.uid != 0 {
            bail!(
                "this server was started as user {} and group {}, and only root can become {} (settings `user` and \
                 `group`): start it as root, or leave these settings out",
                now.uid,
                now.gid,
                self.described()
            );
        }
        let failed = || {
            format!(
                "cannot become {} (settings `user` and `group`)",
                self.described()
            )
        };
        let gid = nix::unistd::Gid::from_raw(self.user.gid);
        match &self.entry {
            Some(entry) if !entry.uid.is_root() => {
                let name = CString::new(entry.name.as_str()).with_context(failed)?;
                nix::unistd::initgroups(&name, gid).with_context(failed)?;
            }
            _ if self.has_group => nix::unistd::setgroups(&[gid]).with_context(failed)?,
            _ => {}
        }
        // Group first: without root's rights it would be too late. Of all threads, and with no way back.
        nix::unistd::setgid(gid).with_context(failed)?;
        let uid = nix::unistd::Uid::from_raw(self.user.uid);
        nix::unistd::setuid(uid).with_context(failed)?;
        Ok(())
    }

    fn described(&self) -> String {
        let user = self.entry.as_ref().map_or_else(
            || format!("user {}", self.user.uid),
            |entry| format!("user {} ({})", entry.name, self.user.uid),
        );
        format!("{user} with group {}", self.user.gid)
    }
}

/// What to log about a server whose application runs as root although nobody asked for that.
pub(crate) fn root_warning(settings: &Settings) -> Option<&'static str> {
    let unasked = settings.environment == "production" && settings.user.is_none();
    (unasked && rustix::process::geteuid().is_root()).then_some(
        "the application runs as root: set `user` to a user of its own (or to \"root\", if that is what you want)",
    )
}

/// The number of a group of the system's table.
///
/// # Errors
/// There is none; names the setting.
pub(crate) fn group_named(setting: &str, name: &str) -> Result<u32> {
    let found = nix::unistd::Group::from_name(name);
    let found = found.with_context(|| format!("cannot look for the group {name:?}"))?;
    let by_number = || {
        let gid = name.parse().ok()?;
        nix::unistd::Group::from_gid(nix::unistd::Gid::from_raw(gid)).ok()?
    };
    let group = found.or_else(by_number);
    let group =
        group.with_context(|| format!("there is no group {name:?} (setting `{setting}`)"))?;
    Ok(group.gid.as_raw())
}

fn user_named(name: &str) -> Result<nix::unistd::User> {
    let found = nix::unistd::User::from_name(name);
    let found = found.with_context(|| format!("cannot look for the user {name:?}"))?;
    let by_number = || {
        let uid = name.parse().ok()?;
        nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok()?
    };
    let user = found.or_else(by_number);
    user.with_context(|| format!("there is no user {name:?} (setting `user`)"))
}

/// Gives up the capabilities of a process that is not root's: to bind low ports, and all that its workers will not have
/// anyway. The kernel lets a process look into another one only if that has no capability more.
fn give_up_capabilities() -> rustix::io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let before = capabilities(None)?;
    if (before.permitted | before.effective).is_empty() {
        return Ok(());
    }
    let ambient =
        |one: &CapabilitySet| rustix::thread::capability_is_in_ambient_set(*one).unwrap_or(false);
    let kept = single(before.permitted)
        .filter(|one| *one != CapabilitySet::NET_BIND_SERVICE)
        .filter(ambient)
        .fold(CapabilitySet::empty(), |kept, one| kept | one);
    // What is no longer permitted is no longer ambient.
    set_capabilities(
        None,
        CapabilitySets {
            effective: before.effective & kept,
            permitted: kept,
            inheritable: before.inheritable & kept,
        },
    )
}

/// Each capability of a set.
fn single(set: CapabilitySet) -> impl Iterator<Item = CapabilitySet> {
    let bits = (0..u64::BITS).map(|bit| 1 << bit);
    let held = bits.filter(move |bit| set.bits() & bit != 0);
    held.map(CapabilitySet::from_bits_retain)
}
