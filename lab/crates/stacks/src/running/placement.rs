//! Where one start of a stack has its files, ports and sockets, and the environment of its processes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::certificate;
use crate::definition::{Definition, ProcessTemplate};
use crate::rendering::{Place, Values};
use crate::{Deployment, ports};

impl Definition {
    /// Paths and ports for one start.
    pub(super) fn values(
        &self,
        deployment: &Deployment,
        scratch: &Path,
        run: &Path,
    ) -> Result<Values> {
        let (workers, threads) = self.size(deployment.workers, deployment.threads);
        let text = |path: &Path| path.display().to_string();
        let app = &deployment.app;
        let app = app
            .canonicalize()
            .with_context(|| format!("the application {}", app.display()))?;
        let mut process = BTreeMap::new();
        for template in &self.processes {
            let count = if template.each_worker { workers } else { 1 };
            let mut places = Vec::new();
            for number in 1..=count {
                let port = template.port.map_or_else(ports::free, Ok)?;
                places.push(Place {
                    number: number.to_string(),
                    port: port.to_string(),
                    socket: text(&run.join(format!("{}.{number}", template.name))),
                });
            }
            process.insert(template.name.clone(), places);
        }
        let environment = deployment.environment.get("RACK_ENV");
        Ok(Values {
            app: text(&app),
            scratch: text(scratch),
            run: text(run),
            workers,
            threads,
            environment: environment.map_or_else(|| "production".to_owned(), Clone::clone),
            certificate: text(&scratch.join(certificate::FILES[0])),
            key: text(&scratch.join(certificate::FILES[1])),
            user: output_of("id", &["-un"])?,
            group: output_of("id", &["-gn"])?,
            program: self.program_paths(&deployment.highball),
            process,
        })
    }

    /// The process that clients talk to, and where.
    pub(super) fn entry<'a>(&'a self, values: &'a Values) -> (&'a ProcessTemplate, &'a Place) {
        let last = self
            .processes
            .last()
            .expect("checked when the file was read");
        (last, &values.process[&last.name][0])
    }
}

/// A new folder with a short path, since a socket's path has 107 bytes at most (unix(7)), which servers that run as
/// another user can enter.
pub(super) fn run_folder() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("highball-").tempdir();
    let folder = folder.context("can't make a temporary folder")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// The variables of every process in addition to the lab's own; temporary files go to `run`.
pub(super) fn environment(deployment: &Deployment, run: &Path) -> BTreeMap<String, String> {
    let run = run.display().to_string();
    let defaults = [
        ("RACK_ENV", "production"),
        ("RAILS_ENV", "production"),
        ("TMPDIR", &run),
    ];
    let mut environment =
        BTreeMap::from(defaults.map(|(name, value)| (name.to_owned(), value.to_owned())));
    environment.extend(deployment.environment.clone());
    environment
}

/// The line that a program prints.
fn output_of(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("can't run {program}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
