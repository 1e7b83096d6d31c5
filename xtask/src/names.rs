//! Which file of a library or program a path in its code leads to. Knows modules and `use`, not types: `Type::method`
//! leads to the file that defines `Type`.

use std::collections::BTreeMap;

use syn::{Item, ItemUse, UseTree, Visibility};

use crate::source::Target;

/// A chain of re-exports is followed so far; longer ones are circular.
const MAX_REEXPORTS: usize = 16;

/// What a path means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Something of this library or program, as a path from its root.
    Own(Vec<String>),
    /// Something of another crate, or a local variable.
    Foreign(Vec<String>),
}

/// A module: a file, or a `mod name { ... }` in one.
#[derive(Debug, Default)]
struct Module {
    /// The file that it is in.
    file: usize,
    /// What `use` brings into it: name and path as written.
    imports: BTreeMap<String, Vec<String>>,
    /// The paths before `::*`.
    globs: Vec<Vec<String>>,
    /// What it defines.
    items: Vec<String>,
}

/// The modules of a library or program.
#[derive(Debug)]
pub(crate) struct Names {
    modules: BTreeMap<Vec<String>, Module>,
}

impl Names {
    pub(crate) fn of(target: &Target) -> Self {
        let mut names = Self {
            modules: BTreeMap::new(),
        };
        for (file, source) in target.files.iter().enumerate() {
            names.add(&source.module, file, &source.tree.items);
        }
        names
    }

    fn add(&mut self, path: &[String], file: usize, items: &[Item]) {
        let mut module = Module {
            file,
            ..Module::default()
        };
        for item in items {
            if let Item::Use(item) = item {
                for (name, path) in flatten(item) {
                    match name {
                        Some(name) => _ = module.imports.insert(name, path),
                        None => module.globs.push(path),
                    }
                }
            } else if let Some(name) = name_of(item) {
                module.items.push(name);
            }
            if let Item::Mod(inner) = item
                && let Some((_, items)) = &inner.content
            {
                let path: Vec<_> = path
                    .iter()
                    .cloned()
                    .chain([inner.ident.to_string()])
                    .collect();
                self.add(&path, file, items);
            }
        }
        self.modules.insert(path.to_vec(), module);
    }

    /// What a path in a module means.
    pub(crate) fn meaning(&self, module: &[String], path: &[String]) -> Meaning {
        let Some(first) = path.first() else {
            return Meaning::Foreign(Vec::new());
        };
        let from = |base: &[String], rest: &[String]| {
            Meaning::Own(base.iter().chain(rest).cloned().collect())
        };
        match first.as_str() {
            "crate" => from(&[], &path[1..]),
            "self" => from(module, &path[1..]),
            "super" => {
                let ups = path
                    .iter()
                    .take_while(|name| *name == "super")
                    .count()
                    .min(module.len());
                from(&module[..module.len() - ups], &path[ups..])
            }
            name => {
                let child: Vec<_> = module.iter().cloned().chain([name.to_owned()]).collect();
                if self.modules.contains_key(&child) {
                    return from(&child, &path[1..]);
                }
                let known = self.modules.get(module);
                match known.and_then(|known| known.imports.get(name)) {
                    Some(imported) if imported.first() != Some(first) => {
                        let whole: Vec<_> = imported.iter().chain(&path[1..]).cloned().collect();
                        self.meaning(module, &whole)
                    }
                    Some(imported) => {
                        Meaning::Foreign(imported.iter().chain(&path[1..]).cloned().collect())
                    }
                    None if known
                        .is_some_and(|known| known.items.iter().any(|item| item == name)) =>
                    {
                        from(module, path)
                    }
                    None => Meaning::Foreign(path.to_vec()),
                }
            }
        }
    }

    /// The module and the file that define what this path from the root leads to, with re-exports followed, and the
    /// name in that module; no name for a module itself.
    pub(crate) fn definition(&self, path: &[String]) -> (Vec<String>, usize, Option<String>) {
        self.follow(path, 0)
    }

    fn follow(&self, path: &[String], depth: usize) -> (Vec<String>, usize, Option<String>) {
        let length = (0..=path.len())
            .rev()
            .find(|&length| self.modules.contains_key(&path[..length]))
            .unwrap_or(0);
        let module = &self.modules[&path[..length]];
        let place = path[..length].to_vec();
        let Some(name) = path.get(length) else {
            return (place, module.file, None);
        };
        if depth < MAX_REEXPORTS && !module.items.contains(name) {
            let globs = module
                .globs
                .iter()
                .map(|glob| glob.iter().chain([name]).cloned().collect());
            for imported in module.imports.get(name).cloned().into_iter().chain(globs) {
                let Meaning::Own(imported) = self.meaning(&place, &imported) else {
                    continue;
                };
                let whole: Vec<_> = imported
                    .iter()
                    .chain(&path[length + 1..])
                    .cloned()
                    .collect();
                let found = self.follow(&whole, depth + 1);
                if found
                    .2
                    .as_ref()
                    .is_none_or(|name| self.modules[&found.0].items.contains(name))
                {
                    return found;
                }
            }
        }
        (place, module.file, Some(name.clone()))
    }
}

/// The names that a `use` brings in and their paths; no name for `::*`.
pub(crate) fn flatten(item: &ItemUse) -> Vec<(Option<String>, Vec<String>)> {
    let mut found = Vec::new();
    flatten_tree(&item.tree, &mut Vec::new(), &mut found);
    found
}

fn flatten_tree(
    tree: &UseTree,
    path: &mut Vec<String>,
    found: &mut Vec<(Option<String>, Vec<String>)>,
) {
    let mut leaf = |name: String, rename: Option<String>| {
        let mut whole = path.clone();
        let own = if name == "self" {
            path.last().cloned().unwrap_or_default()
        } else {
            name.clone()
        };
        if name != "self" {
            whole.push(name);
        }
        found.push((Some(rename.unwrap_or(own)), whole));
    };
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            flatten_tree(&tree.tree, path, found);
            path.pop();
        }
        UseTree::Name(tree) => leaf(tree.ident.to_string(), None),
        UseTree::Rename(tree) => leaf(tree.ident.to_string(), Some(tree.rename.to_string())),
        UseTree::Glob(_) => found.push((None, path.clone())),
        UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|tree| flatten_tree(tree, path, found)),
    }
}

/// Whether a `use` makes its names visible outside of its module.
pub(crate) fn is_reexport(item: &ItemUse) -> bool {
    !matches!(item.vis, Visibility::Inherited)
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

#[cfg(test)]
mod tests;
