//! The public pages that clients ask for most, of one application, in a table of fixed size. It decides neither what is public
//! nor what is done with them, and keeps no query.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::random::random;

/// Most pages that are counted at once.
const MAX_FREQUENT_PATHS: usize = 64;
/// The longest path that is kept, in bytes.
const MAX_FREQUENT_PATH_BYTES: usize = 512;
/// The longest name of a page that is kept, in bytes: a route or a path.
const MAX_NAME_BYTES: usize = MAX_FREQUENT_PATH_BYTES;
/// Requests for pages of the table after which all counts are halved, so that pages of former days leave it.
const HALVE_AFTER: u32 = 65_536;

/// A page that clients ask for often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequentPath {
    /// The path within the application, without a query.
    pub path: String,
    /// What it is counted as: its route where the application names that, else the path.
    pub name: String,
    /// Requests that were counted; older ones count less, and those of a page that came into a full table are too many.
    pub requests: u32,
}

/// Those of one application. Several threads may use it at once; the lock is held for one look through the table.
#[derive(Default)]
pub struct FrequentPaths(Mutex<Table>);

#[derive(Default)]
struct Table {
    pages: Vec<Page>,
    /// Requests for pages of the table since its counts were halved.
    counted: u32,
}

struct Page {
    name: String,
    /// The latest path that was asked for twice in succession; empty where none was.
    path: String,
    /// The path of the latest request. It alone may be one that works once, such as that of a link in a mail.
    latest: String,
    requests: u32,
}

impl FrequentPaths {
    /// Counts a request for this path, which has been found public, and for this route, which may be empty.
    pub(crate) fn count(&self, path: &[u8], route: &[u8]) {
        let Some(path) = kept_path(path) else {
            return;
        };
        let route = str::from_utf8(route).ok().filter(|route| !route.is_empty());
        let name = route.unwrap_or(path);
        if name.len() <= MAX_NAME_BYTES {
            self.table().count(name, path);
        }
    }

    /// The `most` paths that were asked for most, the most frequent first. Those of which no path was asked for twice are left
    /// out.
    pub fn list(&self, most: usize) -> Vec<FrequentPath> {
        let table = self.table();
        let mut pages: Vec<&Page> = table.pages.iter().collect();
        pages.retain(|page| !page.path.is_empty());
        pages.sort_by_key(|page| std::cmp::Reverse(page.requests));
        let listed = pages.iter().take(most).map(|page| FrequentPath {
            path: page.path.clone(),
            name: page.name.clone(),
            requests: page.requests,
        });
        listed.collect()
    }

    /// Takes those of another server, within the bounds of this one. Call it before requests are counted.
    pub fn restore(&self, paths: Vec<FrequentPath>) {
        let mut table = self.table();
        for one in paths.into_iter().take(MAX_FREQUENT_PATHS) {
            let is_kept = kept_path(one.path.as_bytes()).is_some();
            if is_kept && one.name.len() <= MAX_NAME_BYTES && table.find(&one.name).is_none() {
                table.pages.push(Page {
                    latest: one.path.clone(),
                    path: one.path,
                    name: one.name,
                    requests: one.requests.min(HALVE_AFTER),
                });
            }
        }
        table.pages.truncate(MAX_FREQUENT_PATHS);
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        *self.table() = Table::default();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn find(&mut self, name: &str) -> Option<&mut Page> {
        self.pages.iter_mut().find(|page| page.name == name)
    }

    fn count(&mut self, name: &str, path: &str) {
        if let Some(page) = self.find(name) {
            page.count(path);
            self.counted += 1;
            if self.counted >= HALVE_AFTER {
                self.counted = 0;
                self.pages.iter_mut().for_each(|page| page.requests /= 2);
            }
        } else if self.pages.len() < MAX_FREQUENT_PATHS {
            self.pages.push(Page::new(name, path, 1));
        } else {
            self.admit(name, path);
        }
    }

    /// Puts a page in the place of the least frequent one, more rarely the more frequent that is: a flood of pages that are
    /// asked for once hardly moves the counts, while a page that is asked for often comes in after some requests.
    fn admit(&mut self, name: &str, path: &str) {
        let least = self.pages.iter_mut().min_by_key(|page| page.requests);
        if let Some(page) = least {
            let requests = page.requests.saturating_add(1);
            if u32::from_le_bytes(random()) <= u32::MAX / requests {
                *page = Page::new(name, path, requests);
            }
        }
    }
}

impl Page {
    fn new(name: &str, path: &str, requests: u32) -> Self {
        Self {
            name: name.to_owned(),
            path: String::new(),
            latest: path.to_owned(),
            requests,
        }
    }

    fn count(&mut self, path: &str) {
        self.requests = self.requests.saturating_add(1);
        if self.latest != path {
            path.clone_into(&mut self.latest);
        } else if self.path != path {
            path.clone_into(&mut self.path);
        }
    }
}

/// The path as text, if it is short enough to be kept and has only characters that every parser of URLs takes.
fn kept_path(path: &[u8]) -> Option<&str> {
    let is_plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@%".contains(byte);
    let fits = path.len() <= MAX_FREQUENT_PATH_BYTES && path.starts_with(b"/");
    let text = || str::from_utf8(path).ok();
    (fits && path.iter().all(is_plain)).then(text).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(table: &FrequentPaths) -> Vec<String> {
        let listed = table.list(MAX_FREQUENT_PATHS).into_iter();
        listed.map(|one| one.path).collect()
    }

    fn count(table: &FrequentPaths, times: u32, path: &str) {
        (0..times).for_each(|_| table.count(path.as_bytes(), b""));
    }

    #[test]
    fn the_most_frequent_come_first() {
        let table = FrequentPaths::default();
        for (times, path) in [(2, "/c"), (9, "/a"), (5, "/b"), (1, "/once")] {
            count(&table, times, path);
        }
        assert_eq!(paths(&table), ["/a", "/b", "/c"]);
        assert_eq!(table.list(1)[0].requests, 9);
    }

    #[test]
    fn a_flood_of_other_paths_displaces_no_frequent_one() {
        let table = FrequentPaths::default();
        for _ in 0..1000 {
            (0..20).for_each(|number| count(&table, 1, &format!("/page/{number}")));
        }
        let before: Vec<String> = paths(&table);
        assert_eq!(before.len(), 20);
        for number in 0..300_000 {
            count(&table, 1, &format!("/flood/{number}"));
        }
        let mut after = paths(&table);
        after.sort();
        let mut expected = before;
        expected.sort();
        assert_eq!(after, expected);
        assert_eq!(table.table().pages.len(), MAX_FREQUENT_PATHS);
    }

    #[test]
    fn a_page_that_becomes_frequent_comes_into_a_full_table() {
        let table = FrequentPaths::default();
        for number in 0..MAX_FREQUENT_PATHS {
            count(&table, 100, &format!("/old/{number}"));
        }
        count(&table, 20_000, "/new");
        assert_eq!(paths(&table)[0], "/new");
        assert_eq!(table.table().pages.len(), MAX_FREQUENT_PATHS);
    }

    #[test]
    fn pages_of_former_days_count_less() {
        let table = FrequentPaths::default();
        count(&table, HALVE_AFTER, "/old");
        count(&table, 2 * HALVE_AFTER, "/new");
        assert_eq!(paths(&table), ["/new", "/old"]);
        let old = table.list(2)[1].requests;
        assert!((1..=HALVE_AFTER / 4).contains(&old), "{old}");
    }

    #[test]
    fn a_route_is_one_page_with_a_path_asked_for_twice() {
        let table = FrequentPaths::default();
        for id in 0..100 {
            table.count(format!("/links/{id}").as_bytes(), b"LinksController#open");
        }
        assert!(paths(&table).is_empty(), "each may work once");
        for path in ["/links/7", "/links/7", "/links/8", "/links/9"] {
            table.count(path.as_bytes(), b"LinksController#open");
        }
        assert_eq!(paths(&table), ["/links/7"]);
        assert_eq!(table.list(1)[0].requests, 104);
    }

    #[test]
    fn what_is_too_long_or_no_plain_path_is_not_kept() {
        let table = FrequentPaths::default();
        let long = format!("/{}", "x".repeat(MAX_FREQUENT_PATH_BYTES));
        for path in [
            &long, "*", "", "/a b", "/a\"b", "/\u{e4}", "/a#b", "/<a>", "/a?b",
        ] {
            count(&table, 2, path);
        }
        table.count(b"/a", "r".repeat(MAX_NAME_BYTES + 1).as_bytes());
        assert!(table.table().pages.is_empty());
        count(&table, 2, &long[..MAX_FREQUENT_PATH_BYTES]);
        assert_eq!(paths(&table).len(), 1);
    }

    #[test]
    fn those_of_another_server_are_held_to_the_bounds() {
        let table = FrequentPaths::default();
        let one = |path: &str, name: &str| FrequentPath {
            path: path.to_owned(),
            name: name.to_owned(),
            requests: u32::MAX,
        };
        let long = "/x".repeat(MAX_FREQUENT_PATH_BYTES);
        table.restore(vec![
            one("/a", "A#a"),
            one("/a", "A#a"),
            one("none", "B"),
            one(&long, "C"),
            one("/c", &long),
        ]);
        assert_eq!(paths(&table), ["/a"]);
        assert_eq!(table.list(1)[0].requests, HALVE_AFTER);
        let many = (0..1000).map(|number| one("/b", &number.to_string()));
        table.restore(many.collect());
        assert_eq!(table.table().pages.len(), MAX_FREQUENT_PATHS);
        table.clear();
        assert!(paths(&table).is_empty());
    }
}
