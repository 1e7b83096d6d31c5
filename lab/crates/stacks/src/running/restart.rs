//! A restart of a stack without a break, by the command that its file names.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use super::{POLL, Running};
use crate::keeper::kept::remove_unwanted_variables;

/// When a restart began, when its command had ended, and when no process of before was left but the one that clients talk to.
#[derive(Debug, Clone, Copy)]
pub struct Restarted {
    /// The command was started.
    pub began: Instant,
    /// It ended well.
    pub served: Instant,
    /// The processes of before had ended.
    pub gone: Instant,
}

impl Running {
    /// Restarts the stack and waits until its processes of before have ended, at most until `deadline`.
    ///
    /// # Errors
    /// Its file names no command, the command fails, or a process of before is still there at the deadline.
    pub fn restart(&mut self, deadline: Instant) -> Result<Restarted> {
        let entry = self.entry().context("it has no process of its own")?;
        let Some((program, arguments)) = self.restart.split_first() else {
            bail!("its file in lab/stacks names no command for a restart");
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .arg(entry.to_string())
            .stdin(Stdio::null());
        remove_unwanted_variables(&mut command, std::env::vars_os().map(|(name, _)| name));
        let members = self.tree.members();
        let earlier: BTreeSet<i32> = members.iter().map(|one| one.pid).collect();
        let began = Instant::now();
        let output = command
            .output()
            .with_context(|| format!("can't run {}", command.get_program().display()))?;
        if !output.status.success() {
            bail!(
                "its restart failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let served = Instant::now();
        loop {
            let members = self.tree.members();
            let gone = Instant::now();
            let left = |pid: i32| pid != entry && earlier.contains(&pid);
            if !members.iter().any(|one| left(one.pid)) {
                return Ok(Restarted {
                    began,
                    served,
                    gone,
                });
            }
            if gone > deadline {
                bail!("processes of before the restart were still there when the load ended");
            }
            thread::sleep(POLL * 5);
        }
    }
}
