//! The templates of a stack filled in: for a start with paths and ports, for a report with names in their places.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, anyhow};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};
use serde::Serialize;

use super::definition::{Definition, ProcessTemplate};
use super::program::server_program;
use super::{Deployment, Presence};
use crate::described::Stack;

/// What templates can name.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Values {
    /// The application's folder.
    pub(super) app: String,
    /// The folder of configuration and logs.
    pub(super) scratch: String,
    /// A folder with a short path, which every user may enter: for sockets and process ids.
    pub(super) run: String,
    /// Ruby processes.
    pub(super) workers: usize,
    /// Threads of each.
    pub(super) threads: usize,
    /// `production`, unless the deployment says otherwise.
    pub(super) environment: String,
    /// The certificate for `localhost` and 127.0.0.1, and its key, as files (PEM).
    pub(super) certificate: String,
    pub(super) key: String,
    /// Who starts it.
    pub(super) user: String,
    /// Their group.
    pub(super) group: String,
    /// Paths of programs by name.
    pub(super) program: BTreeMap<String, String>,
    /// Every process by name, one entry for each of a cluster.
    pub(super) process: BTreeMap<String, Vec<Place>>,
}

/// Where one process listens.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Place {
    /// From 1.
    pub(super) number: String,
    /// Its port on 127.0.0.1.
    pub(super) port: String,
    /// Its socket, where it listens on one.
    pub(super) socket: String,
}

/// A command that is ready to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rendered {
    /// Program and arguments.
    pub(super) command: Vec<String>,
    /// Variables of its own.
    pub(super) environment: BTreeMap<String, String>,
    /// Where it runs.
    pub(super) directory: String,
}

/// [`Values`], and where the process itself listens, for the templates of a process.
#[derive(Serialize)]
struct Own<'a> {
    #[serde(flatten)]
    all: &'a Values,
    #[serde(flatten)]
    own: &'a Place,
}

impl Definition {
    /// Its description for reports: names, versions, commands and files, with names instead of paths and ports.
    pub fn describe(&self, deployment: &Deployment) -> Stack {
        let described = self.describe_as(deployment.workers, deployment.threads);
        let mut stack =
            described.expect("the templates were filled in once when the file was read");
        if let Presence::Installed { versions } = self.presence_of(&deployment.highball) {
            stack.versions = versions;
        }
        stack
    }

    /// Whether it can be started here, with [`server_program`] as the server's.
    pub fn presence(&self) -> Presence {
        self.presence_of(&server_program())
    }

    /// Its name for people, whatever its size: `nginx before N Thins`.
    pub fn title(&self) -> String {
        let number = |fixed: Option<usize>| {
            fixed.map_or_else(|| "N".to_owned(), |number| number.to_string())
        };
        let values = BTreeMap::from([
            ("workers", number(self.workers)),
            ("threads", number(self.threads)),
        ]);
        Filling::new()
            .text("name", &self.name, &values)
            .unwrap_or_else(|_| self.name.clone())
    }

    /// What is to be known of it, in one line.
    pub fn note_line(&self) -> String {
        self.note.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    pub(super) fn describe_as(&self, workers: usize, threads: usize) -> Result<Stack> {
        let values = self.symbols(workers, threads);
        let filling = Filling::new();
        let source = self.source.display();
        let mut commands = Vec::new();
        for process in &self.processes {
            let rendered =
                filling.process(self, process, &values, &self.symbolic_place(process))?;
            let variables = rendered
                .environment
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            let words: Vec<String> = variables.chain(rendered.command).collect();
            let times = if process.each_worker {
                format!("{} times: ", values.workers)
            } else {
                String::new()
            };
            commands.push(format!("{times}{}", words.join(" ")));
        }
        Ok(Stack {
            id: self.id.clone(),
            name: filling.text(&format!("{source}, name"), &self.name, &values)?,
            versions: BTreeMap::new(),
            commands,
            environment: BTreeMap::new(),
            files: self.rendered_files(&filling, &values)?,
            workers: values.workers,
            threads: values.threads,
            note: self.note_line(),
        })
    }

    /// Names and contents of the generated files.
    pub(super) fn rendered_files(
        &self,
        filling: &Filling,
        values: &Values,
    ) -> Result<Vec<(String, String)>> {
        let source = self.source.display();
        let render = |file: &super::definition::FileTemplate| {
            let text = filling.text(
                &format!("{source}, file {}", file.path),
                &file.content,
                values,
            )?;
            Ok((file.path.clone(), text))
        };
        self.files.iter().map(render).collect()
    }

    /// The command that restarts it, without the number of the process; empty where it has none.
    pub(super) fn restart_command(
        &self,
        filling: &Filling,
        highball: &Path,
    ) -> Result<Vec<String>> {
        let values = BTreeMap::from([("program", self.program_paths(highball))]);
        let what = format!("{}, restart", self.source.display());
        let words = self.restart.iter();
        words
            .map(|word| filling.text(&what, word, &values))
            .collect()
    }

    /// Ruby processes and threads of each that `deployment` gives it.
    pub(super) fn size(&self, workers: usize, threads: usize) -> (usize, usize) {
        (
            self.workers.unwrap_or(workers),
            self.threads.unwrap_or(threads),
        )
    }

    fn symbols(&self, workers: usize, threads: usize) -> Values {
        let (workers, threads) = self.size(workers, threads);
        let word = str::to_owned;
        let place = |process: &ProcessTemplate| {
            let one = |number: String| {
                let name = format!("{}_{number}", process.name.to_uppercase());
                Place {
                    port: format!("{name}_PORT"),
                    socket: format!("{name}_SOCKET"),
                    number,
                }
            };
            let places = if process.each_worker {
                (1..=workers)
                    .map(|number| one(number.to_string()))
                    .collect()
            } else {
                vec![self.symbolic_place(process)]
            };
            (process.name.clone(), places)
        };
        Values {
            app: word("APP"),
            scratch: word("SCRATCH"),
            run: word("RUN"),
            workers,
            threads,
            environment: word("production"),
            certificate: word("CERTIFICATE"),
            key: word("KEY"),
            user: word("USER"),
            group: word("GROUP"),
            program: self
                .programs
                .iter()
                .map(|program| (program.name.clone(), program.name.clone()))
                .collect(),
            process: self.processes.iter().map(place).collect(),
        }
    }

    /// Where `process` listens, in words: for each of a cluster the same.
    fn symbolic_place(&self, process: &ProcessTemplate) -> Place {
        let name = process.name.to_uppercase();
        let (name, number) = if process.each_worker {
            (format!("{name}_N"), "N")
        } else {
            (name, "1")
        };
        Place {
            number: number.to_owned(),
            port: process
                .port
                .map_or_else(|| format!("{name}_PORT"), |port| port.to_string()),
            socket: format!("{name}_SOCKET"),
        }
    }
}

/// The template engine with the rules of stacks: an unknown name is an error, and nothing is escaped.
#[derive(Debug)]
pub(super) struct Filling(Environment<'static>);

impl Filling {
    pub(super) fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        // Lines that hold a loop's start or end leave no trace in a configuration file.
        let syntax = SyntaxConfig::builder()
            .keep_trailing_newline(true)
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
        Self(environment)
    }

    /// `template` with `values` filled in; `place` names it in an error.
    ///
    /// # Errors
    /// The template is no template, or names what there is not.
    pub(super) fn text(
        &self,
        place: &str,
        template: &str,
        values: &impl Serialize,
    ) -> Result<String> {
        let rendered = self.0.render_str(template, Value::from(Serde(values)));
        rendered.map_err(|error| {
            let line = error.line().filter(|_| template.contains('\n'));
            let line = line.map_or_else(String::new, |line| format!(", line {line}"));
            let what = error
                .detail()
                .map_or_else(|| error.kind().to_string(), str::to_owned);
            anyhow!("{place}{line}: {what}")
        })
    }

    /// The command of one process, which listens at `place`.
    ///
    /// # Errors
    /// As of [`Self::text`].
    pub(super) fn process(
        &self,
        definition: &Definition,
        process: &ProcessTemplate,
        values: &Values,
        place: &Place,
    ) -> Result<Rendered> {
        let own = Own {
            all: values,
            own: place,
        };
        let name = format!("{}, process {}", definition.source.display(), process.name);
        let mut command = Vec::new();
        for word in &process.command {
            // A word may give several arguments, one a line, or none: a loop over backends.
            let text = self.text(&name, word, &own)?;
            command.extend(
                text.lines()
                    .filter(|line| !line.is_empty())
                    .map(str::to_owned),
            );
        }
        let mut environment = BTreeMap::new();
        for (variable, value) in &process.environment {
            environment.insert(variable.clone(), self.text(&name, value, &own)?);
        }
        let directory = match &process.directory {
            Some(directory) => self.text(&name, directory, &own)?,
            None => values.app.clone(),
        };
        Ok(Rendered {
            command,
            environment,
            directory,
        })
    }
}
