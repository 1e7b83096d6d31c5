//! Finds the file that a path means, and reads small ones. It blocks, so it runs on a thread of its own.
//!
//! It opens nothing outside the folder: no link leads out of it, also one that is changed at the same time (`openat2` with
//! RESOLVE_BENEATH).

use std::collections::HashSet;
use std::fs::{File, ReadDir};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, StatxTimestamp, openat,
    openat2, statx,
};
use rustix::io::Errno;

use super::coding::Coding;
use super::media_types;
use super::target::{self, Candidate, Target};
use crate::net::descriptors;
use crate::serve::reader::Reader;

/// Longest form of a file that is kept in memory.
pub const MEMORY_FILE_BYTES: u64 = 128 * 1024;
/// Names in the folder itself beyond which they are not kept: every path is then looked up.
const MAX_NAMES: usize = 10_000;
/// A folder that was changed this short a time before it was read may have been changed again since.
const CLOCK_STEP_MS: i64 = 1000;

/// The folders that are searched.
#[derive(Debug)]
pub struct Site {
    /// The folder whose files are served, without links in its path.
    pub root: PathBuf,
    /// Those of earlier releases, for files with digests in their names; newest first.
    pub earlier: Vec<PathBuf>,
    /// The name of a folder's own page.
    pub index: String,
    /// The major version of the application's Rack.
    pub rack: u32,
    /// For whom files are read.
    pub reader: Reader,
}

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Major and minor number.
    device: (u32, u32),
    inode: u64,
    /// Bytes.
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified_ns: i128,
    changed_ns: i128,
}

impl Facts {
    /// Asks the file system. Blocks; none where it is no regular file.
    fn of(file: &File) -> io::Result<Option<Self>> {
        Self::ask(file, AtFlags::empty())
    }

    /// As the system has them in memory: never waits for a file system, also one of another host.
    ///
    /// # Errors
    /// The system does not say.
    pub fn known_to_system(file: &File) -> io::Result<Option<Self>> {
        Self::ask(file, AtFlags::STATX_DONT_SYNC)
    }

    fn ask(file: &File, sync: AtFlags) -> io::Result<Option<Self>> {
        let flags = AtFlags::EMPTY_PATH | sync;
        let facts = statx(file, "", flags, StatxFlags::BASIC_STATS)?;
        let ns =
            |at: StatxTimestamp| i128::from(at.tv_sec) * 1_000_000_000 + i128::from(at.tv_nsec);
        let kind = FileType::from_raw_mode(facts.stx_mode.into());
        Ok((kind == FileType::RegularFile).then(|| Self {
            device: (facts.stx_dev_major, facts.stx_dev_minor),
            inode: facts.stx_ino,
            size: facts.stx_size,
            modified_ns: ns(facts.stx_mtime),
            changed_ns: ns(facts.stx_ctime),
        }))
    }
}

/// One form of a file.
#[derive(Clone, Debug)]
pub struct Form {
    /// How it is compressed.
    pub coding: Option<Coding>,
    /// Its version.
    pub facts: Facts,
    /// Its content, where that is small.
    pub bytes: Option<Bytes>,
}

/// A file that was found.
#[derive(Debug)]
pub struct Found {
    /// The folder that it is in.
    pub root: PathBuf,
    /// For whom it is read.
    reader: Reader,
    /// Its place there, and its type.
    pub candidate: Candidate,
    /// Whether its name changes with its content.
    pub digested: bool,
    /// Its forms; the first is the file as it is.
    pub forms: Vec<Form>,
}

/// What a path means.
#[derive(Debug)]
pub enum Looked {
    /// No file that is served from here.
    Nothing,
    /// The file that is known already.
    Unchanged,
    /// A file.
    Found(Found),
}

/// The names in the folder itself, and what may be asked for with their help: each name, and each without `.html`.
#[derive(Debug)]
pub struct Names {
    /// When the folder was changed, as it says.
    modified: SystemTime,
    /// Whether it may have been changed since without saying so.
    uncertain: bool,
    names: HashSet<Box<[u8]>>,
}

impl Names {
    /// Whether a path whose first segment is this one may mean a file.
    pub fn may_mean(&self, segment: &[u8]) -> bool {
        self.names.contains(segment)
    }
}

/// The names after a look.
#[derive(Debug)]
pub enum LookedNames {
    /// They are those that are known.
    Unchanged,
    /// These; none where there are too many.
    Changed(Option<Names>),
}

impl Site {
    /// Looks for the file that the path of a request means; `known` is what it meant before.
    ///
    /// # Errors
    /// Something is there that may not be opened from here.
    pub fn look(&self, path: &[u8], known: Option<&Found>) -> io::Result<Looked> {
        let Some(target) = target::find(path, &self.index, self.rack) else {
            return Ok(Looked::Nothing);
        };
        let roots = std::iter::once(&self.root);
        let earlier = self.earlier.iter().filter(|_| target.digested);
        for root in roots.chain(earlier) {
            let Some(folder) = open_folder(root)? else {
                continue;
            };
            if let Some(looked) = self.look_in(root, &folder, &target, known)? {
                return Ok(looked);
            }
        }
        Ok(Looked::Nothing)
    }

    /// Looks for names in the folder; `known` are those that it had.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self, known: Option<&Names>) -> io::Result<LookedNames> {
        let modified = std::fs::metadata(&self.root)?.modified()?;
        if known.is_some_and(|known| known.modified == modified && !known.uncertain) {
            return Ok(LookedNames::Unchanged);
        }
        let age = SystemTime::now().duration_since(modified);
        let uncertain = age.map_or(true, |age| (age.as_millis() as i64) < CLOCK_STEP_MS);
        let names = read_names(std::fs::read_dir(&self.root)?)?;
        Ok(LookedNames::Changed(names.map(|names| Names {
            modified,
            uncertain,
            names,
        })))
    }
}

fn read_names(entries: ReadDir) -> io::Result<Option<HashSet<Box<[u8]>>>> {
    let mut names = HashSet::new();
    for entry in entries {
        if names.len() >= MAX_NAMES {
            return Ok(None);
        }
        let name = entry?.file_name();
        let name = name.as_bytes();
        if let Some(stem) = name.strip_suffix(b".html") {
            names.insert(stem.into());
        }
        names.insert(name.into());
    }
    Ok(Some(names))
}

/// The folder, if it is there.
fn open_folder(root: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, root, flags, Mode::empty()) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a regular file in the folder, if it is there.
fn open(folder: &OwnedFd, path: &str, reader: Reader) -> io::Result<Option<(File, Facts)>> {
    // What is no file must not hold the thread up (a FIFO without a writer) nor become this process's terminal.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = match openat2(folder, path, flags, Mode::empty(), beneath) {
        Ok(file) => descriptors::keep_reserve(File::from(file))?,
        // As Rails has it, which asks whether there is a regular file that may be read.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::NAMETOOLONG | Errno::NXIO) => {
            return Ok(None);
        }
        // A link out of the folder among others.
        Err(error) => return Err(error.into()),
    };
    if reader.check(&file, &file.metadata()?).is_err() {
        return Ok(None);
    }
    let facts = Facts::of(&file)?;
    Ok(facts.map(|facts| (file, facts)))
}

impl Site {
    fn look_in(
        &self,
        root: &Path,
        folder: &OwnedFd,
        target: &Target,
        known: Option<&Found>,
    ) -> io::Result<Option<Looked>> {
        for candidate in &target.candidates {
            let Some((file, facts)) = open(folder, &candidate.path, self.reader)? else {
                continue;
            };
            let mut open_forms = vec![(None, file, facts)];
            if media_types::is_compressible(candidate.media_type) {
                for coding in Coding::ALL {
                    let sibling = format!("{}{}", candidate.path, coding.ending());
                    if let Ok(Some((file, of_sibling))) = open(folder, &sibling, self.reader)
                    // One that is older was made from an earlier version.
                    && of_sibling.modified_ns >= facts.modified_ns
                    {
                        open_forms.push((Some(coding), file, of_sibling));
                    }
                }
            }
            let same = |known: &&Found| {
                let forms = open_forms.iter().map(|(coding, _, facts)| (coding, facts));
                let known_forms = known.forms.iter().map(|form| (&form.coding, &form.facts));
                known.root == root && known.candidate == *candidate && forms.eq(known_forms)
            };
            if known.is_some_and(|known| same(&known)) {
                return Ok(Some(Looked::Unchanged));
            }
            let forms = open_forms.into_iter().map(|(coding, file, facts)| {
                let bytes = read_small(&file, &facts)?;
                Ok(Form {
                    coding,
                    facts,
                    bytes,
                })
            });
            return Ok(Some(Looked::Found(Found {
                root: root.to_owned(),
                reader: self.reader,
                candidate: candidate.clone(),
                digested: target.digested,
                forms: forms.collect::<io::Result<_>>()?,
            })));
        }
        Ok(None)
    }
}

/// The content of a small file.
fn read_small(file: &File, facts: &Facts) -> io::Result<Option<Bytes>> {
    if facts.size > MEMORY_FILE_BYTES {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(facts.size as usize + 1);
    file.take(facts.size + 1).read_to_end(&mut bytes)?;
    // One that is being written is not kept, and is sent from the file with what its head says.
    let whole = bytes.len() as u64 == facts.size && Facts::of(file)?.as_ref() == Some(facts);
    Ok(whole.then(|| bytes.into()))
}

impl Found {
    /// Opens one of its forms again.
    ///
    /// # Errors
    /// It is not there any more, or was changed.
    pub fn open(&self, form: &Form) -> io::Result<File> {
        let ending = form.coding.map_or("", Coding::ending);
        let path = format!("{}{ending}", self.candidate.path);
        let folder = open_folder(&self.root)?;
        let opened = folder
            .map(|folder| open(&folder, &path, self.reader))
            .transpose()?;
        let (file, facts) = opened.flatten().ok_or(io::ErrorKind::NotFound)?;
        match facts == form.facts {
            true => Ok(file),
            false => Err(io::Error::other("the file was changed")),
        }
    }

    /// Bytes that it holds in memory.
    pub fn memory(&self) -> usize {
        let bytes = |form: &Form| form.bytes.as_ref().map_or(0, Bytes::len);
        self.forms.iter().map(bytes).sum()
    }
}

/// Returns the public folders of earlier releases: the same folder in the siblings of this release (`releases/` of
/// Capistrano), and `served` before; newest first, at most `most` of each.
pub fn earlier(root: &Path, served: &[Arc<Path>], most: usize) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    let mut add = |path: PathBuf| {
        if path != root && !all.contains(&path) {
            all.push(path);
        }
    };
    if let Some((releases, inside)) = release_of(root) {
        let own = root.strip_prefix(&releases).ok();
        let own = own.and_then(|path| path.components().next());
        let mut others: Vec<PathBuf> = std::fs::read_dir(&releases)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.file_name() != own.map(|own| own.as_os_str()))
            .collect();
        // Names are times; where they have another form, their order is as good as any.
        others.sort_by(|one, other| other.cmp(one));
        for release in others.into_iter().take(most) {
            add(release.join(&inside));
        }
    }
    served
        .iter()
        .rev()
        .take(most)
        .for_each(|path| add(path.to_path_buf()));
    all
}

/// The folder of all releases, and the place of `root` in one of them.
fn release_of(root: &Path) -> Option<(PathBuf, PathBuf)> {
    let releases = root
        .ancestors()
        .skip(2)
        .find(|folder| folder.file_name().is_some_and(|name| name == "releases"))?;
    let mut inside = root.strip_prefix(releases).ok()?.components();
    inside.next()?;
    Some((releases.to_owned(), inside.as_path().to_owned()))
}

#[cfg(test)]
mod tests;
