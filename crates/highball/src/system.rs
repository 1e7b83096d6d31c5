//! What this process has to do with the kernel and the service manager: its rights, its program, its signals.

pub(crate) mod allocator;
pub(crate) mod pid_file;
pub(crate) mod private_file;
pub(crate) mod privileges;
pub(crate) mod program;
pub(crate) mod signals;
pub(crate) mod state_folder;
pub(crate) mod systemd;
pub(crate) mod terminal;
pub(crate) mod trusted_file;
pub(crate) mod working_folder;
