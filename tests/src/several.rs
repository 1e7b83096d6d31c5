//! Servers with several applications, for tests of what these share and what they do not.

use serde_json::Value;
use test_support::{Application, Client, Process, Response, Server, ServerBuilder, until};

/// Says its name, and where a request was mounted.
pub fn named(name: &str) -> String {
    format!(
        r##"run lambda {{ |env|
            keys = %w[SCRIPT_NAME PATH_INFO REQUEST_URI REQUEST_PATH]
            Test.text("{name} #{{env.values_at(*keys).join(" ")}} #{{ENV["OWN"]}}")
        }}"##
    )
}

/// A server with applications, each in a folder of its own.
pub struct Several {
    /// The server, in a folder of its own.
    pub server: Server,
    /// Its applications.
    pub applications: Vec<Application>,
}

/// The text of a file of settings: one worker of one thread for each application, by name, with these keys.
pub fn settings_file(applications: &[Application], tables: &[(&str, &str)]) -> String {
    let mut file = "workers = 1\nthreads = 1\n".to_owned();
    for (application, (name, keys)) in applications.iter().zip(tables) {
        let path = application.path().display();
        file += &format!("[[application]]\nname = \"{name}\"\npath = \"{path}\"\n{keys}\n");
    }
    file
}

/// Starts a server with these applications, of these names and keys.
pub fn prepared(
    applications: Vec<Application>,
    tables: &[(&str, &str)],
    settings: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> Several {
    let folder = Application::new("raise 'nobody runs this one'");
    let file = settings_file(&applications, tables);
    let builder = Server::application_of(folder).settings_file(&file);
    Several {
        server: settings(builder).start(),
        applications,
    }
}

/// Starts a server with applications of these sources and keys, and waits until all have come up.
pub fn start(applications: &[(&str, &str, &str)]) -> Several {
    let all = applications.iter();
    let made = all.clone().map(|(_, source, _)| Application::new(source));
    let tables: Vec<_> = all.map(|(name, _, keys)| (*name, *keys)).collect();
    let several = prepared(made.collect(), &tables, |builder| builder);
    several.until_all_serve();
    several
}

/// A server that is to have an application for each host `NAME.test`.
pub struct ByHost {
    applications: Vec<Application>,
    /// Their names and keys.
    tables: Vec<(String, String)>,
    settings: Vec<(String, String)>,
}

/// Makes applications of these names and sources, each for the host `NAME.test`.
pub fn by_host(applications: &[(&str, &str)]) -> ByHost {
    let tables = applications.iter().map(|(name, _)| {
        let keys = format!("hosts = [\"{name}.test\"]");
        ((*name).to_owned(), keys)
    });
    let made = applications.iter();
    ByHost {
        tables: tables.collect(),
        applications: made.map(|(_, source)| Application::new(source)).collect(),
        settings: Vec::new(),
    }
}

impl ByHost {
    /// Adds lines to the table of an application.
    #[must_use]
    pub fn keys(mut self, name: &str, keys: &str) -> Self {
        let at = self.position(name);
        self.tables[at].1 += &format!("\n{keys}");
        self
    }

    /// Sets something for all applications.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The application of this name.
    pub fn application(&self, name: &str) -> &Application {
        &self.applications[self.position(name)]
    }

    /// Starts the server: some application has come up then.
    pub fn start(self) -> Several {
        let tables = self.tables.iter();
        let tables: Vec<_> = tables.map(|(name, keys)| (&**name, &**keys)).collect();
        prepared(self.applications, &tables, |mut builder| {
            for (name, value) in &self.settings {
                builder = builder.setting(name, value);
            }
            builder
        })
    }

    /// Starts the server, and waits until all applications have come up.
    pub fn start_all(self) -> Several {
        let several = self.start();
        several.until_all_serve();
        several
    }

    fn position(&self, name: &str) -> usize {
        let mut tables = self.tables.iter();
        let found = tables.position(|(other, _)| other == name);
        found.expect("an application of this name")
    }
}

impl Several {
    /// Waits until a generation of each application serves.
    pub fn until_all_serve(&self) {
        until("all applications serve", || {
            let status = self.server.status();
            let all = status.0["applications"].as_array().expect("a list");
            let serves = |one: &Value| one["generations"][0]["state"] == "serving";
            !all.is_empty() && all.iter().all(serves)
        });
    }

    /// A client that has sent a request.
    #[track_caller]
    pub fn ask(&self, host: &str, target: &str) -> Client {
        let mut client = self.server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client
    }

    /// Sends a request and returns its response.
    #[track_caller]
    pub fn get(&self, host: &str, target: &str) -> Response {
        self.ask(host, target).response()
    }

    /// A client whose connection the application has taken over.
    #[track_caller]
    pub fn hijack(&self, host: &str) -> Client {
        let mut client = self.ask(host, "/");
        assert_eq!(client.head().status, 101);
        client
    }

    /// What the status says of the application of this name.
    pub fn status(&self, name: &str) -> Value {
        let mut status = self.server.status().0;
        let all = status["applications"].as_array_mut().expect("a list");
        let found = all.iter_mut().find(|one| one["name"] == name);
        found.expect("the application").take()
    }

    /// The processes of the application of this name.
    pub fn processes(&self, name: &str) -> Vec<Process> {
        let status = self.status(name);
        let all = status["processes"].as_array().expect("a list").iter();
        let pid = |one: &Value| u32::try_from(one["pid"].as_u64().expect("a number"));
        all.map(|one| Process(pid(one).expect("a process")))
            .collect()
    }
}
