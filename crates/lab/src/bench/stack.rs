//! The servers under comparison: how each is started so that all have the same number of processes and
//! threads, the same environment, and no work that the others do not do. It never tunes one of them.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

pub use running::Running;

mod running;

/// A server that can be started on an application's folder.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// This project's server.
    Highball,
    /// Puma as a cluster that loads the application before it forks.
    Puma,
    /// Unicorn with a preloaded application.
    Unicorn,
    /// Passenger standalone with its builtin engine.
    Passenger,
}

impl Stack {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Highball, Self::Puma, Self::Unicorn, Self::Passenger];
}

impl fmt::Display for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Highball => "Highball",
            Self::Puma => "Puma",
            Self::Unicorn => "Unicorn",
            Self::Passenger => "Passenger",
        })
    }
}

/// What a stack is started on. Text and not paths, so that the report can show the same commands with
/// names in the places of one machine's paths.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// The application's folder.
    pub app: String,
    /// The program `highball`.
    pub highball: String,
    /// A folder of the trial's own.
    pub scratch: String,
    /// The port to listen on; Highball picks its own.
    pub port: String,
    /// Worker processes, each with one thread.
    pub workers: usize,
}

/// How to find out where a started server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announcement {
    /// It listens on the port it was told.
    GivenPort,
    /// It prints `listening on http://...` and `ready: ...`.
    Printed,
}

/// A command that starts a server in the foreground.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables beside those of [`ENVIRONMENT`].
    pub environment: Vec<(String, String)>,
    /// Files it needs: path and content.
    pub files: Vec<(String, String)>,
    /// How its address becomes known.
    pub announcement: Announcement,
}

/// The environment of every stack.
pub const ENVIRONMENT: [(&str, &str); 2] =
    [("RACK_ENV", "production"), ("RAILS_ENV", "production")];

impl Stack {
    /// The command that serves `deployment`. The working directory is the application's folder.
    pub fn launch(self, deployment: &Deployment) -> Launch {
        let Deployment {
            app,
            highball,
            scratch,
            port,
            workers,
        } = deployment;
        let mut files = Vec::new();
        let command = match self {
            Self::Highball => {
                format!(
                    "{highball} serve {app} --listen 127.0.0.1:0 --workers {workers} --threads 1 --environment production"
                )
            }
            Self::Puma => format!(
                "puma -w {workers} -t 1:1 --preload -e production -b tcp://127.0.0.1:{port} config.ru"
            ),
            Self::Unicorn => {
                let config = format!("{scratch}/unicorn.rb");
                files.push((
                    config.clone(),
                    format!("worker_processes {workers}\npreload_app true\n"),
                ));
                format!("unicorn -E production -l 127.0.0.1:{port} -c {config} config.ru")
            }
            Self::Passenger => format!(
                "passenger start {app} --engine builtin -e production -a 127.0.0.1 -p {port} \
                 --min-instances {workers} --max-pool-size {workers} --log-file {scratch}/passenger.log \
                 --pid-file {scratch}/passenger.pid --instance-registry-dir {scratch} \
                 --no-install-runtime --disable-security-update-check --disable-anonymous-telemetry"
            ),
        };
        Launch {
            command: command.split_whitespace().map(str::to_owned).collect(),
            environment: Vec::new(),
            files,
            announcement: if self == Self::Highball {
                Announcement::Printed
            } else {
                Announcement::GivenPort
            },
        }
    }

    /// Whether the server is there to be started.
    pub fn is_installed(self, highball: &Path) -> bool {
        match self {
            Self::Highball => highball.is_file(),
            Self::Puma => in_path("puma"),
            Self::Unicorn => in_path("unicorn"),
            Self::Passenger => in_path("passenger"),
        }
    }
}

impl Launch {
    /// Writes the files that the command needs.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn write_files(&self) -> Result<()> {
        for (path, content) in &self.files {
            fs::write(path, content).with_context(|| format!("writing {path}"))?;
        }
        Ok(())
    }
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Deployment {
        let text = str::to_owned;
        Deployment {
            app: text("APP"),
            highball: text("highball"),
            scratch: text("SCRATCH"),
            port: text("PORT"),
            workers: 6,
        }
    }

    #[test]
    fn every_stack_gets_the_same_number_of_workers() {
        for stack in Stack::ALL {
            let launch = stack.launch(&deployment());
            let files = launch.files.iter().map(|(_, content)| content.as_str());
            let text = launch
                .command
                .iter()
                .map(String::as_str)
                .chain(files)
                .collect::<Vec<_>>()
                .join(" ");
            assert_eq!(
                text.matches(" 6").count(),
                if stack == Stack::Passenger { 2 } else { 1 },
                "{text}"
            );
            assert!(text.contains("production"), "{text}");
        }
    }

    #[test]
    fn only_highball_picks_its_port() {
        for stack in Stack::ALL {
            let launch = stack.launch(&deployment());
            let given = launch.command.iter().any(|word| word.contains("PORT"));
            assert_eq!(
                given,
                launch.announcement == Announcement::GivenPort,
                "{stack}"
            );
        }
    }
}
