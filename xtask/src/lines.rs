//! Product lines of code: Rust and Ruby without tests, comments and blank lines. A line counts if it holds part of
//! something that is neither a comment nor documentation.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;
use proc_macro2::{TokenStream, TokenTree};

use crate::source::{Source, targets};
use crate::workspace::{Workspace, files_below};

/// Folders of the gem with Ruby of the product, and the extension of the files there. What the lab runs is counted with
/// its crate; applications that the lab measures are data.
const RUBY: [(&str, &str); 2] = [("gem/lib", "rb"), ("gem/exe", "")];
/// Packages that are tests or tools, and no product.
const NO_PRODUCT: [&str; 3] = ["crates/test-support", "tests", "xtask"];

/// Returns a table: the product's lines of code of each crate and in all.
///
/// # Errors
/// If a file cannot be read or is not Rust.
pub fn report(workspace: &Workspace) -> Result<String> {
    let mut rows = Vec::new();
    for member in workspace
        .members
        .iter()
        .filter(|member| !NO_PRODUCT.contains(&member.folder.as_str()))
    {
        let mut lines = 0;
        for target in targets(&workspace.root, member)? {
            lines += target.files.iter().map(rust).sum::<usize>();
        }
        for path in files_below(&workspace.root, &format!("{}/src", member.folder), "rb")? {
            lines += ruby(&std::fs::read_to_string(workspace.root.join(path))?);
        }
        rows.push((member.folder.clone(), lines));
    }
    for (folder, extension) in RUBY {
        let mut lines = 0;
        for path in files_below(&workspace.root, folder, extension)? {
            lines += ruby(&std::fs::read_to_string(workspace.root.join(path))?);
        }
        rows.push((folder.to_owned(), lines));
    }
    let sum = |of: &dyn Fn(&str) -> bool| {
        rows.iter()
            .filter(|(name, _)| of(name))
            .map(|(_, lines)| lines)
            .sum::<usize>()
    };
    let lab = |name: &str| name.starts_with("lab/");
    let mut text = String::new();
    for (name, lines) in &rows {
        writeln!(text, "{lines:>6}  {name}")?;
    }
    writeln!(text, "{:>6}  the server", sum(&|name| !lab(name)))?;
    writeln!(text, "{:>6}  the lab", sum(&lab))?;
    writeln!(text, "{:>6}  in all", sum(&|_| true))?;
    Ok(text)
}

/// The lines of code of a Rust file.
fn rust(source: &Source) -> usize {
    let mut lines = BTreeSet::new();
    let tokens: TokenStream = source.text.parse().expect("the file was parsed before");
    collect(tokens, &source.text.lines().collect::<Vec<_>>(), &mut lines);
    lines
        .into_iter()
        .filter(|&line| !source.is_test(line))
        .count()
}

/// Adds the lines on which these tokens are. A documentation comment arrives as `#[doc = "..."]` at the comment's place.
fn collect(tokens: TokenStream, text: &[&str], lines: &mut BTreeSet<usize>) {
    let mut in_comment = false;
    for token in tokens {
        let (start, end) = (token.span().start(), token.span().end());
        let is_comment = |at: proc_macro2::LineColumn| {
            let from = text
                .get(at.line - 1)
                .map(|line| line.chars().skip(at.column).take(2).collect::<String>());
            from.is_some_and(|from| from == "//" || from == "/*")
        };
        match token {
            TokenTree::Punct(ref punct) if punct.as_char() == '#' => in_comment = is_comment(start),
            TokenTree::Group(group) if !in_comment => {
                lines.extend([start.line, end.line]);
                collect(group.stream(), text, lines);
                continue;
            }
            TokenTree::Group(_) => {
                in_comment = false;
                continue;
            }
            _ => {}
        }
        if !in_comment {
            lines.extend(start.line..=end.line);
        }
    }
}

/// The lines of code of a Ruby file.
fn ruby(text: &str) -> usize {
    let mut in_comment = false;
    let code = text
        .lines()
        .take_while(|line| *line != "__END__")
        .filter(|line| {
            in_comment |= line.starts_with("=begin");
            let counts =
                !in_comment && !line.trim().is_empty() && !line.trim_start().starts_with('#');
            in_comment &= !line.starts_with("=end");
            counts
        });
    code.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_documentation_are_no_code() {
        let text = "//! Doc.\n\n/// Doc.\nfn a() { // why\n    /* b\n    c */\n    b(\"x\n    y\");\n}\n#[inline]\nfn b() {}\n";
        let mut lines = BTreeSet::new();
        collect(
            text.parse().unwrap(),
            &text.lines().collect::<Vec<_>>(),
            &mut lines,
        );
        assert_eq!(lines.into_iter().collect::<Vec<_>>(), [4, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn ruby_comments_are_no_code() {
        assert_eq!(
            ruby("# a\n\ndef a = 1 # b\n=begin\nx\n=end\n  # c\nend\n__END__\nz\n"),
            2
        );
    }
}
