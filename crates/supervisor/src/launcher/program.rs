//! A program to be started: its path, arguments, folder, variables and limits. The server starts it as its own user, and a
//! launcher as another one, in the same way. Knows no Ruby.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde::{Deserialize, Serialize};

/// A program to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// Its path, or a name to look up in `PATH`.
    pub(crate) path: String,
    pub(crate) arguments: Vec<String>,
    /// Where it begins.
    pub(crate) folder: String,
    /// Variables that it does not get.
    pub(crate) removed: Vec<String>,
    /// Variables that it gets in addition, or in place of others.
    pub(crate) variables: Vec<(String, String)>,
    /// Whether it is a process group of its own.
    pub(crate) own_group: bool,
    /// Its soft limit of descriptors (RLIMIT_NOFILE); `None` for that of the process that starts it.
    pub(crate) descriptors: Option<u64>,
}

impl Program {
    /// Starts it. Blocks until the kernel has loaded it.
    ///
    /// # Errors
    /// It cannot be run, or its folder not be entered.
    pub(crate) fn start(&self, stdin: OwnedFd) -> io::Result<Child> {
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::from(stdin));
        if self.own_group {
            command.process_group(0);
        }
        for name in &self.removed {
            command.env_remove(name);
        }
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        let child = command.spawn()?;
        limit_descriptors(Pid::from_child(&child), self.descriptors);
        Ok(child)
    }
}

/// Sets the soft limit of a process that has just been started, and waits for its first message.
fn limit_descriptors(pid: Pid, soft: Option<u64>) {
    let Some(soft) = soft else { return };
    let limit = Rlimit {
        current: Some(soft),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    // Where the kernel refuses it has more of them.
    let _ = prlimit(Some(pid), Resource::Nofile, limit);
}
