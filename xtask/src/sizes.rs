//! Sizes: lines of a file, lines of a function, methods of a type. Tests do not count.
//!
//! A type's methods are those of all its `impl` blocks together: private ones, functions without `self`, and those of
//! traits of this workspace, for what a trait of ours asks of a type is a responsibility that we gave it. Methods of
//! traits of others (std, serde, hyper) do not count: their number is not ours to choose. Methods that a macro makes are
//! not seen.

use std::collections::BTreeMap;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{ImplItem, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, Path, TraitItemFn, Type};

use crate::Finding;
use crate::names::{Meaning, Names};
use crate::source::{Source, Target};
use crate::workspace::{Member, Workspace, files_below};

/// A file has at most so many lines, comments included and tests left out.
const MAX_FILE_LINES: usize = 400;
/// A function has at most so many lines, from its signature to its closing brace.
const MAX_FUNCTION_LINES: usize = 80;
/// A type has at most so many methods.
const MAX_METHODS: usize = 25;

/// Returns the files that are too long.
pub fn check_files(target: &Target) -> Vec<Finding> {
    let lines = target
        .files
        .iter()
        .map(|source| (&source.path, source.product_lines()));
    lines
        .filter(|&(_, lines)| lines > MAX_FILE_LINES)
        .map(|(path, number)| Finding {
            rule: "file",
            name: path.clone(),
            number,
            message: format!(
                "{path} has {number} lines without tests, and {MAX_FILE_LINES} are allowed"
            ),
        })
        .collect()
}

/// Returns the functions that are too long.
pub fn check_functions(target: &Target) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &target.files {
        let mut functions = Functions {
            source,
            within: String::new(),
            findings: Vec::new(),
        };
        functions.visit_file(&source.tree);
        findings.append(&mut functions.findings);
    }
    findings
}

/// Returns the types that have too many methods.
pub fn check_types(member: &Member, target: &Target) -> Vec<Finding> {
    let names = Names::of(target);
    let mut methods = Methods {
        member,
        names: &names,
        module: Vec::new(),
        counts: BTreeMap::new(),
    };
    for source in &target.files {
        methods.module.clone_from(&source.module);
        methods.visit_file(&source.tree);
    }
    let too_many = methods
        .counts
        .into_iter()
        .filter(|&(_, number)| number > MAX_METHODS);
    too_many
        .map(|((module, name), number)| {
            let name = format!(
                "{}:{}",
                member.folder,
                [module, vec![name]].concat().join("::")
            );
            let message = format!("{name} has {number} methods, and {MAX_METHODS} are allowed");
            Finding {
                rule: "type",
                name,
                number,
                message,
            }
        })
        .collect()
}

/// Returns the files, tests included, that do not begin with `//!`.
///
/// # Errors
/// If a file cannot be read.
pub fn check_openings(workspace: &Workspace) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for member in &workspace.members {
        for path in files_below(&workspace.root, &member.folder, "rs")? {
            let text = std::fs::read_to_string(workspace.root.join(&path))?;
            if !text.starts_with("//!") {
                let message =
                    format!("{path} does not begin with `//!`: what it is, and what it never does");
                findings.push(Finding {
                    rule: "opening",
                    name: path,
                    number: 1,
                    message,
                });
            }
        }
    }
    Ok(findings)
}

/// Finds the functions of a file that are too long.
struct Functions<'a> {
    source: &'a Source,
    /// The type whose `impl` is visited, with `::` behind it.
    within: String,
    findings: Vec<Finding>,
}

impl Functions<'_> {
    fn measure(&mut self, name: &str, begin: usize, whole: &impl Spanned) {
        let number = whole.span().end().line - begin + 1;
        if number > MAX_FUNCTION_LINES {
            let name = format!("{}:{}{name}", self.source.path, self.within);
            let message =
                format!("{name} has {number} lines, and {MAX_FUNCTION_LINES} are allowed");
            self.findings.push(Finding {
                rule: "function",
                name,
                number,
                message,
            });
        }
    }

    /// Visits what is within a type.
    fn within(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.within, format!("{name}::"));
        visit(self);
        self.within = outer;
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.measure(
            &function.sig.ident.to_string(),
            function.sig.span().start().line,
            function,
        );
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.measure(
            &function.sig.ident.to_string(),
            function.sig.span().start().line,
            function,
        );
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.measure(
            &function.sig.ident.to_string(),
            function.sig.span().start().line,
            function,
        );
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let name = type_path(&item.self_ty)
            .and_then(last)
            .unwrap_or_else(|| "impl".to_owned());
        self.within(&name, |functions| visit::visit_item_impl(functions, item));
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.within(&item.ident.to_string(), |functions| {
            visit::visit_item_trait(functions, item)
        });
    }
}

/// Counts the methods of each type of a library or program.
struct Methods<'a> {
    member: &'a Member,
    names: &'a Names,
    module: Vec<String>,
    /// By the module and the name of the type.
    counts: BTreeMap<(Vec<String>, String), usize>,
}

impl Methods<'_> {
    fn is_ours(&self, of_trait: &Path) -> bool {
        match self.names.meaning(&self.module, &path_names(of_trait)) {
            Meaning::Own(_) => true,
            Meaning::Foreign(path) => path
                .first()
                .is_some_and(|krate| self.member.uses.contains_key(krate)),
        }
    }
}

impl<'ast> Visit<'ast> for Methods<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let counts = item
            .trait_
            .as_ref()
            .is_none_or(|(path, _)| self.is_ours(path));
        let Some(path) = type_path(&item.self_ty).filter(|_| counts) else {
            return;
        };
        let Meaning::Own(path) = self.names.meaning(&self.module, &path_names(path)) else {
            return;
        };
        let (module, _, Some(name)) = self.names.definition(&path) else {
            return;
        };
        let functions = item.items.iter();
        let functions = functions.filter(|item| matches!(item, ImplItem::Fn(_)));
        *self.counts.entry((module, name)).or_default() += functions.count();
    }
}

/// The path of a type, also of a reference to one.
fn type_path(of: &Type) -> Option<&Path> {
    match of {
        Type::Path(path) => Some(&path.path),
        Type::Reference(reference) => type_path(&reference.elem),
        _ => None,
    }
}

fn path_names(path: &Path) -> Vec<String> {
    path.segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect()
}

fn last(path: &Path) -> Option<String> {
    Some(path.segments.last()?.ident.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::target_of;

    #[test]
    fn methods_of_all_files_count_and_foreign_traits_do_not() {
        let methods = |count: usize| {
            (0..count)
                .map(|number| format!("fn m{number}(&self) {{}}"))
                .collect::<String>()
        };
        let here = format!("mod a; pub struct Big; impl Big {{ {} }}", methods(20));
        let there = format!(
            "use super::Big; use exchange::Worker; pub trait Own {{}} impl Big {{ {} }} impl Own for Big {{ {} }} \
             impl Worker for &Big {{ {} }} impl std::fmt::Debug for Big {{ {} }} \
             #[cfg(test)] mod tests {{ impl super::Big {{ {} }} }}",
            methods(3),
            methods(2),
            methods(1),
            methods(9),
            methods(9),
        );
        let member = Member {
            folder: "crates/x".to_owned(),
            package: "x".to_owned(),
            uses: [("exchange".to_owned(), "crates/exchange".to_owned())].into(),
            uses_in_tests: [].into(),
        };
        let found = check_types(&member, &target_of(&[("", &here), ("a", &there)]));
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].name.as_str(), found[0].number),
            ("crates/x:Big", 26)
        );
    }

    #[test]
    fn lines_of_tests_do_not_count() {
        let long = format!(
            "// Long.\nimpl A {{\n/// Doc.\nfn f() {{\n{}}}\n}}\n",
            "    g();\n".repeat(79)
        );
        let text = format!(
            "{long}{}#[cfg(test)]\nmod tests {{\n{long}{long}}}\n",
            "const A: u8 = 0;\n".repeat(316)
        );
        let target = target_of(&[("a", &text)]);
        assert_eq!(
            check_files(&target)
                .iter()
                .map(|found| found.number)
                .collect::<Vec<_>>(),
            [401]
        );
        let functions = check_functions(&target);
        assert_eq!(functions.len(), 1);
        assert_eq!(
            (functions[0].name.as_str(), functions[0].number),
            ("a:A::f", 81)
        );
    }
}
