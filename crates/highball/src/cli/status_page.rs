//! The status as text for people. Writes only what the report says.

use std::collections::BTreeMap;
use std::fmt::Write;

use front::FrequentPath;
use supervisor::{Generation, Origin, Process, Role, Size};

use crate::control::log_level::LevelReport;
use crate::control::report::{ApplicationReport, Report, Thread, Workers, WorkersByLoad};
use crate::experiments::ExperimentState;

/// The page, with a newline at its end.
pub(crate) fn render(report: &Report) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut page, report);
    page
}

fn write(page: &mut String, report: &Report) -> std::fmt::Result {
    let mut processes = report.all.processes.iter();
    let front = processes.find(|row| row.role == Role::Front);
    write!(page, "highball {} is {}", report.version, report.state)?;
    write!(page, " {} ({})", report.dir, report.all.environment)?;
    write!(page, ", pid {}", report.pid)?;
    match front {
        Some(front) => writeln!(page, ", up {}{}", up(front, report.now), figures(front))?,
        None => writeln!(page)?,
    }
    for listener in &report.listeners {
        writeln!(page, "  on {listener}")?;
    }
    let LevelReport { setting, current } = &report.log_level;
    if current != setting {
        writeln!(page, "  log level {current} (setting: {setting})")?;
    }
    write_certificates(page, report)?;
    let spans = counts(&report.spans);
    if !spans.is_empty() {
        writeln!(page, "  spans {spans}")?;
    }
    if report.applications.is_empty() {
        return write_application(page, &report.all, report.now, Some(report.connections));
    }
    for one in &report.applications {
        let prefix = &one.prefix;
        let hosts: Vec<_> = one
            .hosts
            .iter()
            .map(|host| format!("{host}{prefix}"))
            .collect();
        let hosts = match hosts.is_empty() {
            true => format!("any host{prefix}"),
            false => hosts.join(", "),
        };
        write!(page, "\n{}: {hosts}", one.name)?;
        writeln!(page, ", {} ({})", one.dir, one.own.environment)?;
        write_application(page, &one.own, report.now, None)?;
    }
    writeln!(page, "\nconnections {}", report.connections)?;
    let of_none = counts(&of_no_application(report));
    match of_none.is_empty() {
        true => Ok(()),
        false => writeln!(page, "requests of no application {of_none}"),
    }
}

/// What became of requests that were no application's, by outcome.
fn of_no_application(report: &Report) -> BTreeMap<String, u64> {
    let mut rest = report.all.counters.clone();
    for one in &report.applications {
        for (outcome, count) in &one.own.counters {
            // Requests may have ended between the two figures.
            let rest = rest.entry(outcome.clone()).or_default();
            *rest = rest.saturating_sub(*count);
        }
    }
    rest
}

/// Since when a process is there.
pub(crate) fn up(process: &Process, now: u64) -> String {
    age(now.saturating_sub(process.started))
}

/// How many workers there shall be, where that is not what the setting says.
fn write_workers(page: &mut String, workers: &Workers) -> std::fmt::Result {
    let Workers {
        setting,
        wanted,
        allowed,
        by_load,
        ..
    } = workers;
    match by_load {
        None if wanted == setting => {}
        None => writeln!(page, "\nworkers: {wanted} (scaled from {setting})")?,
        Some(WorkersByLoad {
            min, max, scaled, ..
        }) if *scaled => writeln!(page, "\nworkers: {wanted} (scaled from {min}..{max})")?,
        Some(WorkersByLoad {
            min, max, blocked, ..
        }) => {
            write!(page, "\nworkers: {wanted} (by load, {min}..{max})")?;
            match blocked {
                Some(why) => writeln!(page, "; wants more workers: {why}")?,
                None => writeln!(page)?,
            }
        }
    }
    if allowed < wanted {
        writeln!(
            page,
            "\nworkers: {allowed} of {wanted}, for memory_budget has no room for more"
        )?;
    }
    Ok(())
}

/// The generations, processes and threads of an application, and what became of its requests.
fn write_application(
    page: &mut String,
    report: &ApplicationReport,
    now: u64,
    connections: Option<usize>,
) -> std::fmt::Result {
    let mut generation = None;
    for process in &report.processes {
        if process.role == Role::Front {
            continue;
        }
        if process.generation != generation {
            generation = process.generation;
            let mut all = report.generations.iter();
            match all.find(|one| Some(one.number) == generation) {
                Some(one) => write_generation(page, one)?,
                None => writeln!(page)?,
            }
        }
        let name = name(process);
        let (pid, state) = (process.pid, &process.state);
        writeln!(
            page,
            "  {name:<12} pid {pid:<8} {state:<9} up {}{}",
            up(process, now),
            figures(process)
        )?;
        let threads = report.threads.iter();
        if process.role != Role::Worker {
            continue;
        }
        let own = (process.generation, process.worker);
        for thread in threads.filter(|one| (Some(one.generation), Some(one.worker)) == own) {
            writeln!(page, "    thread {:<3} {}", thread.thread, activity(thread))?;
        }
    }
    write_workers(page, &report.workers)?;
    write_experiment(page, report)?;
    if let Some(why) = &report.stopped {
        writeln!(page, "\nstopped: {why}; the next request starts it")?;
    }
    if let Some(seconds) = report.next_start_s {
        writeln!(
            page,
            "\nno worker can serve: requests get 503; next start in {seconds} s"
        )?;
    }
    write_threads(page, report)?;
    write_frequent_paths(page, &report.frequent_paths)?;
    let (queue, slots) = (&report.queue, &report.slots);
    let (length, limit, longest) = (queue.length, queue.limit, queue.longest);
    write!(page, "\nqueue {length} of {limit}, longest {longest}")?;
    write!(page, "; saturation {:.0} %", report.saturation * 100.0)?;
    write!(page, "; slots {} of {} free", slots.free, slots.total)?;
    match connections {
        Some(connections) => writeln!(page, "; connections {connections}")?,
        None => writeln!(page)?,
    }
    write_requests(page, report)
}

/// The experiment that runs.
fn write_experiment(page: &mut String, report: &ApplicationReport) -> std::fmt::Result {
    let running = report.experiment.as_ref();
    let Some(one) = running.filter(|one| one.state != ExperimentState::Over) else {
        return Ok(());
    };
    let ([base, variant], rest) = (one.generations, one.remaining_s);
    let setting = &one.setting;
    writeln!(
        page,
        "\nexperiment: generation {variant} runs with {setting}, beside generation {base}; ends in {rest} s"
    )
}

/// How many threads take requests, and how many should be there.
fn write_threads(page: &mut String, report: &ApplicationReport) -> std::fmt::Result {
    if let Some(limit) = &report.active_threads {
        writeln!(page, "\n{}", limit.text())?;
    }
    if let Some(advice) = &report.thread_advice {
        writeln!(page, "\n{}", advice.text())?;
    }
    Ok(())
}

/// What the next generation requests because clients ask for it.
fn write_frequent_paths(page: &mut String, paths: &[FrequentPath]) -> std::fmt::Result {
    let shown: Vec<&str> = paths.iter().take(3).map(|one| one.path.as_str()).collect();
    match (shown.join(", "), paths.len() - shown.len()) {
        (shown, _) if shown.is_empty() => Ok(()),
        (shown, 0) => writeln!(page, "\nwarm_up: the next generation requests {shown}"),
        (shown, more) => writeln!(
            page,
            "\nwarm_up: the next generation requests {shown} and {more} more"
        ),
    }
}

/// What a process is called: its role, a worker's number, the program of a child.
pub(crate) fn name(process: &Process) -> String {
    match (process.role, process.worker) {
        (Role::Front, _) => "front".to_owned(),
        (Role::Template, _) => "template".to_owned(),
        (Role::Worker, number) => format!("worker {}", number.unwrap_or_default()),
        (Role::Child, _) => {
            // The application chose it, and a terminal acts upon control characters.
            let name = process.name.as_deref().unwrap_or_default();
            let is_shown = |c: &char| !c.is_control();
            format!(
                "child {}",
                name.chars().filter(is_shown).collect::<String>()
            )
        }
    }
}

/// A generation, and how Ruby itself runs in it.
fn write_generation(page: &mut String, generation: &Generation) -> std::fmt::Result {
    writeln!(
        page,
        "\ngeneration {}, {}",
        generation.number, generation.state
    )?;
    let options = generation.runtime.iter();
    let options: Vec<_> = options
        .map(|option| format!("{} {}", option.name, option.value))
        .collect();
    if !options.is_empty() {
        writeln!(page, "  runtime      {}", options.join(", "))?;
    }
    match &generation.refork_stopped {
        Some(reason) => writeln!(page, "  re-forking   stopped: {reason}"),
        None => Ok(()),
    }
}

/// What became of requests.
fn write_requests(page: &mut String, report: &ApplicationReport) -> std::fmt::Result {
    write!(page, "requests")?;
    match counts(&report.counters) {
        outcomes if outcomes.is_empty() => write!(page, " none yet")?,
        outcomes => write!(page, " {outcomes}")?,
    }
    if report.retried > 0 {
        write!(page, "; run again {}", report.retried)?;
    }
    if report.killed_two_workers > 0 {
        write!(
            page,
            ", of which {} killed two workers",
            report.killed_two_workers
        )?;
    }
    writeln!(page)?;
    let responses = counts(&report.responses);
    if !responses.is_empty() {
        writeln!(page, "responses {responses}")?;
    }
    Ok(())
}

/// The certificates that clients get, and why one that the server orders is missing or ends soon.
fn write_certificates(page: &mut String, report: &Report) -> std::fmt::Result {
    for certificate in &report.certificates {
        let names = certificate.names.join(", ");
        write!(page, "  certificate {names}, until {}", certificate.ends)?;
        match &certificate.warning {
            Some(warning) => writeln!(page, " (warning: {warning})")?,
            None => writeln!(page)?,
        }
    }
    for order in &report.acme {
        if let Some(warning) = &order.warning {
            let names = order.names.join(", ");
            writeln!(page, "  {names}: {warning} (see highball certificates)")?;
        }
    }
    Ok(())
}

/// Names with their numbers, without those of which there is none.
fn counts(all: &BTreeMap<String, u64>) -> String {
    let seen = all.iter().filter(|(_, count)| **count > 0);
    let seen: Vec<_> = seen
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    seen.join(", ")
}

/// Memory and number of requests of a process, as far as they are known.
fn figures(process: &Process) -> String {
    let mut text = String::new();
    if let Some(bytes) = process.memory_bytes {
        text += &format!(", {} private", Size(bytes));
    }
    match process.requests {
        None => {}
        Some(1) => text += ", 1 request",
        Some(requests) => text += &format!(", {requests} requests"),
    }
    if let Some(Origin { worker, requests }) = process.forked_from {
        text += &format!(", forked from worker {worker} after {requests} requests");
    }
    text
}

fn activity(thread: &Thread) -> String {
    let what = match (&thread.method, &thread.path) {
        (Some(method), Some(path)) => format!("{method} {path}"),
        _ => thread.state.clone(),
    };
    match thread.since_ms {
        Some(since) => format!("{what} {}", milliseconds(since)),
        None => what,
    }
}

fn milliseconds(ms: u64) -> String {
    match ms {
        0..1000 => format!("for {ms} ms"),
        _ => format!("for {}", age(ms / 1000)),
    }
}

/// A time in its two largest units.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::report::{NamedReport, Queue, Slots};
    use crate::thread_advice::ThreadAdvice;
    use exchange::control::RuntimeOption;
    use front::CertificateStatus;

    #[test]
    fn ages_have_two_units() {
        let check = |seconds, expect| assert_eq!(age(seconds), expect);
        check(0, "0 s");
        check(59, "59 s");
        check(60, "1 min 0 s");
        check(3599, "59 min 59 s");
        check(3600, "1 h 0 min");
        check(90_061, "1 d 1 h");
    }

    #[test]
    fn the_page_names_processes_threads_queue_and_counters() {
        let process = |pid, role, id: Option<(u32, Option<u16>)>, state: &str| Process {
            pid,
            role,
            worker: id.and_then(|(_, worker)| worker),
            generation: id.map(|(generation, _)| generation),
            state: state.into(),
            forked_from: None,
            started: 1000,
            requests: None,
            name: None,
            memory_bytes: None,
            first_memory_bytes: None,
            memory: None,
        };
        let worker = |pid, generation, state, requests| Process {
            requests: Some(requests),
            memory_bytes: Some(pid as u64 * (5 << 20)),
            ..process(pid, Role::Worker, Some((generation, Some(0))), state)
        };
        let thread = |generation, thread, path: Option<&str>| Thread {
            generation,
            worker: 0,
            thread,
            state: "idle".into(),
            method: path.map(|_| "GET".into()),
            path: path.map(Into::into),
            since_ms: path.map(|_| 1500),
        };
        let generation = |number, state: &str| Generation {
            number,
            state: state.into(),
            runtime: vec![RuntimeOption {
                name: "jit".into(),
                value: "yjit".into(),
                reason: String::new(),
            }],
            refork_stopped: (number == 2).then(|| "gem grpc 1.60.0 does not survive it".into()),
        };
        let all = ApplicationReport {
            environment: "production".into(),
            processes: vec![
                process(7, Role::Front, None, "ready"),
                process(8, Role::Template, Some((1, None)), "ready"),
                worker(9, 1, "stopping", 1),
                process(10, Role::Template, Some((2, None)), "ready"),
                worker(11, 2, "ready", 1234),
            ],
            generations: vec![generation(1, "draining"), generation(2, "serving")],
            threads: vec![thread(1, 0, Some("/a")), thread(2, 0, None)],
            queue: Queue {
                length: 1,
                longest: 4,
                limit: 256,
                age_s: 0.0,
            },
            saturation: 1.5,
            slots: Slots { total: 4, free: 3 },
            counters: [("ok".to_owned(), 3), ("shed".to_owned(), 0)].into(),
            responses: [("2xx".to_owned(), 2), ("5xx".to_owned(), 1)].into(),
            cache: None,
            routes: Vec::new(),
            thread_advice: Some(ThreadAdvice {
                threads: 5,
                advised: 3,
                wait_share: 0.62,
                requests: 1200,
                alone: true,
                lock_share: None,
            }),
            frequent_paths: ["/", "/a", "/b", "/c"]
                .map(|path| FrequentPath {
                    path: path.into(),
                    ..FrequentPath::default()
                })
                .into(),
            retried: 2,
            killed_two_workers: 1,
            next_start_s: Some(3),
            stopped: Some("idle".into()),
            ..ApplicationReport::default()
        };
        let report = Report {
            version: "0.1.0".into(),
            pid: 7,
            dir: "/srv/app".into(),
            state: "serving".into(),
            now: 1100,
            listeners: vec!["http://127.0.0.1:3000".into()],
            connections: 5,
            certificates: vec![CertificateStatus {
                names: vec!["a.test".into(), "*.b.test".into()],
                ends: "2026-12-01".into(),
                ends_s: 0,
                warning: Some("it ends in 9 days, on 2026-12-01".into()),
            }],
            acme: Vec::new(),
            spans: BTreeMap::from([("sent".into(), 12), ("queue_full".into(), 0)]),
            log_level: LevelReport {
                setting: "info".into(),
                current: "warn".into(),
            },
            all,
            applications: Vec::new(),
        };
        let expect = "\
highball 0.1.0 is serving /srv/app (production), pid 7, up 1 min 40 s
  on http://127.0.0.1:3000
  log level warn (setting: info)
  certificate a.test, *.b.test, until 2026-12-01 (warning: it ends in 9 days, on 2026-12-01)
  spans sent 12

generation 1, draining
  runtime      jit yjit
  template     pid 8        ready     up 1 min 40 s
  worker 0     pid 9        stopping  up 1 min 40 s, 45.0 MiB private, 1 request
    thread 0   GET /a for 1 s

generation 2, serving
  runtime      jit yjit
  re-forking   stopped: gem grpc 1.60.0 does not survive it
  template     pid 10       ready     up 1 min 40 s
  worker 0     pid 11       ready     up 1 min 40 s, 55.0 MiB private, 1234 requests
    thread 0   idle

stopped: idle; the next request starts it

no worker can serve: requests get 503; next start in 3 s

threads: 5; requests wait 62 % of their time: 3 would do (1200 requests that ran alone in their worker)

warm_up: the next generation requests /, /a, /b and 1 more

queue 1 of 256, longest 4; saturation 150 %; slots 3 of 4 free; connections 5
requests ok 3; run again 2, of which 1 killed two workers
responses 2xx 2, 5xx 1
";
        assert_eq!(render(&report), expect);
    }

    #[test]
    fn several_applications_have_their_hosts_with_prefix_and_the_rest_a_line() {
        let counters = |ok: u64, none: u64| {
            let all = [("ok", ok), ("no_application", none)];
            all.map(|(name, count)| (name.to_owned(), count)).into()
        };
        let one = |name: &str, hosts: &[&str], ok| NamedReport {
            name: name.into(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            prefix: "/wiki".into(),
            own: ApplicationReport {
                counters: counters(ok, 0),
                ..ApplicationReport::default()
            },
            ..NamedReport::default()
        };
        let report = Report {
            all: ApplicationReport {
                counters: counters(5, 2),
                ..ApplicationReport::default()
            },
            applications: vec![one("a", &["a.test", "b.test"], 3), one("b", &[], 2)],
            ..Report::default()
        };
        let page = render(&report);
        for line in [
            "a: a.test/wiki, b.test/wiki, ",
            "b: any host/wiki, ",
            "requests of no application no_application 2",
        ] {
            let found = page.lines().any(|other| other.starts_with(line));
            assert!(found, "{line}: {page}");
        }
    }
}
