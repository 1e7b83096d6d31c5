//! An application that `rails new` generates, with Highball as the only server of its Gemfile, and a server in it. Debian's
//! Rails, no network.

use std::path::PathBuf;

use test_support::{Client, Directory, Program, Response, TerminalSession};

use crate::bundle;

/// What the tests do not need, most of which needs JavaScript's packages. Rails 6.1 has sprockets where Rails 7 has an asset
/// pipeline; each ignores the other's flag.
const SKIPPED: [&str; 15] = [
    "--skip-action-mailbox",
    "--skip-action-mailer",
    "--skip-action-text",
    "--skip-asset-pipeline",
    "--skip-active-storage",
    "--skip-bootsnap",
    "--skip-bundle",
    "--skip-git",
    "--skip-javascript",
    "--skip-jbuilder",
    "--skip-listen",
    "--skip-puma",
    "--skip-spring",
    "--skip-sprockets",
    "--skip-test",
];

/// A generated application.
#[derive(Debug)]
pub struct RailsApplication {
    root: Directory,
}

impl RailsApplication {
    /// Generates one with these gems beside Rails, SQLite and Highball.
    ///
    /// # Panics
    /// When Rails cannot.
    #[track_caller]
    pub fn generate(gems: &[&str]) -> Self {
        let root = Directory::new();
        let rails = bundle::program("rails", root.path(), root.path());
        let ran = rails.args(["new", "app"]).args(SKIPPED).run();
        assert!(ran.status.success(), "{}", ran.output());
        let gems: Vec<&str> = ["rails", "sqlite3"].iter().chain(gems).copied().collect();
        bundle::write_gemfile(&root, "app", &gems);
        Self { root }
    }

    /// Its folder.
    pub fn path(&self) -> PathBuf {
        self.root.join("app")
    }

    /// Writes a file of it.
    pub fn write(&self, name: &str, content: &str) {
        self.root.write(&format!("app/{name}"), content);
    }

    /// Adds the page `/page`, which this Ruby answers in a controller.
    pub fn write_page(&self, source: &str) {
        let controller = format!(
            "class PagesController < ApplicationController\n  def page\n    {source}\n  end\nend\n"
        );
        self.write("app/controllers/pages_controller.rb", &controller);
        let routes = "Rails.application.routes.draw { get \"/page\", to: \"pages#page\" }\n";
        self.write("config/routes.rb", routes);
    }

    /// `bin/rails` with these arguments, to be run to its end.
    pub fn rails(&self, arguments: &[&str]) -> Program {
        bundle::program("bin/rails", &self.path(), self.root.path()).args(arguments)
    }

    /// `bin/rails server` in a terminal, with one worker.
    pub fn server(&self, arguments: &str, variables: &[(&str, &str)]) -> TerminalSession {
        let mut environment = bundle::environment(self.root.path());
        let given = variables.iter().copied();
        environment.extend(given.map(|(name, value)| (name.to_owned(), value.to_owned())));
        TerminalSession::run(
            &format!("bin/rails server {arguments}"),
            &self.path(),
            &environment,
        )
    }

    /// Where the test may put what is not the application's.
    pub fn root(&self) -> &Directory {
        &self.root
    }
}

/// A GET, with a host that Rails allows.
///
/// # Panics
/// When there is no response.
#[track_caller]
pub fn get(address: &str, path: &str) -> Response {
    let mut client = Client::connect(address);
    client.send(format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n"
    ));
    client.response()
}
