//! What a loaded application says of itself, for the front; with the setting `public_files` that decides whose files the
//! server answers itself. It opens nothing.

use std::path::Path;

use config::PublicFiles;
use exchange::control::PublicFolder;
use front::{ApplicationFront, Published};
use supervisor::Booted;

use super::Application;

/// Has the front keep to what a loaded application says of itself: secret parameters and its public folder. `dir` is the
/// folder that it was loaded from.
pub(crate) async fn apply(
    front: &ApplicationFront,
    application: &Application,
    dir: &Path,
    booted: &Booted,
) {
    front.hide_parameters(&booted.filter_parameters);
    let folder = folder(application, dir, booted);
    front.serve_public_files(folder).await;
}

/// The folder that is served, if there is one.
fn folder(application: &Application, dir: &Path, booted: &Booted) -> Option<Published> {
    let said = booted.public_folder.clone();
    let path = match &application.settings.public_files {
        PublicFiles::None => return None,
        PublicFiles::Auto => said.as_ref()?.path.clone().into(),
        PublicFiles::Folder(folder) => dir.join(folder),
    };
    let said = said.unwrap_or_else(|| PublicFolder {
        index: "index".to_owned(),
        ..PublicFolder::default()
    });
    // Such as `2.2.22`.
    let rack = booted.rack.split('.').next().unwrap_or_default();
    Some(Published {
        path,
        index: said.index,
        headers: said.headers,
        https_only: said.https_only,
        rack: rack.parse().unwrap_or(3),
    })
}
