//! Servers whose applications have users of their own: `shop` and `wiki`, with a front of a third one. They need root.

use std::os::unix::fs::lchown;
use std::path::Path;

use test_support::{Application, Process, ServerBuilder};

use crate::several::{Several, prepared};

/// The user of the front.
pub const FRONT: &str = "nobody";
/// The user of the application `shop`.
pub const SHOP: &str = "daemon";
/// The user of the application `wiki`.
pub const WIKI: &str = "bin";

/// The number of a user, which every system has.
///
/// # Panics
/// It has not.
pub fn uid(name: &str) -> u32 {
    let text = std::fs::read_to_string("/etc/passwd").expect("it is everywhere");
    let mut fields = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let entry = fields.find(|fields| fields[0] == name).expect(name);
    entry[2].parse().expect("a number")
}

/// Makes a user the owner of a folder and of everything in it.
///
/// # Panics
/// This process is not root.
pub fn give(path: &Path, user: &str) {
    lchown(path, Some(uid(user)), None).expect("this test needs root");
    if path.is_dir() && !path.is_symlink() {
        let entries = std::fs::read_dir(path).expect("a folder of our own");
        entries
            .flatten()
            .for_each(|entry| give(&entry.path(), user));
    }
}

/// Starts a server with both applications, and waits until they serve. `keys` are further ones of their tables.
pub fn start(
    [shop, wiki]: [Application; 2],
    keys: &str,
    settings: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> Several {
    give(shop.path(), SHOP);
    give(wiki.path(), WIKI);
    let table =
        |name: &str, user: &str| format!("hosts = [\"{name}.test\"]\nuser = \"{user}\"\n{keys}");
    let (of_shop, of_wiki) = (table("shop", SHOP), table("wiki", WIKI));
    let tables = [("shop", &*of_shop), ("wiki", &*of_wiki)];
    let several = prepared(vec![shop, wiki], &tables, |builder| {
        settings(builder.setting("user", FRONT))
    });
    give(several.server.dir(), FRONT);
    several.until_all_serve();
    several
}

/// The launchers of a server that is no successor: shop's and wiki's, in this order.
///
/// # Panics
/// There are not two of them.
pub fn launchers(several: &Several) -> [Process; 2] {
    let children = several.server.process().children();
    let of = |user: &str| {
        let owned = children.iter().filter(|one| {
            command_line(**one).contains("launcher") && fact(**one, "Uid:") == uid(user).to_string()
        });
        owned.copied().next().expect("a launcher")
    };
    [of(SHOP), of(WIKI)]
}

/// What a process was started with, or calls itself.
pub fn command_line(process: Process) -> String {
    let bytes = std::fs::read(format!("/proc/{}/cmdline", process.0)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The first word of a line of a process's status in /proc.
///
/// # Panics
/// The process is gone.
pub fn fact(process: Process, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.0));
    let status = status.expect("it runs");
    let mut lines = status.lines().filter_map(|line| line.strip_prefix(name));
    let line = lines.next().expect(name);
    let word = line.split_whitespace().next();
    word.expect("a value").to_owned()
}
