//! Charts of the trials of a load, one by one or by program: latency over time, and who used the CPU time.

use super::measured;
use crate::chart::Chart;
use crate::chart::bars::{self, Row};
use crate::chart::heat::{self, Block};
use crate::words::colour;
use compare::results::{Load, Results, Trial};
use loadgen::outcome::Second;

/// The p99 of each second of each trial, as a heat map; `None` where no trial lasted two whole seconds.
pub(crate) fn latency_over_time(results: &Results, load: &Load) -> Option<Chart> {
    let blocks = results.stacks.iter().map(|stack| Block {
        stack: stack.id.clone(),
        colour: colour(results, &stack.id),
        trials: measured(results, &stack.id, &load.id)
            .map(seconds)
            .collect(),
    });
    let blocks: Vec<Block> = blocks.filter(|block| !block.trials.is_empty()).collect();
    let lasts = blocks
        .iter()
        .flat_map(|block| &block.trials)
        .any(|trial| trial.len() > 1);
    let id = format!("latency-over-time-{}", load.id);
    let caption = "One row a trial, one cell a second (or several): the p99 of the requests that ended in it. The scale below \
                   gives the colours; red is a second in which no request ended.";
    lasts.then(|| heat::chart(&id, "Latency over time", caption, "p99, ms", &blocks))
}

/// The p99 of each whole second.
fn seconds(trial: &Trial) -> Vec<Option<f64>> {
    let whole = trial.outcome.elapsed_s.floor() as usize;
    let ended = |second: &Second| second.completed + second.errors > 0;
    let seconds = trial.outcome.seconds.iter().take(whole);
    seconds
        .map(|second| ended(second).then_some(second.p99_ms))
        .collect()
}

/// Web servers and balancers that stand before an application server.
const PROXIES: [&str; 8] = [
    "apache2", "caddy", "haproxy", "httpd", "lighttpd", "nginx", "pen", "thrust",
];

const APPLICATION: &str = "application";
const FRONT: &str = "front";
const PROXY: &str = "proxy";

/// What a program does in a stack: Ruby runs the application; a program that is neither Ruby nor a proxy is the application
/// server's own. Without any Ruby the application server has Ruby built in, as uWSGI does, and runs the application.
fn part(program: &str, has_ruby: bool) -> &'static str {
    match program {
        program if program.starts_with("ruby") => APPLICATION,
        program if PROXIES.contains(&program) => PROXY,
        _ if has_ruby => FRONT,
        _ => APPLICATION,
    }
}

/// CPU time per request, divided by what the programs do; `None` where the trials did not record programs.
pub(crate) fn cpu_parts(results: &Results, load: &Load) -> Option<Chart> {
    let names = [APPLICATION, FRONT, PROXY];
    let mut rows = Vec::new();
    for stack in &results.stacks {
        let trials: Vec<&Trial> = measured(results, &stack.id, &load.id)
            .filter(|trial| trial.outcome.completed > 0 && !trial.cpu_by_program.is_empty())
            .collect();
        let programs = || trials.iter().flat_map(|trial| &trial.cpu_by_program);
        let has_ruby = programs().any(|(program, _)| program.starts_with("ruby"));
        let requests: u64 = trials.iter().map(|trial| trial.outcome.completed).sum();
        let parts = names.iter().map(|name| {
            let own = programs().filter(|(program, _)| part(program, has_ruby) == *name);
            let seconds: f64 = own.map(|(_, seconds)| seconds).sum();
            (*name, seconds * 1e6 / requests.max(1) as f64)
        });
        let parts: Vec<(&'static str, f64)> = parts.filter(|(_, value)| *value > 0.0).collect();
        if !parts.is_empty() {
            rows.push(Row {
                stack: stack.id.clone(),
                colour: colour(results, &stack.id),
                parts,
            });
        }
    }
    rows.sort_by(|a, b| a.total().total_cmp(&b.total()));
    let id = format!("cpu-parts-{}", load.id);
    let caption = "Means over all trials. Full colour: Ruby, which runs the application, and a server that is written in it. \
                   Paler: the server's own program, such as Highball's front or Passenger's agent. Palest: web servers and \
                   balancers before it.";
    (!rows.is_empty()).then(|| {
        let title = "CPU time per request by program";
        bars::chart(&id, title, caption, "µs", (&rows, &names))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_part_follows_from_its_name() {
        for (program, has_ruby, expected) in [
            ("ruby3.1", true, APPLICATION),
            ("highball", true, FRONT),
            ("PassengerAgent", true, FRONT),
            ("nginx", true, PROXY),
            ("uwsgi-core", false, APPLICATION),
            ("nginx", false, PROXY),
        ] {
            assert_eq!(part(program, has_ruby), expected, "{program}");
        }
    }
}
