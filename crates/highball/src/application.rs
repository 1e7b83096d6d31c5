//! What is to be served: the folder, its settings, and what the template is told about both. Looks at files;
//! starts nothing.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use config::{CONFIG_FILES, Settings, Sources};
use exchange::control::Start;
use supervisor::Plan;

use crate::arguments::Choice;
use crate::library;

/// The generation that a server starts with.
pub(crate) const FIRST_GENERATION: u32 = 1;

/// An application and its settings, both checked.
#[derive(Debug)]
pub(crate) struct Application {
    /// Its folder, canonical.
    pub(crate) dir: PathBuf,
    /// The file of settings that was read, canonical.
    pub(crate) config: Option<PathBuf>,
    pub(crate) settings: Settings,
    config_ru: PathBuf,
}

impl Application {
    /// Finds the application and loads its settings.
    ///
    /// # Errors
    /// What is missing or wrong, with its name.
    pub(crate) fn load(choice: Choice) -> Result<Self> {
        let dir = choice.dir.unwrap_or_else(|| PathBuf::from("."));
        let dir = folder(&dir)?;
        let settings = Settings::load(Sources {
            dir: dir.clone(),
            config: choice.config.clone(),
            flags: choice.flags,
            env: std::env::vars_os().collect(),
        });
        let settings = settings.map_err(|errors| anyhow!("{errors}"))?;
        let config_ru = dir.join(&settings.rackup);
        if !config_ru.is_file() {
            bail!(
                "there is no {} in {}; run highball in the application's folder or name it: highball DIR",
                settings.rackup.display(),
                dir.display()
            );
        }
        let default = || {
            CONFIG_FILES
                .iter()
                .map(|name| dir.join(name))
                .find(|path| path.is_file())
        };
        let config = choice
            .config
            .or_else(default)
            .and_then(|path| path.canonicalize().ok());
        Ok(Self {
            dir,
            config,
            settings,
            config_ru,
        })
    }

    /// What the supervisor is to run.
    ///
    /// # Errors
    /// The Ruby library is missing, or a path is not in UTF-8.
    pub(crate) fn plan(&self, exchange: [OwnedFd; 2], unix_sockets: Vec<PathBuf>) -> Result<Plan> {
        let settings = &self.settings;
        let hooks = self.dir.join(&settings.hooks);
        let hooks = hooks.is_file().then(|| text(&hooks)).transpose()?;
        let unix_sockets: Result<_> = unix_sockets.iter().map(|path| text(path)).collect();
        Ok(Plan {
            ruby: settings.ruby.clone(),
            library: library::find()?,
            workers: settings.workers,
            boot_timeout: settings.boot_timeout,
            start: Start {
                app: text(&self.dir)?,
                config_ru: text(&self.config_ru)?,
                environment: settings.environment.clone(),
                hooks,
                threads: settings.threads,
                compact: settings.compact,
                batch: settings.batch_scheduling,
                generation: FIRST_GENERATION,
                unix_sockets: unix_sockets?,
            },
            exchange,
        })
    }
}

/// A folder, canonical.
///
/// # Errors
/// It is none, or cannot be entered.
pub(crate) fn folder(dir: &Path) -> Result<PathBuf> {
    let found = dir
        .canonicalize()
        .with_context(|| format!("cannot open the folder {}", dir.display()))?;
    if !found.is_dir() {
        bail!(
            "{} is no folder; name the one that holds config.ru",
            dir.display()
        );
    }
    Ok(found)
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("the path {} is not in UTF-8", path.display()))
}
