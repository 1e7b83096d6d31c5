//! An application in its own directory: `config.ru` under Rack::Lint, and the Ruby that lets a test follow it.

use std::fs;
use std::path::Path;

use crate::directory::Directory;
use crate::fifo::{Events, Gate};

/// Loaded by every test application. Written for Rack 2.2 and 3.
const SUPPORT: &str = include_str!("application/support.rb");

/// An application that a server can be started in.
#[derive(Debug)]
pub struct Application {
    dir: Directory,
}

impl Application {
    /// Writes `config.ru`: Rack::Lint around what `source` runs.
    pub fn new(source: &str) -> Self {
        Self::with_config_ru(&format!("use Rack::Lint\n{source}"))
    }

    /// The same without Rack::Lint: for applications that break the contract on purpose.
    pub fn without_lint(source: &str) -> Self {
        Self::with_config_ru(source)
    }

    fn with_config_ru(source: &str) -> Self {
        let dir = Directory::new();
        dir.write("support.rb", SUPPORT);
        dir.write(
            "config.ru",
            format!("require File.join(Dir.pwd, \"support\")\n{source}\n"),
        );
        Self { dir }
    }

    /// Where it is.
    pub fn dir(&self) -> &Directory {
        &self.dir
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The events that it will tell. Once for each application.
    ///
    /// # Panics
    /// When they were asked for before.
    pub fn events(&self) -> Events {
        Events::create(&self.dir.join("events"))
    }

    /// A gate that it may wait at, by name.
    ///
    /// # Panics
    /// When there is one of that name.
    pub fn gate(&self, name: &str) -> Gate {
        Gate::create(&self.dir.join(format!("gate-{name}")))
    }

    /// The content of a file that the application wrote, empty where there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(name)).unwrap_or_default()
    }
}

/// The source of an application that tells each call as `METHOD path` and answers with a JSON object: `env` (each
/// text of the Rack env), `classes` (the class of every other value) and `body` (what `rack.input` gave, each byte as one character).
/// Its responses carry `x-app`, so that a refusal by the server itself differs from an answer.
pub fn reflect() -> &'static str {
    include_str!("application/reflect.ru")
}
