//! Where directories of control sockets may be: where a server makes its own, and where commands look for them. Opens
//! nothing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The last part of the path of each such directory, or its beginning.
const NAME: &str = "highball";

/// Directories that variables name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    /// The first of `RUNTIME_DIRECTORY`: the service's, made by the service manager.
    pub(crate) runtime: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`: the user session's.
    pub(crate) session: Option<PathBuf>,
}

impl Variables {
    /// The variables of this process.
    pub(crate) fn of_this_process() -> Self {
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let first = |list: std::ffi::OsString| std::env::split_paths(&list).next();
        Self {
            runtime: std::env::var_os("RUNTIME_DIRECTORY")
                .and_then(first)
                .and_then(absolute),
            session: std::env::var_os("XDG_RUNTIME_DIR")
                .map(PathBuf::from)
                .and_then(absolute),
        }
    }
}

/// A place for a control directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The directory's path.
    pub(crate) path: PathBuf,
    /// Whether the folder above it must belong to the server's user or to root.
    pub(crate) owned: bool,
    /// Whether that folder may be made.
    pub(crate) make: bool,
}

/// Returns the places where a server of this user may make its directory, the best one first.
pub(crate) fn places(variables: &Variables, uid: u32, folder: Option<&Path>) -> Vec<Place> {
    let given = [&variables.runtime, &variables.session];
    let mut places: Vec<Place> = given
        .into_iter()
        .flatten()
        .map(|base| Place {
            path: base.join(NAME),
            owned: true,
            make: false,
        })
        .collect();
    places.push(Place {
        path: of_user(uid),
        owned: true,
        make: false,
    });
    places.extend(folder.map(|folder| Place {
        path: in_folder(folder),
        owned: false,
        make: true,
    }));
    places
}

/// The directory of a user, which root makes.
fn of_user(uid: u32) -> PathBuf {
    format!("/run/{NAME}-{uid}").into()
}

/// The directory in an application's folder.
pub(crate) fn in_folder(folder: &Path) -> PathBuf {
    folder.join("tmp").join(NAME)
}

/// Whether this is the directory in an application's folder.
pub(crate) fn is_of_folder(path: &Path, folder: &Path) -> bool {
    path == in_folder(folder)
}

/// Returns the directories in which a command looks for servers of this user: all that a server may have chosen, whatever
/// its variables.
pub(crate) fn known_places(variables: &Variables, uid: u32, folder: Option<&Path>) -> Vec<PathBuf> {
    let given = [&variables.runtime, &variables.session];
    let given = given.into_iter().flatten().map(|base| base.join(NAME));
    let session = PathBuf::from(format!("/run/user/{uid}")).join(NAME);
    let mut known: Vec<PathBuf> = given.chain([session, of_user(uid)]).collect();
    known.extend(folder.map(in_folder));
    known
}

/// Whether a path may be that of a control directory, by its last part.
pub(crate) fn is_named(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::to_string_lossy);
    let rest = name.as_deref().and_then(|name| name.strip_prefix(NAME));
    rest.is_some_and(|rest| {
        let number = rest.strip_prefix('-').unwrap_or(rest);
        number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_looked_for_where_the_variables_say_and_then_where_they_may_be() {
        let variables = Variables {
            runtime: Some("/run/shop".into()),
            session: Some("/run/user/7".into()),
        };
        let paths = |places: Vec<Place>| -> Vec<PathBuf> {
            places.into_iter().map(|place| place.path).collect()
        };
        let folder = Some(Path::new("/srv/shop"));
        let all = [
            "/run/shop/highball",
            "/run/user/7/highball",
            "/run/highball-7",
            "/srv/shop/tmp/highball",
        ];
        assert_eq!(paths(places(&variables, 7, folder)), all.map(PathBuf::from));
        let none = Variables::default();
        assert_eq!(
            paths(places(&none, 7, folder)),
            all[2..].iter().map(PathBuf::from).collect::<Vec<_>>()
        );
        // A command finds the same ones without the variables, but for the service manager's.
        let known = known_places(&none, 7, folder);
        assert_eq!(
            known,
            all[1..].iter().map(PathBuf::from).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_directory_is_known_by_its_name() {
        for (path, expect) in [
            ("/run/shop/highball", true),
            ("/run/highball-1000", true),
            ("/srv/highball-demo", false),
            ("/run/highball (deleted)", false),
            ("/", false),
        ] {
            assert_eq!(is_named(Path::new(path)), expect, "{path}");
        }
    }
}
