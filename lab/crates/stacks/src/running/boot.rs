//! A stack comes up: files, then processes in order, each once the one before listens, then the first good answer.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use proc::sockets;

use super::{POLL, Running, Started};
use crate::definition::{Definition, ProcessTemplate};
use crate::keeper::kept::Start;
use crate::rendering::{Filling, Place, Values};
use crate::{Deployment, ports};
use loadgen::page;

/// Time-out of one request to a server that boots.
pub(super) const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// A pool that starts and ends no process for so long is complete.
const POOL_QUIET_TIME: Duration = Duration::from_millis(300);
/// Bad gateway, service unavailable, gateway timeout (RFC 9110 section 15.6): a proxy or a pool that waits for workers.
const UNAVAILABLE: [u16; 3] = [502, 503, 504];

impl Running {
    pub(super) fn bring_up(
        &mut self,
        definition: &Definition,
        values: &Values,
        filling: &Filling,
        deployment: &Deployment,
    ) -> Result<()> {
        let begin = Instant::now();
        let deadline = begin + deployment.boot_timeout;
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
                // Lines of an earlier start would count as readiness.
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
                    stop_timeout: process.stop_timeout(),
                });
            }
            for place in places {
                self.wait_until_ready(process, place, values.workers, deadline)?;
            }
        }
        self.wait_until_it_answers(&deployment.path, deadline)?;
        self.boot = begin.elapsed();
        for process in &definition.processes {
            if let Some(title) = &process.workers_title {
                self.wait_for_workers(title, values.workers, deadline)?;
            }
        }
        Ok(())
    }

    /// Waits until as many members have `title` in their command line, and nothing is started or ended any more: a pool
    /// that is still busy with its workers is not at rest yet, and may not survive being stopped.
    fn wait_for_workers(&mut self, title: &str, count: usize, deadline: Instant) -> Result<()> {
        let mut known = BTreeSet::new();
        let mut since = Instant::now();
        let what = format!("{count} processes called {title:?}, and for nothing else to start");
        self.wait(deadline, &what, |running| {
            let pids: BTreeSet<i32> = running.tree.members().iter().map(|one| one.pid).collect();
            if pids != known {
                known = pids;
                since = Instant::now();
            }
            let lines = known.iter().filter_map(|pid| proc::command_line(*pid));
            let called = lines.filter(|line| line.contains(title));
            called.count() >= count && since.elapsed() >= POOL_QUIET_TIME
        })
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
            self.wait(deadline, &what, |_| sockets::listens_at(socket))?;
        } else {
            let port = place.port.parse()?;
            let what = format!("{name} to listen on 127.0.0.1:{port}");
            self.wait(deadline, &what, |_| sockets::listens_on_port(port))?;
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

    /// Waits for an answer of the application. Statuses by which a proxy says that its server boots don't count.
    fn wait_until_it_answers(&mut self, path: &str, deadline: Instant) -> Result<()> {
        let mut last = None;
        let what = format!("an answer with 200 to GET {path}");
        let waited = self.wait(deadline, &what, |running| {
            let answer = page::get(&running.target, path, FIRST_ANSWER_TIMEOUT);
            let is_final =
                matches!(&answer, Ok(response) if !UNAVAILABLE.contains(&response.status));
            last = Some(answer);
            is_final
        });
        match (waited, last) {
            (Ok(()), Some(Ok(response))) if response.status == 200 => {
                self.first = (response.status, response.body);
                Ok(())
            }
            (Ok(()), Some(Ok(response))) => {
                bail!(
                    "GET {path} is answered with {} and not with 200",
                    response.status
                )
            }
            (waited, Some(Ok(response))) => {
                waited.with_context(|| format!("the last answer had status {}", response.status))
            }
            (waited, Some(Err(error))) => waited.with_context(|| format!("{error:#}")),
            (waited, None) => waited,
        }
    }

    /// Polls until `done`, a process ends, or the time is over.
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
