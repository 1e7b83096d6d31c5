//! The counted zero: a constant load with unique ids, while code is restarted all at once and worker by worker, the server is
//! upgraded, broken code is deployed, settings are read again, workers are stopped, and workers and templates are killed, also
//! amid a restart and an upgrade; directly, through HAProxy and nginx, with two edges, over TLS and HTTP/2, and beside an
//! application that crashes all the time; and while any process is killed amid re-forks and changes of the number of workers. And
//! the soak: what a server holds after a long time of restarts.
//!
//! `make test` runs the first whole and the second in short, `make chaos` and `make soak` for longer: the variables `CHAOS`
//! (so many times as much), `CHAOS_KILLS`, `SOAK_SECONDS` and `SOAK_RESTART_EVERY` say how much. Figures are printed, and kept in
//! `target/chaos`.

mod anywhere;
mod connection;
mod ledger;
mod load;
mod neighbour;
mod proxy;
mod soak;

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use connection::{HOST, Target};
use highball_tests::authority::Authority;
use highball_tests::tls;
use ledger::{Event, Ledger};
use load::{Load, Rate};
use neighbour::{COUNTED, Neighbour};
use proxy::Proxy;
use rustix::process::Signal;
use serde_json::Value;
use test_support::{
    Application, Process, Program, Ran, Server, ServerBuilder, Status, TEST_TIMEOUT,
};

const WORKERS: usize = 2;
const THREADS: usize = 3;
/// The deadline of requests, and how long a thread may go on past it.
const DEADLINE: &str = "6s";
const GRACE: &str = "1s";
/// Longer than both, and the look at them.
const STUCK: Duration = Duration::from_secs(12);
/// The file of settings.
const SETTINGS: &str = "workers = 2\nthreads = 3\n";

/// How often what happens.
#[derive(Clone, Copy, Debug)]
struct Amount {
    restarts: usize,
    upgrades: usize,
    reloads: usize,
    kills: usize,
    /// Of a worker and of a template, amid a restart and an upgrade each.
    kills_amid: usize,
    stops: usize,
}

impl Amount {
    const WHOLE: Self = Self {
        restarts: 20,
        upgrades: 5,
        reloads: 2,
        kills: 10,
        kills_amid: 3,
        stops: 1,
    };
    /// What differs by the way to the server, and no more.
    const PART: Self = Self {
        restarts: 5,
        upgrades: 3,
        reloads: 1,
        kills: 4,
        kills_amid: 1,
        stops: 1,
    };

    /// What another application could harm, or another edge.
    const BESIDE: Self = Self {
        restarts: 3,
        upgrades: 2,
        reloads: 1,
        kills: 3,
        kills_amid: 1,
        stops: 0,
    };

    /// So many times as much as the variable says.
    fn asked_for(self) -> Self {
        let asked = std::env::var("CHAOS");
        let times = asked.map_or(Ok(1), |text| text.parse::<usize>());
        let times = times.expect("CHAOS is a number: so many times as much");
        Self {
            restarts: self.restarts * times,
            upgrades: self.upgrades * times,
            reloads: self.reloads * times,
            kills: self.kills * times,
            kills_amid: self.kills_amid * times,
            stops: self.stops * times,
        }
    }
}

/// The application of every run, at its first version.
fn application() -> Application {
    let application = Application::without_lint(include_str!("application.ru"));
    application.dir().write("version", "1");
    application.dir().write("seen/.keep", "");
    application
}

/// A server of that application.
fn start() -> Server {
    builder(application()).start()
}

fn builder(application: Application) -> ServerBuilder {
    Server::application_of(application)
        .settings_file(SETTINGS)
        .setting("log_format", "json")
        .setting("ready_check", "/up")
        // What a stopped worker holds ends then, and then the worker.
        .setting("request_timeout", DEADLINE)
        .setting("request_grace", GRACE)
}

/// Where figures are kept.
fn keep(name: &str, value: &Value) {
    let folder = test_support::workspace().join("target/chaos");
    std::fs::create_dir_all(&folder).expect("the repository can be written");
    let text = serde_json::to_string_pretty(value).expect("figures are JSON");
    std::fs::write(folder.join(name).with_extension("json"), text + "\n")
        .expect("the repository can be written");
}

#[track_caller]
fn until(what: &str, reached: impl Fn() -> bool) {
    assert!(within(2 * TEST_TIMEOUT, reached), "not in time: {what}");
}

/// Whether this is reached in so long.
fn within(time: Duration, reached: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + time;
    while !reached() {
        if Instant::now() >= deadline {
            return false;
        }
        // Each look is a process of its own: not too many of them beside the load.
        std::thread::park_timeout(Duration::from_millis(20));
    }
    true
}

/// Puts this version in the place of the application's code, restarts, and waits until the old code is gone.
#[track_caller]
fn restart(server: &Server, version: &str) {
    server.application().dir().write("version", version);
    let ran = server.command(restart_of_counted(server));
    assert!(ran.status.success(), "{}", ran.output());
    until("the old generation is gone", || generations(server) == 1);
}

/// What the status says of the counted application.
fn status(server: &Server) -> Status {
    let Status(mut status) = server.status();
    let mut all = status["applications"].as_array_mut().into_iter().flatten();
    match all.find(|one| one["name"] == COUNTED) {
        Some(counted) => Status(counted.take()),
        None => Status(status),
    }
}

/// The command that loads the code of the counted application again.
fn restart_of_counted(server: &Server) -> &'static [&'static str] {
    match server.status().0["applications"].is_array() {
        true => &["restart", "--application", COUNTED],
        false => &["restart"],
    }
}

fn generations(server: &Server) -> usize {
    let status = status(server);
    status.0["generations"].as_array().map_or(0, Vec::len)
}

/// The templates that are there, that of the oldest generation first.
fn templates(server: &Server) -> Vec<Process> {
    let status = status(server);
    let rows = status.0["processes"].as_array().into_iter().flatten();
    let rows = rows.filter(|row| row["role"] == "template");
    let mut found: Vec<_> = rows
        .filter_map(|row| Some((row["generation"].as_u64()?, row["pid"].as_u64()?)))
        .collect();
    found.sort_unstable();
    found.iter().map(|&(_, pid)| Process(pid as u32)).collect()
}

/// A server under load, and what it has gone through.
struct Run {
    server: Server,
    load: Load,
    phases: Vec<Event>,
    version: usize,
    reloads: usize,
    random: u64,
    /// It signs another certificate for each event.
    authority: Option<Authority>,
    /// The tables of applications, for the file of settings.
    tables: String,
}

impl Run {
    /// Has something happen. Requests that are under way then belong to it, and so do those that are under way when it is
    /// over.
    fn go_through(&mut self, event: Event, act: impl FnOnce(&mut Self)) {
        self.enter(event);
        if let Some(authority) = &self.authority {
            let signed = authority.sign(&[HOST]);
            signed.write(self.server.application(), HOST);
        }
        self.load.settle(1);
        act(self);
        self.load.settle(2);
        self.enter(Event::Calm);
        self.load.settle(3);
    }

    fn enter(&mut self, event: Event) {
        self.phases.push(event);
        self.load.enter(self.phases.len() - 1);
    }

    fn restart(&mut self) {
        self.version += 1;
        restart(&self.server, &self.version.to_string());
    }

    /// Runs a command beside all else.
    fn begin(&self, command: &'static [&'static str]) -> JoinHandle<Ran> {
        let folder = self.server.dir().to_owned();
        std::thread::spawn(move || Program::highball(command).current_dir(folder).run())
    }

    /// Restarts, and kills this one as soon as the new code is being loaded. Where that must not harm the restart it is
    /// `harmless`.
    fn restart_amid(&mut self, harmless: bool, victim: impl Fn(&mut Self) -> Process) {
        let next = (self.version + 1).to_string();
        self.server.application().dir().write("version", next);
        let ran = self.begin(restart_of_counted(&self.server));
        until("new code is being loaded", || {
            ran.is_finished() || templates(&self.server).len() == 2
        });
        victim(self).kill();
        let ran = ran.join().expect("a command does not panic");
        if ran.status.success() {
            self.version += 1;
        } else {
            assert!(
                !harmless && ran.status.code() == Some(1),
                "{}",
                ran.output()
            );
            let dir = self.server.application().dir();
            dir.write("version", self.version.to_string());
        }
        until("one generation is left", || generations(&self.server) == 1);
    }

    /// Has another server take over, and kills this one of the one before as soon as the other one is there.
    fn upgrade_amid(&mut self, victim: impl Fn(&mut Self) -> Process) {
        let before = self.server.family().members().len();
        let ran = self.begin(&["upgrade"]);
        until("a successor is there", || {
            ran.is_finished() || self.server.family().members().len() > before
        });
        victim(self).kill();
        self.goes_over(&ran.join().expect("a command does not panic"));
    }

    /// Has another server take over, and waits until the one before is gone.
    fn upgrade(&mut self) {
        let ran = self.server.command(&["upgrade"]);
        self.goes_over(&ran);
    }

    /// Goes on with the server that has taken over.
    fn goes_over(&mut self, ran: &Ran) {
        assert!(ran.status.success(), "{}", ran.output());
        let old = self.server.replaced_by(ran.process());
        assert!(
            old.wait_gone(2 * TEST_TIMEOUT),
            "the old server is still there"
        );
    }

    /// Has settings read again: first a file that is broken, which changes nothing. Restarts go worker by worker after the
    /// first one, all at once after the second, and so on.
    fn reload(&mut self) {
        self.reloads += 1;
        let seconds = 60 + self.reloads;
        let rollout = ["all-at-once", "worker-by-worker"][self.reloads % 2];
        let files = [
            ("keep_alive_timeot = 20\n".to_owned(), false),
            (
                format!("keep_alive_timeout = \"{seconds}s\"\nrollout = \"{rollout}\"\n"),
                true,
            ),
        ];
        for (line, good) in files {
            let dir = self.server.application().dir();
            let tables = &self.tables;
            dir.write("highball.toml", format!("{SETTINGS}{line}{tables}"));
            let ran = self.server.command(&["reload"]);
            assert_eq!(ran.status.success(), good, "{}", ran.output());
        }
    }

    /// Deploys code that is no good, and takes it back.
    fn broken_deploy(&mut self, version: &str, reason: &str) {
        let dir = self.server.application().dir();
        dir.write("version", version);
        let ran = self.server.command(restart_of_counted(&self.server));
        assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
        assert!(ran.stderr.contains(reason), "{}", ran.output());
        until("the new generation is gone", || {
            generations(&self.server) == 1
        });
        let dir = self.server.application().dir();
        dir.write("version", self.version.to_string());
    }

    fn any_worker(&mut self) -> Process {
        // None that is stopping: it may be gone before a signal reaches it.
        let ready = || status(&self.server).ready_workers();
        until("a worker is ready", || !ready().is_empty());
        let workers = ready();
        // Xorshift: the same choices in every run, as far as the workers come in the same order.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        workers[(self.random % workers.len() as u64) as usize]
    }

    fn kill(&mut self) {
        let victim = self.any_worker();
        victim.kill();
        self.wait_replaced(victim);
    }

    /// Stops workers until one of them held a request: what waits for it is answered at the deadline, and then the server
    /// has another one in its place. One that stood idle is found only when a request calls it.
    fn stop(&mut self) {
        loop {
            let victim = self.any_worker();
            victim.suspend();
            if within(STUCK, || self.is_replaced(victim)) {
                return;
            }
            victim.signal(Signal::CONT);
        }
    }

    #[track_caller]
    fn wait_replaced(&self, victim: Process) {
        until("another worker is in its place", || {
            self.is_replaced(victim)
        });
    }

    fn is_replaced(&self, victim: Process) -> bool {
        let workers = status(&self.server).processes("worker");
        workers.len() == WORKERS && !workers.contains(&victim)
    }
}

/// A server and the way to it.
struct Site {
    server: Server,
    target: Target,
    proxy: Option<Proxy>,
    authority: Option<Authority>,
    neighbour: Option<Neighbour>,
}

impl Site {
    fn plain(proxy: impl FnOnce(&Server) -> Option<Proxy>) -> Self {
        Self::of(start(), proxy)
    }

    fn with_two_edges() -> Self {
        let builder = builder(application()).setting("front_threads", "2");
        Self::of(builder.start(), |_| None)
    }

    fn of(server: Server, proxy: impl FnOnce(&Server) -> Option<Proxy>) -> Self {
        let proxy = proxy(&server);
        let target = match &proxy {
            Some(proxy) => Target::Unix(PathBuf::from(proxy.socket())),
            None => Target::Tcp(server.address()),
        };
        Self {
            server,
            target,
            proxy,
            authority: None,
            neighbour: None,
        }
    }

    fn tls() -> Self {
        let (authority, application) = (Authority::new(), application());
        authority.sign(&[HOST]).write(&application, HOST);
        let server = builder(application)
            .listen(["tls://127.0.0.1:0"])
            .setting("tls_certificate_files", "localhost.pem:localhost.key")
            .start();
        let http1 = tls::configuration(&authority, rustls::ALL_VERSIONS, None);
        let target = Target::Tls {
            address: server.tls_address(),
            http2: tls::with_http_2(&http1),
            http1,
        };
        Self {
            server,
            target,
            proxy: None,
            authority: Some(authority),
            neighbour: None,
        }
    }

    fn beside_crashing() -> Self {
        let mut neighbour = Neighbour::new();
        let file = format!("{SETTINGS}{}", neighbour.tables());
        let server = builder(application()).settings_file(&file).start();
        until("both serve", || {
            let all = server.status().0["applications"].take();
            let serves = |one: &Value| one["generations"][0]["state"] == "serving";
            all.as_array().is_some_and(|all| all.iter().all(serves))
        });
        neighbour.begin(server.address());
        Self {
            target: Target::Tcp(server.address()),
            server,
            proxy: None,
            authority: None,
            neighbour: Some(neighbour),
        }
    }
}

/// Counts, and returns the log.
fn counted_zero(name: &str, site: Site, amount: Amount) -> Vec<String> {
    const RATE: Rate = Rate {
        keeping: 9,
        opening: 3,
        interval: Duration::from_millis(40),
        slow: false,
    };
    let amount = amount.asked_for();
    let Site {
        server,
        target,
        proxy,
        authority,
        neighbour,
    } = site;
    let began = Instant::now();
    let mut run = Run {
        server,
        load: Load::start(target, RATE, 1),
        phases: vec![Event::Calm],
        version: 1,
        reloads: 0,
        random: 0x9e37_79b9_7f4a_7c15,
        authority,
        tables: neighbour
            .as_ref()
            .map_or_else(String::new, Neighbour::tables),
    };
    run.load.settle(5);
    run.go_through(Event::BrokenDeploy, |run| {
        run.broken_deploy("raises", "this version does not boot");
    });
    for number in 0..amount.restarts {
        run.go_through(Event::Restart, Run::restart);
        if number < amount.upgrades {
            run.go_through(Event::Upgrade, Run::upgrade);
        }
        if number < amount.reloads {
            run.go_through(Event::Reload, Run::reload);
        }
        if number < amount.kills {
            run.go_through(Event::Kill, Run::kill);
        }
        if number < amount.kills_amid {
            run.go_through(Event::KillAmid, |run| {
                run.restart_amid(true, Run::any_worker);
            });
            run.go_through(Event::KillAmid, |run| run.upgrade_amid(Run::any_worker));
            run.go_through(Event::TemplateAmid, |run| {
                run.restart_amid(true, |run| templates(&run.server)[0]);
            });
            run.go_through(Event::TemplateAmid, |run| {
                run.restart_amid(false, |run| *templates(&run.server).last().expect("two"));
            });
            run.go_through(Event::TemplateAmid, |run| {
                run.upgrade_amid(|run| templates(&run.server)[0]);
            });
        }
        if number < amount.stops {
            run.go_through(Event::Stop, Run::stop);
        }
    }
    run.go_through(Event::BrokenDeploy, |run| {
        run.broken_deploy("sick", "GET /up was answered with 503");
    });
    let Run {
        server,
        load,
        phases,
        ..
    } = run;
    let sent = load.end();
    drop(proxy);
    if let Some(crashes) = neighbour.map(Neighbour::end) {
        assert!(crashes > 20, "{crashes}");
    }
    let stopped = server.stop();
    let folder = stopped.application.path().join("seen");
    let mut ledger = Ledger::draw_up(&phases, &sent, &folder, &stopped.log);
    ledger.seconds = began.elapsed().as_secs_f64();
    println!("{}", ledger.table(name));
    keep(name, &ledger.json());

    let failures = ledger.failures.join("\n");
    let gentle = [
        Event::Calm,
        Event::Restart,
        Event::BrokenDeploy,
        Event::Reload,
        Event::Upgrade,
        Event::TemplateAmid,
    ];
    assert_eq!(ledger.failed(&gentle), 0, "{failures}");
    // A worker holds no more than its threads run, and of that a safe request is run again unless its response had begun.
    let kills = [Event::Kill, Event::KillAmid];
    let most = (amount.kills + 2 * amount.kills_amid) * THREADS;
    assert!(ledger.failed(&kills) <= most, "{failures}");
    let lost_get = kills.map(|event| format!("{}: GET", event.name()));
    let is_lost = |failure: &&String| {
        let starts = lost_get.iter().any(|get| failure.starts_with(get));
        starts && !failure.contains("within the body")
    };
    let lost_gets = ledger.failures.iter().filter(is_lost);
    assert_eq!(lost_gets.count(), 0, "{failures}");
    let held = ledger.failed(&[Event::Stop]);
    assert!(held <= amount.stops * THREADS, "{failures}");
    assert_eq!(ledger.posts_twice, [0; 0], "run twice");
    assert_eq!(
        ledger.unseen, [0; 0],
        "answered, and the application never saw it"
    );
    assert_eq!(ledger.unlogged, [0; 0], "not in the log");
    assert_eq!(ledger.logged_twice, [0; 0], "twice in the log");
    assert!(ledger.sent() > 500, "{}", ledger.sent());
    stopped.log
}

#[test]
fn the_counted_zero() {
    counted_zero("direct", Site::plain(|_| None), Amount::WHOLE);
}

#[test]
fn the_counted_zero_through_haproxy() {
    let site = Site::plain(|server| Some(Proxy::haproxy(server.address())));
    counted_zero("haproxy", site, Amount::WHOLE);
}

#[test]
fn the_counted_zero_through_nginx() {
    let site = Site::plain(|server| Some(Proxy::nginx(server.address())));
    counted_zero("nginx", site, Amount::WHOLE);
}

#[test]
fn the_counted_zero_with_two_edges() {
    counted_zero("edges", Site::with_two_edges(), Amount::BESIDE);
}

#[test]
fn the_counted_zero_over_tls_and_http_2_while_certificates_change() {
    let log = counted_zero("tls", Site::tls(), Amount::PART);
    let read = log
        .iter()
        .filter(|line| line.contains("read certificates again"));
    assert!(read.count() >= Amount::PART.restarts);
}

#[test]
fn the_counted_zero_beside_an_application_that_crashes_all_the_time() {
    counted_zero("neighbour", Site::beside_crashing(), Amount::BESIDE);
}
