//! What each page says about the method, with a link to the document about it. It knows nothing of results.

use std::path::{Component, Path};

/// The section on the method, for a page in `output`, as seen from the repository's root.
pub(crate) fn method(output: &Path) -> String {
    format!(
        "## Method\n\n\
         Each part is a comparison as `highball compare` makes it; {} says how trials, intervals and the\n\
         search for disturbances work. A verdict follows the measured value; \"within noise\" means that its interval\n\
         contains the bound. The load runs on the same machine as the servers: requests per second hold the generator's\n\
         share, CPU per request does not. Each server logs as it does by default: Highball, nginx and WEBrick write an\n\
         access log (to a file), the others none.\n\n",
        link_to_method(output)
    )
}

/// The document on the method, as seen from a page in `output`; without a link where that may lie outside the repository.
fn link_to_method(output: &Path) -> String {
    let mut folders: Vec<&str> = Vec::new();
    for component in output.components() {
        match component {
            Component::Normal(folder) => folders.extend(folder.to_str()),
            Component::CurDir => {}
            _ => return "docs/internals/method.md".into(),
        }
    }
    let link = match folders.split_first() {
        Some((&"docs", deeper)) => "../".repeat(deeper.len()) + "internals/method.md",
        _ => "../".repeat(folders.len()) + "docs/internals/method.md",
    };
    format!("[method.md]({link})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_links_the_method_from_where_it_lies() {
        for (output, expected) in [
            ("docs", "[method.md](internals/method.md)"),
            ("./docs/reliability", "[method.md](../internals/method.md)"),
            (
                "target/bench",
                "[method.md](../../docs/internals/method.md)",
            ),
            ("/tmp/bench", "docs/internals/method.md"),
            ("../bench", "docs/internals/method.md"),
        ] {
            assert_eq!(link_to_method(Path::new(output)), expected, "{output}");
        }
    }
}
