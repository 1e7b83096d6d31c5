//! `highball load`: drives a URL and says what came of it. It reads flags and prints; sending and measuring are the
//! generator's, the layout of results is the formats'.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};

use self::failure::Failure;
use self::progress::Progress;
use super::export;
use formats::export::Export;
use formats::{Format, Measured};
use loadgen::duration;
use loadgen::outcome::condition::Condition;
use loadgen::plan::{Arrivals, ConnectionUse};

mod failure;
mod planning;
mod progress;
mod reach;
mod requests_file;
mod url;

/// Arguments of `highball load`.
#[derive(Debug, PartialEq, clap::Args)]
#[command(
    after_help = "Ctrl-C ends the load early and prints what was measured. \
                        A WEIGHT before a URL makes it that much more frequent: 3:http://localhost/ http://localhost/new"
)]
pub struct Arguments {
    /// Where requests go: http://host:port/path, the same with https, or unix:/path/to.sock:/path; several of one server are mixed
    #[arg(value_name = "[WEIGHT:]URL", required = true)]
    urls: Vec<String>,

    /// Closed loop: so many connections, each with one request at a time
    #[arg(short = 'c', long, value_name = "N", default_value_t = 10, help_heading = LOAD,
          value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "rate")]
    concurrency: u32,
    /// Closed loop: end after so many requests
    #[arg(short = 'n', long, value_name = "N", help_heading = LOAD,
          value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["rate", "duration"])]
    count: Option<u64>,
    /// Send for so long
    #[arg(short, long, value_name = "TIME", default_value = "10s", help_heading = LOAD, value_parser = duration::parse)]
    duration: Duration,
    /// Open loop: so many requests a second at scheduled times, whatever became of earlier ones
    #[arg(long, value_name = "R", help_heading = LOAD, value_parser = rate)]
    rate: Option<f64>,
    /// Open loop: how requests are spread: independently of each other, as people are, or at equal distances
    #[arg(long, value_name = "HOW", default_value = "poisson", help_heading = LOAD, requires = "rate")]
    arrivals: Arrivals,
    /// Open loop: never more connections than this; a request that waits for one keeps its scheduled time
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = LOAD,
          value_parser = clap::value_parser!(u32).range(1..), requires = "rate")]
    max_connections: u32,
    /// Send the same load for so long first and forget what came of it
    #[arg(long, value_name = "TIME", help_heading = LOAD, value_parser = duration::parse)]
    warm_up: Option<Duration>,
    /// How many requests a connection carries: keep-alive, per-request (a connection for each) or calls=N
    #[arg(long, value_name = "USE", default_value = "keep-alive", help_heading = LOAD, value_parser = connection_use)]
    connections: ConnectionUse,
    /// Speak HTTP/2; without TLS the server must expect it
    #[arg(long, help_heading = PROTOCOL)]
    http2: bool,
    /// HTTP/2: so many requests at a time on each connection
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = PROTOCOL,
          value_parser = clap::value_parser!(u32).range(1..=1000), requires = "http2")]
    streams: u32,
    /// TLS: accept every certificate
    #[arg(short = 'k', long, help_heading = PROTOCOL)]
    insecure: bool,
    /// TLS: accept certificates of the authorities in this file (PEM) [default: those that this machine trusts]
    #[arg(long, value_name = "FILE", help_heading = PROTOCOL, conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// TLS: a full handshake for each connection; otherwise later ones resume a session, as those of browsers do
    #[arg(long, help_heading = PROTOCOL)]
    no_resumption: bool,

    /// A request without its whole response after so long has failed
    #[arg(long, value_name = "TIME", default_value = "30s", help_heading = LOAD, value_parser = duration::parse)]
    timeout: Duration,

    /// Method of the URLs [default: GET, or POST with a body]
    #[arg(long, value_name = "METHOD", help_heading = REQUESTS)]
    method: Option<String>,
    /// A field of every request, 'Name: value'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD", help_heading = REQUESTS)]
    headers: Vec<String>,
    /// Body of every request: a text, or @FILE
    #[arg(long, value_name = "TEXT|@FILE", help_heading = REQUESTS)]
    body: Option<String>,
    /// Take the requests, and a login, from a TOML file; the URL then names the server alone
    #[arg(long, value_name = "FILE", help_heading = REQUESTS, conflicts_with_all = ["method", "body"])]
    requests: Option<PathBuf>,
    /// A response with another status is an error
    #[arg(long, value_name = "STATUS", help_heading = REQUESTS, value_parser = clap::value_parser!(u16).range(100..=599))]
    expect_status: Option<u16>,
    /// A response whose body has another length is an error [status then: 200]
    #[arg(long, value_name = "BYTES", help_heading = REQUESTS)]
    expect_length: Option<u64>,

    /// Generator threads [default: one for each of --cores, else 1]
    #[arg(long, value_name = "N", help_heading = GENERATOR, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Cores that the generator keeps to, such as 1,2
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = GENERATOR)]
    cores: Vec<usize>,
    /// What arrivals and the mix of requests depend on: the same seed gives the same schedule
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = GENERATOR)]
    seed: u64,

    /// Measure first what the generator can take on this machine, for a second against a server that only answers
    #[arg(long, help_heading = GENERATOR, conflicts_with = "http2")]
    headroom: bool,

    /// How results are written: our own text, data, or the fields that ab, wrk or httperf print
    #[arg(long, value_name = "FORMAT", default_value = "text", help_heading = OUTPUT)]
    format: Format,
    /// Write results to a file
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    /// Exit with 1 if a larger share of the requests fails
    #[arg(long, value_name = "PERCENT", default_value = "1%", help_heading = OUTPUT, value_parser = percent)]
    max_errors: f64,
    /// Exit with 2 if this holds, such as 'p99 > 200ms', 'rate < 500' or 'errors > 0.1%'; may be repeated
    #[arg(long, value_name = "CONDITION", help_heading = OUTPUT)]
    fail_if: Vec<Condition>,
    /// Also write results for another tool: hdr=FILE (HdrHistogram's log), k6=FILE (summary of k6) or jmeter=FILE (CSV of
    /// JMeter, for which each request is kept in memory); may be repeated
    #[arg(long, value_name = "KIND=FILE", help_heading = OUTPUT)]
    export: Vec<Export>,
    /// Show no progress
    #[arg(short, long, help_heading = OUTPUT)]
    quiet: bool,
}

/// How long the generator is held against a server that only answers.
const HEADROOM_TIME: Duration = Duration::from_secs(1);

const LOAD: &str = "Load";
const PROTOCOL: &str = "Protocol";
const REQUESTS: &str = "Requests";
const GENERATOR: &str = "Generator";
const OUTPUT: &str = "Output";

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok();
    rate.filter(|rate: &f64| rate.is_finite() && *rate > 0.0)
        .ok_or_else(|| {
            "a rate is a number of requests a second above 0, such as 50 or 0.5".to_owned()
        })
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim_end().parse().ok();
    number
        .filter(|percent: &f64| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "a share of requests goes from 0% to 100%".to_owned())
}

fn connection_use(text: &str) -> Result<ConnectionUse, String> {
    let calls = text.strip_prefix("calls=").map(str::parse);
    match (text, calls) {
        ("keep-alive", _) => Ok(ConnectionUse::KeepAlive),
        ("per-request", _) => Ok(ConnectionUse::PerRequest),
        (_, Some(Ok(calls))) if calls > 0 => Ok(ConnectionUse::Calls(calls)),
        _ => Err("expected keep-alive, per-request or calls=N with N from 1".to_owned()),
    }
}

/// Loads the URL and prints the outcome.
///
/// # Errors
/// The flags make no plan, no server listens, results can't be written, or too many requests failed; results are printed before
/// the last of these.
pub(super) fn run(arguments: Arguments) -> Result<ExitCode> {
    let plan = planning::plan(&arguments)?;
    reach::descriptors_for(&plan)?;
    reach::server_of(&plan)?;
    let exports = arguments.export.iter().map(|export| &export.file);
    for file in arguments.output.iter().chain(exports) {
        export::check_writable(file)?;
    }
    let stop = super::stop_on_signals()?;
    let headroom = arguments
        .headroom
        .then(|| loadgen::headroom(&plan, &[], HEADROOM_TIME))
        .transpose()?;
    let mut progress = Progress::new(arguments.quiet);
    if let Some(duration) = arguments.warm_up {
        let warm_up = planning::warm_up(&plan, duration);
        loadgen::run(
            &warm_up,
            &mut |so_far| progress.show("warm-up", &warm_up, so_far),
            &stop,
        )?;
        progress.end();
        if stop.load(Ordering::Relaxed) {
            bail!("ended in the warm-up: nothing was measured");
        }
    }
    let started = SystemTime::now();
    let mut show = |so_far: &loadgen::Progress| progress.show("load", &plan, so_far);
    let (outcome, singles) = match export::needs_each_request(&arguments.export) {
        true => loadgen::run_each(&plan, &mut show, &stop)?,
        false => (loadgen::run(&plan, &mut show, &stop)?, Vec::new()),
    };
    progress.end();
    let measured = Measured {
        plan: &plan,
        outcome: &outcome,
        ended_early: stop.load(Ordering::Relaxed),
        headroom: headroom.as_ref(),
    };
    let failure = failure::of(&arguments, &plan, &outcome, measured.ended_early);
    let mut text = formats::render(arguments.format, &measured);
    if let (Format::Text, Some(failure)) = (arguments.format, &failure) {
        text.insert_str(0, &format!("FAILED: {}\n\n", failure.reason));
    }
    write(&text, arguments.output.as_deref())?;
    let exported = (started, &outcome, singles.as_slice());
    export::of_load(&arguments.export, &plan, exported)?;
    match failure {
        None => Ok(ExitCode::SUCCESS),
        Some(Failure { code: 1, reason }) => bail!("{reason}"),
        Some(Failure { code, reason }) => {
            eprintln!("highball: {reason}");
            Ok(ExitCode::from(code))
        }
    }
}

/// To the file, else to stdout; to stdout too where the file can't be written, so that nothing measured is lost.
fn write(text: &str, file: Option<&Path>) -> Result<()> {
    let mut failed = None;
    if let Some(file) = file {
        match std::fs::write(file, text) {
            Ok(()) => return Ok(()),
            Err(error) => failed = Some((file, error)),
        }
    }
    super::print(text)?;
    match failed {
        None => Ok(()),
        Some((file, error)) => Err(error)
            .with_context(|| format!("can't write to {}, so results are above", file.display())),
    }
}
