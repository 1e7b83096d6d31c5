//! The names by which commands find a server: its folder, its file of settings, its process. Each name is a file in a
//! directory of control sockets. Opens nothing.

use std::hash::Hasher;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How the file name of each control socket ends.
pub(crate) const SUFFIX: &str = ".sock";

/// One of a server's names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServerName<'a> {
    /// Its application's folder, canonical.
    Dir(&'a Path),
    /// Its file of settings, canonical.
    Config(&'a Path),
    /// Its process.
    Pid(i32),
}

impl ServerName<'_> {
    /// Returns the name of its socket's file, for a server in this process's PID namespace.
    pub(crate) fn file_name(self) -> String {
        self.file_name_of(Path::new("/proc/self"))
    }

    /// Returns the same for a server in the PID namespace of `process`, a folder of `/proc`. Servers in different
    /// namespaces never have the same names, such as those of two containers that share the directory.
    pub(crate) fn file_name_of(self, process: &Path) -> String {
        let namespace = process_namespace(process);
        match self {
            Self::Dir(path) => format!("dir-{:016x}-{namespace}{SUFFIX}", hash(path)),
            Self::Config(path) => format!("config-{:016x}-{namespace}{SUFFIX}", hash(path)),
            Self::Pid(pid) => format!("pid-{pid}-{namespace}{SUFFIX}"),
        }
    }
}

/// Returns the number of a process's PID namespace (pid_namespaces(7)); 0 where the kernel does not say.
fn process_namespace(process: &Path) -> u64 {
    let link = std::fs::read_link(process.join("ns/pid")).unwrap_or_default();
    let link = link.to_string_lossy();
    let number = link
        .strip_prefix("pid:[")
        .and_then(|rest| rest.strip_suffix(']'));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Hashes with FNV-1a, which is the same in every version of this program, unlike the standard library's hashes.
fn hash(path: &Path) -> u64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    let mut fnv = Fnv(0xcbf2_9ce4_8422_2325);
    fnv.write(path.as_os_str().as_bytes());
    fnv.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_folders_never_change() {
        assert_eq!(hash(Path::new("")), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(Path::new("a")), 0xaf63_dc4c_8601_ec8c);
        assert_ne!(hash(Path::new("/srv/a")), hash(Path::new("/srv/b")));
    }
}
