//! What a server is started with: its folder, its settings, and its applications. Looks at files; starts nothing.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, anyhow};
use command_line::ApplicationArguments;
use config::{ApplicationSettings, CONFIG_FILES, ServerSettings, Settings, Sources};

use crate::application::{Application, ChildEnvironment, folder, rackup};
use crate::system::working_folder::absolute;

/// A server and its applications. In another thread it owns its settings; [`Setup::share`] puts them behind an `Rc`.
#[derive(Clone, Debug)]
pub(crate) struct Setup<S = Rc<Settings>> {
    /// Its folder, canonical, as it was at the start; that of its only application, where the file lists none.
    pub(crate) dir: PathBuf,
    /// Its folder as it was named: a link in it may lead elsewhere at the next restart.
    pub(crate) named: PathBuf,
    /// The file of settings that was read, canonical.
    pub(crate) config: Option<PathBuf>,
    /// Those of the server.
    pub(crate) settings: S,
    /// At least one.
    pub(crate) applications: Vec<Application<S>>,
    /// What processes of applications get that have the server's user.
    child_environment: ChildEnvironment,
    /// To load it again.
    arguments: ApplicationArguments,
}

impl Setup<Settings> {
    /// Finds the applications and loads all settings.
    ///
    /// # Errors
    /// What is missing or wrong, with its name.
    pub(crate) fn load(arguments: ApplicationArguments) -> Result<Self> {
        let named = arguments.dir.as_deref().unwrap_or(Path::new("."));
        let dir = folder(named)?;
        let named = absolute(named);
        let loaded = ServerSettings::load(&Sources {
            dir: dir.clone(),
            config: arguments.config.clone(),
            flags: arguments.flags.clone(),
            env: std::env::vars_os().collect(),
        });
        let loaded = loaded.map_err(|errors| anyhow!("{errors}"))?;
        // Found again by the same path, wherever the working folder is by then.
        let again = ApplicationArguments {
            dir: Some(named.clone()),
            config: arguments.config.as_deref().map(absolute),
            flags: arguments.flags,
        };
        let applications = if loaded.applications.is_empty() {
            rackup(&loaded.server.rackup, &dir).with_context(|| {
                "cannot serve this folder; run highball in the application's folder or name that: highball DIR"
            })?;
            vec![Application {
                table: None,
                dir: dir.clone(),
                named: named.clone(),
                settings: loaded.server.clone(),
                child_environment: ChildEnvironment::default(),
            }]
        } else {
            loaded
                .applications
                .into_iter()
                .map(one_of_several)
                .collect()
        };
        let default = || {
            CONFIG_FILES
                .iter()
                .map(|name| dir.join(name))
                .find(|path| path.is_file())
        };
        let config = arguments.config.or_else(default);
        Ok(Self {
            dir,
            named,
            config: config.and_then(|path| path.canonicalize().ok()),
            settings: loaded.server,
            applications,
            child_environment: ChildEnvironment::default(),
            arguments: again,
        })
    }

    /// The same, with shared settings.
    pub(crate) fn share(self) -> Setup {
        Setup {
            dir: self.dir,
            named: self.named,
            config: self.config,
            settings: Rc::new(self.settings),
            applications: self
                .applications
                .into_iter()
                .map(Application::share)
                .collect(),
            child_environment: self.child_environment,
            arguments: self.arguments,
        }
    }
}

impl Setup {
    /// Returns a function that loads the same again, by the same folder, file, flags and variables. It blocks; its errors are
    /// those of [`Setup::load`].
    pub(crate) fn again(&self) -> impl FnOnce() -> Result<Setup<Settings>> + Send + use<> {
        let arguments = self.arguments.clone();
        || Setup::load(arguments)
    }

    /// What processes of applications get from this one that have its user.
    pub(crate) fn child_environment(&self) -> &ChildEnvironment {
        &self.child_environment
    }

    /// Sets what processes of applications get from this one. Those with a user of their own get something else in addition.
    pub(crate) fn set_child_environment(&mut self, environment: &ChildEnvironment) {
        self.child_environment = environment.clone();
        for application in &mut self.applications {
            application.child_environment = environment.clone();
        }
    }

    /// Sets the same as in the setup that a running server was started with: users do not change while it runs.
    pub(crate) fn keep_child_environment(&mut self, old: &Setup) {
        self.set_child_environment(&old.child_environment);
        for application in &mut self.applications {
            let mut all = old.applications.iter();
            if let Some(known) = all.find(|one| one.name() == application.name()) {
                application.child_environment = known.child_environment.clone();
            }
        }
    }
}

/// One application of several. Its folder is not looked at: where that is gone or does not answer, others are still served.
fn one_of_several(one: ApplicationSettings) -> Application<Settings> {
    let ApplicationSettings { table, settings } = one;
    let named = table.path.clone();
    Application {
        dir: named.clone(),
        named,
        table: Some(table),
        settings,
        child_environment: ChildEnvironment::default(),
    }
}
