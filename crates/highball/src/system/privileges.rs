//! The rights of this process: the user and group that it becomes once its ports are bound, and the capabilities that it
//! gives up then. To be used before any other thread is started: the kernel keeps these rights for each thread.

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
    /// The user of this process.
    pub(crate) fn of_this_process() -> Self {
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    /// Makes this user the owner of a file.
    ///
    /// # Errors
    /// This process may not.
    pub(crate) fn own(self, file: impl AsFd) -> rustix::io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        rustix::fs::fchown(file, Some(uid), Some(gid))
    }
}

/// The user that a server becomes, by its settings.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    user: User,
    /// The entry of `user` in the system's table.
    entry: Option<nix::unistd::User>,
    /// Whether `group` is set.
    has_group: bool,
}

impl Identity {
    /// Finds user and group in the system's tables.
    ///
    /// # Errors
    /// There is no such user or group.
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

    /// Finds the user of an application that has one of its own.
    ///
    /// # Errors
    /// There is no such user or group, or it is root.
    pub(crate) fn of_application(name: &str, group: Option<&str>) -> Result<Self> {
        let entry = user_named(name)?;
        if entry.uid.is_root() {
            bail!("its user is root, which an application must not be; set user to one of its own");
        }
        let gid = match group {
            Some(group) => group_named("group", group)?,
            None => entry.gid.as_raw(),
        };
        Ok(Self {
            user: User {
                uid: entry.uid.as_raw(),
                gid,
            },
            entry: Some(entry),
            has_group: group.is_some(),
        })
    }

    /// The name of the user, or its number where the settings name none.
    pub(crate) fn name(&self) -> String {
        let entry = self.entry.as_ref();
        entry.map_or_else(|| self.user.uid.to_string(), |entry| entry.name.clone())
    }

    /// Becomes that user with its groups and without any capability, for good. Other processes of that user cannot look into
    /// this one, for it stays undumpable.
    ///
    /// # Errors
    /// Only root may become another user.
    pub(crate) fn become_alone(&self) -> Result<()> {
        self.change(User::of_this_process())?;
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, none).context("cannot give up capabilities")?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot become undumpable")?;
        if nix::unistd::setuid(nix::unistd::Uid::from_raw(0)).is_ok() {
            bail!("the kernel lets user {} become root again", self.name());
        }
        Ok(())
    }

    /// User and group.
    pub(crate) fn user(&self) -> User {
        self.user
    }

    /// The variables that name the user (`HOME`, `USER`, `LOGNAME`); none where the settings name no user.
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

    /// Becomes that user, with its groups, and gives up capabilities.
    ///
    /// # Errors
    /// Only root may become another user.
    pub(crate) fn assume(&self) -> Result<()> {
        let now = User::of_this_process();
        if now != self.user {
            self.change(now)?;
        }
        give_up_capabilities().context("cannot give up capabilities")?;
        // Workers open bodies of requests through this process's entry in /proc, which belongs to root once a process has
        // changed its user or held capabilities.
        set_dumpable_behavior(DumpableBehavior::Dumpable)
            .context("cannot let workers read /proc of this process")?;
        Ok(())
    }

    fn change(&self, now: User) -> Result<()> {
        if now.uid != 0 {
            bail!(
                "cannot become {} (settings user and group): this server was started as uid {} and gid {}, and only root can \
                 change its user; start it as root, or remove these settings",
                self.described(),
                now.uid,
                now.gid
            );
        }
        let failed = || {
            format!(
                "cannot become {} (settings user and group)",
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
        // Group first: afterwards this process lacks the right to. This applies to all threads and cannot be undone.
        nix::unistd::setgid(gid).with_context(failed)?;
        let uid = nix::unistd::Uid::from_raw(self.user.uid);
        nix::unistd::setuid(uid).with_context(failed)?;
        Ok(())
    }

    /// User and group for people, with their numbers.
    pub(crate) fn described(&self) -> String {
        let user = self.entry.as_ref().map_or_else(
            || format!("user {}", self.user.uid),
            |entry| format!("user {} ({})", entry.name, self.user.uid),
        );
        format!("{user} with group {}", self.user.gid)
    }
}

/// Returns the warning about a server that runs as root although no setting says so, and with it each application without a
/// user of its own.
pub(crate) fn root_warning(settings: &Settings, any_application: bool) -> Option<&'static str> {
    let unasked = settings.environment == "production" && settings.user.is_none();
    let text = match any_application {
        true => {
            "the application runs as root: set user to a user of its own (or to \"root\" if you want that)"
        }
        false => {
            "the front runs as root: set user above the first [[application]] to a user of its own (or to \"root\" if you want \
             that)"
        }
    };
    (unasked && rustix::process::geteuid().is_root()).then_some(text)
}

/// Returns the number of a group in the system's table.
///
/// # Errors
/// There is no such group; the error names the setting.
pub(crate) fn group_named(setting: &str, name: &str) -> Result<u32> {
    let found = nix::unistd::Group::from_name(name);
    let found = found.with_context(|| format!("cannot look for the group {name:?}"))?;
    let by_number = || {
        let gid = name.parse().ok()?;
        nix::unistd::Group::from_gid(nix::unistd::Gid::from_raw(gid)).ok()?
    };
    let group = found.or_else(by_number);
    let group = group.with_context(|| format!("there is no group {name:?} (setting {setting})"))?;
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
    user.with_context(|| format!("there is no user {name:?} (setting user)"))
}

/// Gives up the capabilities of a process that does not run as root: the one to bind low ports, and all that workers will
/// not have. A process may look into another one in /proc only if that one has no more capabilities.
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
    // A capability that is not permitted is not ambient either.
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
