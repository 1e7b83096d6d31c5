//! The applications of a status, each with the name that the dashboard gives it. Pure.

use std::path::Path;

use crate::control::report::{ApplicationReport, Report};

/// Each application with its name. One alone has that of its folder.
pub(super) fn applications(report: &Report) -> Vec<(&str, &ApplicationReport)> {
    match &report.applications[..] {
        [] => vec![(folder_name(&report.dir), &report.all)],
        several => several
            .iter()
            .map(|one| (one.name.as_str(), &one.own))
            .collect(),
    }
}

/// The name of an application's folder. Deploys lead to it through a link whose name says nothing.
fn folder_name(dir: &str) -> &str {
    let mut parents = Path::new(dir).ancestors();
    let named = parents.find_map(|folder| {
        let name = folder.file_name()?.to_str()?;
        (name != "current").then_some(name)
    });
    named.unwrap_or("application")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_has_the_name_of_its_folder() {
        assert_eq!(folder_name("/srv/shop"), "shop");
        assert_eq!(folder_name("/srv/shop/current"), "shop");
        assert_eq!(folder_name("/current"), "application");
        assert_eq!(folder_name(""), "application");
    }
}
