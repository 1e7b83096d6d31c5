//! The folder in which accounts, certificates and back-off outlive the server:
//!
//! ```text
//! STORAGE/                      acme_storage
//!   AUTHORITY/                  one for each directory address
//!     account.json              the account and its key
//!     account.lock
//!     NAMES/                    one for each set of names
//!       certificate.pem         private key, certificate and chain
//!       order-key.pem           the key of an order on its way
//!       state.json              order, back-off, renewal information
//!       lock                    held (flock) during an order
//! ```
//!
//! Folders have mode 0700, files 0600. A file is replaced as a whole, and synced. Nothing here waits for a lock.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::certificate::Certificate;
use crate::failure::Failure;
use crate::names::Names;
use crate::state::State;

/// A larger file of the storage is not read, in bytes.
const MAX_STORED_BYTES: u64 = 1024 * 1024;
/// The space that must be free before an order begins, in bytes: key, chain and state fit.
const RESERVED_BYTES: usize = 64 * 1024;
/// The longest name of an authority's folder, in bytes.
const MAX_AUTHORITY_BYTES: usize = 200;

const ACCOUNT: &str = "account.json";
const CERTIFICATE: &str = "certificate.pem";
const ORDER_KEY: &str = "order-key.pem";
const STATE: &str = "state.json";

/// The folder of one certificate authority.
#[derive(Clone, Debug)]
pub(crate) struct Storage(PathBuf);

impl Storage {
    /// The folder for this directory address. Makes nothing.
    pub(crate) fn new(storage: &Path, directory: &str) -> Self {
        let address = directory
            .split_once("://")
            .map_or(directory, |(_, rest)| rest);
        let plain = |c: char| match c.is_ascii_alphanumeric() || c == '.' {
            true => c,
            false => '-',
        };
        let name: String = address
            .chars()
            .map(plain)
            .take(MAX_AUTHORITY_BYTES)
            .collect();
        Self(storage.join(name.trim_start_matches('.')))
    }

    /// The folder for these names. Makes nothing.
    pub(crate) fn set(&self, names: &Names) -> SetStorage {
        SetStorage(self.0.join(names.folder()))
    }

    /// The sets of names that have a folder.
    pub(crate) fn sets(&self) -> io::Result<Vec<Names>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut sets: Vec<Names> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().is_dir())
            .filter_map(|entry| Names::from_folder(entry.file_name().to_str()?))
            .collect();
        sets.sort();
        Ok(sets)
    }

    /// The account, as JSON.
    pub(crate) fn read_account(&self) -> Result<Option<String>, Failure> {
        read(&self.0.join(ACCOUNT))
    }

    pub(crate) fn write_account(&self, json: &str) -> Result<(), Failure> {
        make_folder(&self.0)?;
        replace(&self.0.join(ACCOUNT), json.as_bytes())
    }

    /// Puts an account aside that the authority does not know.
    pub(crate) fn discard_account(&self) -> Result<(), Failure> {
        let path = self.0.join(ACCOUNT);
        match fs::rename(&path, self.0.join("account.unknown.json")) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Failure::storage("rename", &path, &error))
            }
            _ => Ok(()),
        }
    }

    /// Takes the lock of the account; `None` while another process has it.
    pub(crate) fn lock_account(&self) -> Result<Option<Lock>, Failure> {
        make_folder(&self.0)?;
        Lock::take(&self.0.join("account.lock"))
    }
}

/// All sets of names of all authorities in a storage folder.
pub(crate) fn sets_of_all_authorities(storage: &Path) -> io::Result<Vec<(Names, SetStorage)>> {
    let mut all = Vec::new();
    let mut authorities: Vec<PathBuf> = fs::read_dir(storage)?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    authorities.sort();
    for path in authorities {
        let authority = Storage(path);
        for names in authority.sets()? {
            let set = authority.set(&names);
            all.push((names, set));
        }
    }
    Ok(all)
}

/// The folder of one set of names.
#[derive(Clone, Debug)]
pub(crate) struct SetStorage(PathBuf);

impl SetStorage {
    /// Takes the lock for an order; `None` while another process has it.
    pub(crate) fn lock(&self) -> Result<Option<Lock>, Failure> {
        make_folder(&self.0)?;
        Lock::take(&self.0.join("lock"))
    }

    /// The certificate. One that cannot be read as such is put aside, and there is none.
    pub(crate) fn read_certificate(&self) -> Result<Option<Certificate>, Failure> {
        let path = self.0.join(CERTIFICATE);
        let Some(pem) = read(&path)? else {
            return Ok(None);
        };
        match Certificate::from_pem(pem) {
            Ok(certificate) => Ok(Some(certificate)),
            Err(_) => {
                let damaged = fs::rename(&path, self.0.join("certificate.damaged.pem"));
                damaged.map_err(|error| Failure::storage("rename", &path, &error))?;
                Ok(None)
            }
        }
    }

    pub(crate) fn has_certificate(&self) -> bool {
        self.0.join(CERTIFICATE).exists()
    }

    pub(crate) fn write_certificate(&self, certificate: &Certificate) -> Result<(), Failure> {
        make_folder(&self.0)?;
        let _ = fs::remove_file(self.reserve_path());
        replace(&self.0.join(CERTIFICATE), certificate.pem.as_bytes())
    }

    /// What is remembered; `None` if there is nothing, or the file is damaged.
    pub(crate) fn read_state(&self) -> Result<Option<State>, Failure> {
        let text = read(&self.0.join(STATE))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub(crate) fn write_state(&self, state: &State) -> Result<(), Failure> {
        make_folder(&self.0)?;
        let json = serde_json::to_string_pretty(state).expect("plain data becomes JSON");
        replace(&self.0.join(STATE), json.as_bytes())
    }

    /// The key of the order on its way, as PEM.
    pub(crate) fn read_order_key(&self) -> Result<Option<String>, Failure> {
        read(&self.0.join(ORDER_KEY))
    }

    pub(crate) fn write_order_key(&self, pem: &str) -> Result<(), Failure> {
        replace(&self.0.join(ORDER_KEY), pem.as_bytes())
    }

    pub(crate) fn remove_order_key(&self) {
        let _ = fs::remove_file(self.0.join(ORDER_KEY));
    }

    /// Takes the space on disk that an order will need: no certificate is ordered that could not be stored.
    pub(crate) fn reserve(&self) -> Result<(), Failure> {
        make_folder(&self.0)?;
        replace(&self.reserve_path(), &[0; RESERVED_BYTES])
    }

    /// Gives that space back.
    pub(crate) fn release(&self) {
        let _ = fs::remove_file(self.reserve_path());
    }

    fn reserve_path(&self) -> PathBuf {
        self.0.join("reserve")
    }
}

/// A file that one process at a time has locked, until it drops this or dies.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    fn take(path: &Path) -> Result<Option<Self>, Failure> {
        let file = create(path, OFlags::empty())
            .map_err(|error| Failure::storage("open", path, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(Failure::storage("lock", path, &error.into())),
        }
    }
}

/// Opens a file for writing that only this user can read.
fn create(path: &Path, flags: OFlags) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .mode(0o600)
        .custom_flags((flags | OFlags::NOFOLLOW).bits().cast_signed())
        .truncate(flags.contains(OFlags::TRUNC))
        .open(path)
}

/// Makes a folder that only this user can enter, with the folders above it.
fn make_folder(path: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    let private = made.and_then(|()| {
        let mode = fs::metadata(path)?.permissions().mode();
        match mode & 0o077 {
            0 => Ok(()),
            _ => fs::set_permissions(path, fs::Permissions::from_mode(0o700)),
        }
    });
    private.map_err(|error| Failure::storage("use the folder", path, &error))
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    let wrong = |error: io::Error| Failure::storage("read", path, &error);
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(wrong)?,
    };
    let mut text = String::new();
    match file.take(MAX_STORED_BYTES).read_to_string(&mut text) {
        // No text: damaged, as a caller finds out.
        Err(error) if error.kind() == ErrorKind::InvalidData => Ok(Some(String::new())),
        read => read.map(|_| Some(text)).map_err(wrong),
    }
}

/// Replaces a file as a whole: after a crash there is the old one or the new one.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let new = path.with_added_extension("new");
    let written = create(&new, OFlags::TRUNC).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(path.parent().unwrap_or(path))?.sync_all()
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&new);
        Failure::storage("write", path, &error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn folders_and_files_are_the_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::new(&folder.path().join("a/b"), "https://ca.example/dir");
        storage.write_account("{}").unwrap();
        let set = storage.set(&Names::new(&["a.example"]).unwrap());
        let _lock = set.lock().unwrap().unwrap();
        set.write_state(&State::default()).unwrap();
        for (path, expected) in [
            ("a", 0o700),
            ("a/b", 0o700),
            ("a/b/ca.example-dir", 0o700),
            ("a/b/ca.example-dir/account.json", 0o600),
            ("a/b/ca.example-dir/a.example", 0o700),
            ("a/b/ca.example-dir/a.example/lock", 0o600),
            ("a/b/ca.example-dir/a.example/state.json", 0o600),
        ] {
            assert_eq!(mode(&folder.path().join(path)), expected, "{path}");
        }
        assert_eq!(storage.sets().unwrap().len(), 1);
    }

    #[test]
    fn a_lock_has_one_holder() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::new(folder.path(), "https://ca.example/dir");
        let set = storage.set(&Names::new(&["a.example"]).unwrap());
        let held = set.lock().unwrap();
        assert!(held.is_some());
        assert!(set.lock().unwrap().is_none());
        drop(held);
        assert!(set.lock().unwrap().is_some());
    }

    #[test]
    fn a_damaged_certificate_is_put_aside_and_a_damaged_state_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::new(folder.path(), "https://ca.example/dir");
        let set = storage.set(&Names::new(&["a.example"]).unwrap());
        make_folder(&set.0).unwrap();
        fs::write(set.0.join(CERTIFICATE), b"\xff\xfe nonsense").unwrap();
        fs::write(set.0.join(STATE), "{").unwrap();
        assert!(set.read_certificate().unwrap().is_none());
        assert!(set.0.join("certificate.damaged.pem").exists());
        assert_eq!(set.read_state().unwrap(), None);
    }

    #[test]
    fn a_file_that_is_a_link_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, folder.path().join("x.new")).unwrap();
        assert!(replace(&folder.path().join("x"), b"bytes").is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    }
}
