//! Circles of imports between the files of a library or program.
//!
//! A file uses another one if a `use` or a path in its code, in macros too, leads to something that the other one
//! defines. What counts:
//!
//! - `mod name;` alone is no use: a parent declares its children.
//! - A re-export (`pub use child::Name`) is followed: a file that imports the name through the parent uses the child's file
//!   and not the parent's. The re-export of something below the parent is no use by the parent, which only lists its
//!   parts; if the parent works with the name itself, that is one.
//! - A child may use what its parent defines (`foo/part.rs` what is in `foo.rs`), although the parent works with the
//!   child: the two are parts of one thing, and how much that thing does is bounded by the number of methods of a type.
//!   This holds for parents of parents, and not for the root of the crate (`lib.rs`, `main.rs`), of which everything is a
//!   child: what the root defines and its children need belongs into a file of its own.
//! - What is compiled for tests only does not count (`source.rs` leaves it out).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, ItemUse, Macro, Path, Visibility};

use crate::Finding;
use crate::names::{Meaning, Names, flatten, is_reexport};
use crate::source::Target;

/// Returns every file that is in a circle, with the number of files in it.
pub fn check(target: &Target) -> Vec<Finding> {
    let uses = uses(target);
    let reached: Vec<BTreeSet<usize>> = (0..target.files.len())
        .map(|file| reach(&uses, file))
        .collect();
    let mut findings = Vec::new();
    for (file, source) in target.files.iter().enumerate() {
        let circle = (0..target.files.len())
            .filter(|&other| reached[file].contains(&other) && reached[other].contains(&file));
        let number = circle.count();
        if number < 2 {
            continue;
        }
        let way: Vec<&str> = shortest_circle(&uses, file)
            .into_iter()
            .map(|file| target.files[file].path.as_str())
            .collect();
        findings.push(Finding {
            rule: "circle",
            name: source.path.clone(),
            number,
            message: format!(
                "{} uses itself through other files: {}",
                source.path,
                way.join(" -> ")
            ),
        });
    }
    findings
}

/// For each file the files that it uses.
fn uses(target: &Target) -> Vec<BTreeSet<usize>> {
    let names = Names::of(target);
    let files = target.files.iter().enumerate();
    files
        .map(|(file, source)| {
            let mut uses = Uses {
                names: &names,
                module: source.module.clone(),
                found: BTreeSet::new(),
            };
            uses.visit_file(&source.tree);
            uses.found.remove(&file);
            uses.found
                .retain(|&other| !is_parent(&target.files[other].module, &source.module));
            uses.found
        })
        .collect()
}

/// Whether a module is the parent of another, or a parent's parent; the root is no file's parent.
fn is_parent(module: &[String], of: &[String]) -> bool {
    !module.is_empty() && of.len() > module.len() && of.starts_with(module)
}

/// The files that are reached from a file; itself only in a circle.
fn reach(uses: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        open.extend(
            uses[file]
                .iter()
                .copied()
                .filter(|&next| reached.insert(next)),
        );
    }
    reached
}

/// The shortest way from a file back to itself, both ends included.
fn shortest_circle(uses: &[BTreeSet<usize>], from: usize) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let mut came_from = BTreeMap::new();
    let mut open = VecDeque::from([from]);
    while let Some(file) = open.pop_front() {
        for &next in &uses[file] {
            if next == from {
                let mut way = vec![from, file];
                while let Some(&previous) =
                    came_from.get(way.last().expect("a way has a beginning"))
                {
                    way.push(previous);
                }
                way.reverse();
                return way;
            }
            if seen.insert(next) {
                came_from.insert(next, file);
                open.push_back(next);
            }
        }
    }
    vec![from]
}

/// Collects the files that a file uses.
struct Uses<'a> {
    names: &'a Names,
    /// The module that is visited: that of the file, or one in it.
    module: Vec<String>,
    found: BTreeSet<usize>,
}

impl Uses<'_> {
    fn add(&mut self, path: &[String]) {
        if let Meaning::Own(path) = self.names.meaning(&self.module, path) {
            self.found.insert(self.names.definition(&path).1);
        }
    }

    /// Paths in the arguments of a macro, which are tokens and no syntax tree.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match &token {
                TokenTree::Ident(name) if path.is_empty() || colons == 2 => {
                    path.push(name.to_string())
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    continue;
                }
                other => {
                    self.tokens_end(&mut path);
                    match other {
                        TokenTree::Ident(name) => path.push(name.to_string()),
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        _ => {}
                    }
                }
            }
            colons = 0;
        }
        self.tokens_end(&mut path);
    }

    /// One name alone may be a variable with the name of a module, and is passed over.
    fn tokens_end(&mut self, path: &mut Vec<String>) {
        if path.len() > 1 {
            self.add(path);
        }
        path.clear();
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        for (_, path) in flatten(item) {
            let below = match self.names.meaning(&self.module, &path) {
                Meaning::Own(path) => path.starts_with(&self.module),
                Meaning::Foreign(_) => continue,
            };
            if !(is_reexport(item) && below) {
                self.add(&path);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        self.add(&names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, node: &'ast Macro) {
        self.tokens(node.tokens.clone());
        visit::visit_macro(self, node);
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::target_of;

    /// Names of the files in circles, with the size of each circle.
    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        check(&target_of(files))
            .into_iter()
            .map(|finding| (finding.name, finding.number))
            .collect()
    }

    #[test]
    fn a_circle_is_found_through_use_paths_and_macros() {
        let found = found(&[
            ("", "mod a; mod b; mod c; mod d; fn main() { a::run(); }"),
            ("a", "use crate::b::B; pub fn run() {}"),
            ("b", "pub struct B; fn f() -> crate::c::C { todo!() }"),
            (
                "c",
                "pub struct C; fn f() { println!(\"{}\", crate::a::run()); }",
            ),
            ("d", "use crate::a; fn f() { a::run() }"),
        ]);
        assert_eq!(
            found,
            [
                ("a".to_owned(), 3),
                ("b".to_owned(), 3),
                ("c".to_owned(), 3)
            ]
        );
    }

    #[test]
    fn a_child_may_use_its_parent_and_nobody_the_root() {
        let child = [
            ("", "mod a;"),
            (
                "a",
                "mod part; mod other; use part::Part; pub struct A { part: Part }",
            ),
            ("a::part", "use super::A; pub struct Part;"),
            ("a::other", ""),
        ];
        assert_eq!(found(&child), []);

        let mut siblings = child;
        siblings[2].1 = "use super::{A, other::Other}; pub struct Part;";
        siblings[3].1 = "use super::Part; pub struct Other;";
        assert_eq!(
            found(&siblings),
            [("a::part".to_owned(), 2), ("a::other".to_owned(), 2)]
        );

        let root = [
            ("", "mod a; use a::A; pub struct Root(A);"),
            ("a", "use crate::Root; pub struct A;"),
        ];
        assert_eq!(found(&root).len(), 2);
    }

    #[test]
    fn a_reexport_is_followed_and_tests_do_not_count() {
        let reexport = [
            ("", "mod a; pub use a::A; mod b; pub use b::B;"),
            ("a", "use crate::B; pub struct A(B);"),
            (
                "b",
                "pub struct B; #[cfg(test)] mod tests { use crate::A; }",
            ),
        ];
        assert_eq!(found(&reexport), []);
        let mut circle = reexport;
        circle[2].1 = "pub struct B(crate::A);";
        assert_eq!(found(&circle).len(), 2);
    }
}
