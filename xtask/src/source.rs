//! The product's source files of a package: what is reached from its library and programs by `mod`, without what is
//! compiled for tests only. Knows nothing of rules.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::{Attribute, File, ImplItem, Item, Meta};

use crate::workspace::{Member, files_below};

/// The files of one library or program: a tree of modules with one root.
pub struct Target {
    /// The root's file first.
    pub files: Vec<Source>,
}

/// A source file of the product.
pub struct Source {
    /// Its path, relative to the root of the workspace.
    pub path: String,
    /// Its module: empty for the root, `["screen", "body"]` for `screen/body.rs`.
    pub module: Vec<String>,
    /// Its text.
    pub text: String,
    /// Its syntax tree, without what is compiled for tests only.
    pub tree: File,
    /// Lines of the items that are compiled for tests only, counted from 1.
    pub tests: Vec<RangeInclusive<usize>>,
}

impl Source {
    /// Whether this line, counted from 1, is compiled for tests only.
    pub fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }

    /// Number of lines without those of tests.
    pub fn product_lines(&self) -> usize {
        (1..=self.text.lines().count())
            .filter(|&line| !self.is_test(line))
            .count()
    }
}

/// Returns the library and the programs of a package.
///
/// # Errors
/// If a file cannot be read or is not Rust.
pub fn targets(root: &Path, member: &Member) -> Result<Vec<Target>> {
    let folder = &member.folder;
    let mut roots = vec![
        format!("{folder}/src/lib.rs"),
        format!("{folder}/src/main.rs"),
    ];
    roots.extend(files_below(root, &format!("{folder}/src/bin"), "rs")?);
    roots.retain(|path| root.join(path).is_file());
    roots.into_iter().map(|path| target(root, &path)).collect()
}

fn target(root: &Path, path: &str) -> Result<Target> {
    let mut target = Target { files: Vec::new() };
    let children = Path::new(path)
        .parent()
        .expect("a root is in a folder")
        .to_owned();
    add(
        root,
        PathBuf::from(path),
        &children,
        Vec::new(),
        &mut target,
    )?;
    Ok(target)
}

/// Adds a file and, from the folder `children`, the modules that it declares.
fn add(
    root: &Path,
    path: PathBuf,
    children: &Path,
    module: Vec<String>,
    target: &mut Target,
) -> Result<()> {
    let text = fs::read_to_string(root.join(&path))
        .with_context(|| format!("cannot read {}", path.display()))?;
    let mut tree =
        syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
    let mut tests = Vec::new();
    let mut declared = Vec::new();
    scan(&tree.items, &[], &mut tests, &mut declared);
    remove_tests(&mut tree.items);
    target.files.push(Source {
        path: path.to_string_lossy().into_owned(),
        module: module.clone(),
        text,
        tree,
        tests,
    });
    for names in declared {
        let name = names.last().expect("a declared module has a name");
        let folder = names[..names.len() - 1]
            .iter()
            .fold(children.to_owned(), |folder, name| folder.join(name));
        let (file, nested) = (folder.join(format!("{name}.rs")), folder.join(name));
        let file = if root.join(&file).is_file() {
            file
        } else {
            nested.join("mod.rs")
        };
        let module = module
            .iter()
            .cloned()
            .chain(names.iter().cloned())
            .collect();
        add(root, file, &nested, module, target)?;
    }
    Ok(())
}

/// Finds the lines of tests and the modules with a file of their own.
fn scan(
    items: &[Item],
    within: &[String],
    tests: &mut Vec<RangeInclusive<usize>>,
    declared: &mut Vec<Vec<String>>,
) {
    for item in items {
        if is_for_tests(attributes(item)) {
            tests.push(item.span().start().line..=item.span().end().line);
        } else if let Item::Mod(module) = item {
            let names = within
                .iter()
                .cloned()
                .chain([module.ident.to_string()])
                .collect::<Vec<_>>();
            match &module.content {
                Some((_, items)) => scan(items, &names, tests, declared),
                None => declared.push(names),
            }
        }
    }
}

/// Removes what is compiled for tests only: modules, other items, methods.
fn remove_tests(items: &mut Vec<Item>) {
    items.retain(|item| !is_for_tests(attributes(item)));
    for item in items {
        match item {
            Item::Mod(module) => {
                if let Some((_, items)) = &mut module.content {
                    remove_tests(items);
                }
            }
            Item::Impl(item) => item.items.retain(
                |item| !matches!(item, ImplItem::Fn(function) if is_for_tests(&function.attrs)),
            ),
            _ => {}
        }
    }
}

/// Whether something with these attributes is compiled for tests only.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.starts_with("all") && condition.contains("test")
        }
        _ => false,
    })
}

/// The attributes of an item.
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// A library of these modules and texts, for tests; a file's path is its module.
#[cfg(test)]
pub(crate) fn target_of(files: &[(&str, &str)]) -> Target {
    let files = files.iter().map(|(module, text)| {
        let mut tree = syn::parse_file(text).unwrap();
        let mut tests = Vec::new();
        scan(&tree.items, &[], &mut tests, &mut Vec::new());
        remove_tests(&mut tree.items);
        Source {
            path: module.to_string(),
            module: module
                .split("::")
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            text: text.to_string(),
            tree,
            tests,
        }
    });
    Target {
        files: files.collect(),
    }
}
