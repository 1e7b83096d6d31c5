//! A stack comes up: files, then processes in order, each once the one before listens, then the first good answer.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::{POLL, Running, Started};
use crate::bench::http::{self, Response, ResponseReader};
use crate::load::plan::Target;
use crate::stacks::definition::{Definition, ProcessTemplate};
use crate::stacks::keeper::kept::Start;
use crate::stacks::rendering::{Filling, Place, Values};
use crate::stacks::{Deployment, ports};

/// One request of a server that boots may take this long.
const ANSWER: Duration = Duration::from_secs(20);

impl Running {
    pub(super) fn bring_up(
        &mut self,
        definition: &Definition,
        values: &Values,
        filling: &Filling,
        deployment: &Deployment,
        deadline: Instant,
    ) -> Result<()> {
        for (rank, process) in definition.processes.iter().enumerate() {
            if let Some(port) = process.port.filter(|port| !ports::is_free(*port)) {
                bail!(
                    "port {port} of 127.0.0.1, which {} needs, is in use by another program",
                    process.name
                );
            }
            let places = &values.process[&process.name];
            for place in places {
                let rendered = filling.process(definition, process, values, place)?;
                let log = self.scratch.join(process.log(&place.number));
                // What an earlier start left there would tell of readiness.
                File::create(&log).with_context(|| format!("can't write {}", log.display()))?;
                let kept = self
                    .kept
                    .as_mut()
                    .expect("what is started here has a keeper");
                let pid = kept.start(Start {
                    command: rendered.command,
                    environment: rendered.environment,
                    directory: Path::new(&rendered.directory),
                    log,
                })?;
                self.started.push(Started {
                    name: process.title(&place.number),
                    pid,
                    rank,
                    signal: process.stop,
                    patience: process.stop_patience(),
                });
            }
            for place in places {
                self.wait_until_ready(process, place, values.workers, deadline)?;
            }
        }
        self.wait_until_it_answers(&deployment.path, deadline)
    }

    /// Waits until the process listens at `place`, and its log says what it is to say.
    fn wait_until_ready(
        &mut self,
        process: &ProcessTemplate,
        place: &Place,
        workers: usize,
        deadline: Instant,
    ) -> Result<()> {
        let name = process.title(&place.number);
        if process.on_socket {
            let socket = Path::new(&place.socket);
            let what = format!("{name} to listen on {}", place.socket);
            self.wait(deadline, &what, |_| ports::somebody_listens_at(socket))?;
        } else {
            let port = place.port.parse()?;
            let what = format!("{name} to listen on 127.0.0.1:{port}");
            self.wait(deadline, &what, |_| ports::somebody_listens(port))?;
        }
        let Some(ready) = &process.ready else {
            return Ok(());
        };
        let times = if ready.each_worker { workers } else { 1 };
        let log = self.scratch.join(process.log(&place.number));
        let what = format!("{:?} in the log of {name}, {times} in all", ready.text);
        self.wait(deadline, &what, |_| {
            fs::read(&log).is_ok_and(|text| {
                String::from_utf8_lossy(&text).matches(&ready.text).count() >= times
            })
        })
    }

    fn wait_until_it_answers(&mut self, path: &str, deadline: Instant) -> Result<()> {
        let mut last = String::new();
        let waited = self.wait(
            deadline,
            &format!("an answer with 200 to GET {path}"),
            |running| {
                match get(&running.target, path) {
                    Ok(response) if response.status == 200 => {
                        running.first = (response.status, response.body);
                        return true;
                    }
                    Ok(response) => {
                        last = format!("the last answer had status {}", response.status)
                    }
                    Err(error) => last = format!("{error:#}"),
                }
                false
            },
        );
        if last.is_empty() {
            waited
        } else {
            waited.with_context(|| last)
        }
    }

    /// Looks again and again until `done`, a process ends, or the time is over.
    fn wait(
        &mut self,
        deadline: Instant,
        what: &str,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> Result<()> {
        let begin = Instant::now();
        loop {
            if done(self) {
                return self.all_run();
            }
            self.all_run()
                .with_context(|| format!("waited for {what}"))?;
            if Instant::now() > deadline {
                bail!(
                    "waited for {what}: nothing in {:.0} s",
                    begin.elapsed().as_secs_f64()
                );
            }
            thread::sleep(POLL);
        }
    }
}

/// One GET on a connection of its own.
pub(super) fn get(target: &Target, path: &str) -> Result<Response> {
    match target {
        Target::Tcp(address) => http::get(*address, path, ANSWER),
        Target::Unix(socket) => {
            let mut stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(ANSWER))?;
            stream
                .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
            let mut reader = ResponseReader::default();
            let mut buffer = [0; 16 * 1024];
            loop {
                match stream.read(&mut buffer)? {
                    0 => return reader.closed(),
                    count => {
                        if let Some(response) = reader.feed(&buffer[..count])? {
                            return Ok(response);
                        }
                    }
                }
            }
        }
    }
}
