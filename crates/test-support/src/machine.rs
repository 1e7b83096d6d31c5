//! A virtual machine for what a test must not do to the machine that it runs on: a systemd as the first process, and
//! control groups of its own. It has this machine's `/usr`, under a layer that takes what is written, and the files of
//! a folder; no disk and no network. It never changes anything outside, and nothing of it is left when it is over.
//!
//! Its processors are QEMU's own (TCG) and some ten times slower than real ones. KVM would need rights, and is broken on
//! many a machine that is a virtual one itself.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use thiserror::Error;

use crate::directory::Directory;
use crate::process::Process;
use crate::program::{Program, workspace};

/// How long the making of what is booted may take: two packages come from the archive.
const MAKE: Duration = Duration::from_secs(300);
/// The lines of the console that a failure shows.
const SHOWN: usize = 60;

/// Where a program in the machine writes what is to be read outside.
pub const REPORT: &str = "/dev/ttyS1";

/// Why there is no report.
#[derive(Debug, Error)]
pub enum MachineError {
    /// What it boots could not be made.
    #[error("scripts/virtual-machine: {0}")]
    NotMade(String),
    /// It could not be started.
    #[error("qemu-system-x86_64 failed ({status}; scripts/install test installs it): {said}")]
    NotStarted {
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        said: String,
    },
    /// It did not come to an end.
    #[error(
        "the virtual machine did not end within {patience:?}; its report and the end of its console:\n{left}"
    )]
    Late {
        /// How long it had.
        patience: Duration,
        /// What it has left.
        left: Box<Left>,
    },
}

/// What a machine has left.
#[derive(Debug)]
pub struct Left {
    /// What was written to [`REPORT`].
    pub report: String,
    /// What its kernel and its systemd said.
    pub console: String,
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<&str> = self.console.lines().collect();
        let end = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
        write!(f, "{}\n--- the console\n{end}\n---", self.report)
    }
}

/// Boots a machine with these files next to `/usr` and waits until it has powered off.
///
/// # Errors
/// There is no qemu, nothing to boot, or it does not power off within `patience` (then it is killed).
pub fn run_machine(files: &Directory, patience: Duration) -> Result<Left, MachineError> {
    let made = make()?;
    let dir = Directory::new();
    let (console, report, said) = (dir.join("console"), dir.join("report"), dir.join("said"));
    // Whatever becomes of this test's process, the kernel ends the machine with it: with the thread that starts it,
    // which waits below.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args([
            "-display", "none", "-cpu", "qemu64", "-smp", "2", "-m", "2048",
        ])
        .args(["-machine", "q35,accel=tcg"])
        .arg("-kernel")
        .arg(made.join("vmlinuz"))
        .arg("-initrd")
        .arg(made.join("initramfs"))
        .args([
            "-append",
            // On a busy machine the kernel sees no tick in the time in which it looks for one, and gives up.
            "console=ttyS0 panic=-1 mitigations=off systemd.show_status=0 no_timer_check",
        ]);
    for file in [&console, &report] {
        command.arg("-serial").arg(joined("file:", file));
    }
    for (tag, path) in [("files", files.path()), ("usr", Path::new("/usr"))] {
        let options = "security_model=none,readonly=on,multidevs=remap";
        let shared = joined(&format!("local,id={tag},{options},path="), path);
        let device = format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}");
        command.arg("-fsdev").arg(shared).args(["-device", &device]);
    }
    let words = File::create(&said).expect("a file in a directory of our own");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(words)
        .spawn()
        .expect("setpriv (util-linux) is everywhere");
    let ended = Process(child.id()).wait_gone(patience);
    if !ended {
        // It may have ended just now.
        let _ = child.kill();
    }
    let status = child.wait().expect("a child of ours");
    let left = Left {
        report: read(&report),
        console: read(&console),
    };
    match (ended, status.success()) {
        (true, true) => Ok(left),
        (true, false) => Err(MachineError::NotStarted {
            status,
            said: read(&said),
        }),
        (false, _) => Err(MachineError::Late {
            patience,
            left: Box::new(left),
        }),
    }
}

/// The folder with the kernel and its first file system.
fn make() -> Result<PathBuf, MachineError> {
    let folder = workspace().join("target/virtual-machine");
    let ran = Program::new(workspace().join("scripts/virtual-machine"))
        .arg(&folder)
        .patience(MAKE)
        .run();
    match ran.status.success() {
        true => Ok(folder),
        false => Err(MachineError::NotMade(ran.output())),
    }
}

fn joined(before: &str, path: &Path) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from(before);
    text.push(path);
    text
}

/// A text from a terminal, whose lines end as a terminal's do; empty where there is none.
fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\r', "")
}
