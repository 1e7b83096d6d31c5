//! What all trials of a comparison have in common, and the parts that each is made of: start, gate, warm-up, load,
//! stop. It decides nothing about order or repetition and writes no file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::gate::{self, Answer, Answers, Likeness};
use super::lab::{Lab, Load, Participant};
use super::live::Live;
use super::meter::{self, Measured};
use super::results::{Placement, Trial, WarmUp};
use super::steady::WarmupSeries;
use loadgen::plan::{ConnectionUse, End, Expected, Mode, Plan, Request, Target};
use loadgen::{Progress, headroom, page};
use stacks::application::Prepared;
use stacks::{Catalogue, Definition, Deployment, Running};

/// Time-outs that a server has to answer after a load, because it may still run requests of clients that left.
const SETTLE_TIMEOUTS: u32 = 3;

/// How long the null server is loaded.
const CEILING_TIME: Duration = Duration::from_secs(1);

/// Time between two checks whether the comparison is to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// What all trials have in common.
#[derive(Debug)]
pub(super) struct TrialContext<'a> {
    pub(super) lab: &'a Lab,
    pub(super) catalogue: &'a Catalogue,
    pub(super) application: &'a Prepared,
    /// What is sent.
    pub(super) requests: &'a [Request],
    /// Sent first by each connection.
    pub(super) login: Option<Request>,
    /// What every stack must answer to a request without effect.
    pub(super) agreed: Option<Answers>,
    /// How much like it, for each request; nothing is known before the rehearsal.
    pub(super) likeness: Vec<Likeness>,
    pub(super) placement: Placement,
    /// Cores of the machine.
    pub(super) cores: usize,
    pub(super) highball: &'a Path,
    /// Trials have folders of their own in it.
    pub(super) scratch: PathBuf,
    pub(super) stop: &'a AtomicBool,
    /// Where progress is shown.
    pub(super) live: Live,
}

/// A stack that is up and answers what it must.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) running: Running,
    /// What it answered.
    pub(super) answers: Answers,
    /// The trial so far.
    pub(super) trial: Trial,
    host: String,
    scratch: PathBuf,
}

impl TrialContext<'_> {
    /// How `participant` is started in the folder `name`.
    pub(super) fn deployment(&self, participant: &Participant, name: &str) -> Deployment {
        let mut environment = self.application.environment.clone();
        environment.extend(participant.environment.clone());
        let page = self.requests.iter().find(|request| request.method == "GET");
        // Where one must log in first, the page itself would send to the login.
        let page = page.filter(|_| self.login.is_none());
        Deployment {
            app: self.application.folder.clone(),
            highball: self.highball.to_owned(),
            scratch: self.scratch.join(name),
            workers: participant.workers,
            threads: participant.threads,
            environment,
            path: page.map_or_else(|| self.application.path.clone(), |page| page.path.clone()),
            boot_timeout: self.lab.boot_timeout,
            cores: self.placement.server.clone(),
        }
    }

    /// Starts `participant` in the folder `name` and has it answer. `name` is used once.
    ///
    /// # Errors
    /// It does not come up, or does not answer like the others, where it is known how; with the end of its log.
    pub(super) fn start(&self, participant: &Participant, name: &str) -> Result<Server> {
        let definition = self.catalogue.get(&participant.kind)?;
        let deployment = self.deployment(participant, name);
        let mut running = self.boot(definition, &deployment)?;
        let host = participant
            .url
            .as_deref()
            .map_or("localhost", gate::host_of)
            .to_owned();
        let answers = gate::ask(&running.target(), &host, self.requests, self.lab.timeout);
        let fault = match (&answers, &self.agreed) {
            (Err(error), _) => Some(format!("{error:#}")),
            (Ok(answers), Some(agreed)) => gate::fault(agreed, answers, &self.likeness),
            (Ok(_), None) => None,
        };
        if let Some(fault) = fault {
            bail!("{}", with_log(&fault, &running));
        }
        let mut trial = Trial {
            crashed_start: running.crashed_start.take(),
            boot_s: running.boot.as_secs_f64(),
            ..Trial::default()
        };
        trial.memory.idle = meter::footprint(running.tree());
        Ok(Server {
            running,
            answers: answers?,
            trial,
            host,
            scratch: deployment.scratch,
        })
    }

    /// Starts a stack, or returns early where the comparison is stopped; the stack then ends with the lab.
    fn boot(&self, definition: &Definition, deployment: &Deployment) -> Result<Running> {
        let (definition, deployment) = (definition.clone(), deployment.clone());
        let (sender, started) = channel();
        thread::spawn(move || {
            // Without a receiver the stack is dropped here, which ends it.
            let _ = sender.send(definition.start(&deployment));
        });
        loop {
            match started.recv_timeout(STOP_CHECK_INTERVAL) {
                Ok(started) => return started,
                Err(RecvTimeoutError::Disconnected) => bail!("the start of a stack broke down"),
                Err(RecvTimeoutError::Timeout) if self.stop.load(Ordering::Relaxed) => {
                    bail!("the comparison was stopped")
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Processes that run Ruby and threads of each, under a stack that may have no choice.
    pub(super) fn size(&self, participant: &Participant) -> (usize, usize) {
        let definition = self.catalogue.get(&participant.kind).ok();
        let fixed = |size: Option<usize>, asked: usize| size.unwrap_or(asked);
        (
            fixed(definition.and_then(|one| one.workers), participant.workers),
            fixed(definition.and_then(|one| one.threads), participant.threads),
        )
    }

    /// Whether all stacks must send the very same pages, or the same statuses alone: where the application says so, behind a
    /// login, and where other requests may change them.
    pub(super) fn likeness_at_most(&self) -> Likeness {
        let mut methods = self.requests.iter().map(|request| &request.method);
        let same = self.application.same_body
            && self.login.is_none()
            && !methods.any(|method| gate::has_effect(method));
        if same {
            Likeness::Body
        } else {
            Likeness::Status
        }
    }

    /// The plan for the load generator.
    pub(super) fn plan(
        &self,
        server: &Server,
        mode: Mode,
        connections: ConnectionUse,
        seed: u64,
    ) -> Plan {
        Plan {
            target: server.running.target(),
            host: server.host.clone(),
            ..self.plan_without_server(mode, connections, seed)
        }
    }

    fn plan_without_server(&self, mode: Mode, connections: ConnectionUse, seed: u64) -> Plan {
        Plan {
            target: Target::Tcp(([127, 0, 0, 1], 0).into()),
            host: "localhost".to_owned(),
            requests: self.expecting(gate::expected),
            login: self.login.clone(),
            mode,
            connections,
            streams: None,
            timeout: self.lab.timeout,
            threads: self.placement.generator.len().max(1),
            cores: self.placement.generator.clone(),
            seed,
        }
    }

    /// What is sent, each with what its response must be, as far as it is known: `of` an answer that was agreed on, and how
    /// much like it. Behind a
    /// login it is a page's status alone: a refused login shows as a redirection, which would be a good answer otherwise.
    fn expecting(&self, of: impl Fn(&Answer, Likeness) -> Expected) -> Vec<Request> {
        let expected = |index: usize| {
            let answer = self.agreed.as_ref()?.get(index)?.as_ref()?;
            Some(of(answer, *self.likeness.get(index)?))
        };
        let requests = self.requests.iter().enumerate();
        let requests = requests.map(|(index, request)| {
            let behind_login = || Expected {
                status: 200,
                length: None,
            };
            let expected = match self.login {
                Some(_) => (request.method == "GET").then(behind_login),
                None => expected(index),
            };
            Request {
                expected,
                ..request.clone()
            }
        });
        requests.collect()
    }

    /// Responses a second that the generator can take of `load` from a server that does nothing but answer, with pages as
    /// long as those that were agreed on. It answers without TLS and by HTTP/1.1: of HTTP/2 the ceiling is not known.
    ///
    /// # Errors
    /// The load can't be carried out at all.
    pub(super) fn ceiling(&self, load: &Load) -> Result<Option<f64>> {
        if load.streams.is_some() {
            return Ok(None);
        }
        let plan = self.plan_without_server(load.mode(self.lab), load.connection_use(), 0);
        let plan = Plan {
            requests: self.expecting(|answer, _| gate::expected(answer, Likeness::Body)),
            ..plan
        };
        let headroom = headroom(&plan, &self.placement.server, CEILING_TIME)?;
        Ok(Some(headroom.ceiling))
    }

    /// One load as the plan has it.
    pub(super) fn plan_of(&self, server: &Server, load: &Load, seed: u64) -> Plan {
        Plan {
            streams: load.streams,
            ..self.plan(server, load.mode(self.lab), load.connection_use(), seed)
        }
    }

    /// A closed loop that keeps every worker and thread of `participant` busy, and one more request waiting for each.
    pub(super) fn busy(
        &self,
        server: &Server,
        participant: &Participant,
        length: Duration,
        seed: u64,
    ) -> Plan {
        let (workers, threads) = self.size(participant);
        let mode = Mode::Closed {
            connections: 2 * workers * threads,
            end: End::After(length),
        };
        self.plan(server, mode, ConnectionUse::KeepAlive, seed)
    }
}

impl Server {
    /// Sends what `plan` says, at most for its length, until rate or latency is steady; then waits until what was left under way
    /// is done, since it would otherwise be the first of the trial.
    ///
    /// # Errors
    /// It ends, or does not answer any more.
    pub(super) fn warm_up(&mut self, context: &TrialContext<'_>, plan: &Plan) -> Result<()> {
        let mut series = WarmupSeries::of(matches!(plan.mode, Mode::Open { .. }));
        let timed = plan.length().is_some();
        let begin = Instant::now();
        let mut steady = |progress: &Progress| {
            series.take(progress);
            context.live.show("warm-up", progress);
            timed && series.is_steady()
        };
        let measured = meter::load(
            &mut self.running,
            plan,
            context.application,
            context.stop,
            &mut steady,
        );
        let measured = measured.context("warm-up")?;
        self.trial.warm_up = WarmUp {
            seconds: begin.elapsed().as_secs_f64(),
            settled: series.is_steady(),
            ..series.warm_up
        };
        if measured.outcome.good == 0 && !context.stop.load(Ordering::Relaxed) {
            let outcome = &measured.outcome;
            let fault = format!(
                "no good answer in the warm-up: {:?}, {:?}",
                outcome.statuses, outcome.errors
            );
            bail!("{}", with_log(&fault, &self.running));
        }
        let answers = self.ask_again(context).context("after the warm-up")?;
        self.compare_answers(context, &answers, "after the warm-up")
    }

    /// Checks that it still answers as all do: a server that began to send another page of the same length is found here alone.
    /// A server that is still busy and does not answer passes.
    ///
    /// # Errors
    /// It answers something else.
    pub(super) fn check_answers(&self, context: &TrialContext<'_>) -> Result<()> {
        self.ask_again(context).map_or(Ok(()), |answers| {
            self.compare_answers(context, &answers, "after the load")
        })
    }

    /// Sends the same requests once more, with more time to answer, because it may still be busy.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn ask_again(&self, context: &TrialContext<'_>) -> Result<Answers> {
        let timeout = context.lab.timeout * SETTLE_TIMEOUTS;
        let target = self.running.target();
        gate::ask(&target, &self.host, context.requests, timeout)
    }

    fn compare_answers(
        &self,
        context: &TrialContext<'_>,
        answers: &Answers,
        when: &str,
    ) -> Result<()> {
        let agreed = context.agreed.as_ref();
        match agreed.and_then(|agreed| gate::fault(agreed, answers, &context.likeness)) {
            Some(fault) => bail!("{}", with_log(&format!("{fault}, {when}"), &self.running)),
            None => Ok(()),
        }
    }

    /// Loads and measures; memory after it and a rest too.
    ///
    /// # Errors
    /// It ends under load.
    pub(super) fn measure(&mut self, context: &TrialContext<'_>, plan: &Plan) -> Result<Measured> {
        let measured = meter::load(
            &mut self.running,
            plan,
            context.application,
            context.stop,
            &mut |progress| {
                context.live.show("load", progress);
                false
            },
        )?;
        let trial = &mut self.trial;
        trial.cpu_s = measured.cpu_s;
        trial.cpu_by_program.clone_from(&measured.cpu_by_program);
        trial.other_cores = measured.other_cores;
        trial.database_cores = measured.database_cores;
        trial.processes = measured.processes;
        trial.memory.under_load.clone_from(&measured.memory);
        meter::rest(context.lab.rest, context.stop);
        trial.memory.after = meter::footprint(self.running.tree());
        Ok(measured)
    }

    /// Stops it and checks that no process is left; returns the trial.
    pub(super) fn stop(mut self) -> Trial {
        let target = self.running.target();
        let external = self.running.tree().members().is_empty();
        let free = meter::free_memory();
        let stopped = self.running.stop();
        if !external {
            self.trial.memory.free_difference = meter::free_memory() - free;
            self.trial.left_behind = stopped
                .left_behind
                .max(usize::from(page::is_listened_on(&target)));
        }
        // The files of failed trials are kept until the comparison's end.
        let _ = std::fs::remove_dir_all(&self.scratch);
        self.trial
    }
}

/// A fault with the end of the server's log, which often says why.
fn with_log(fault: &str, running: &Running) -> String {
    let log = running.log_end();
    if log.is_empty() {
        fault.to_owned()
    } else {
        format!("{fault}\n{log}")
    }
}
