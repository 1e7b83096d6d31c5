//! Explanations of shapes in the figures whose cause is known. Each stands with its condition, and is shown only where
//! the measured figures have the shape. It judges nothing.

use super::words::name;
use compare::results::{Load, Results, Stack};
use compare::statistics::starts::merged;
use loadgen::outcome::Latency;

/// What is known of a stack's latencies under a load.
struct Shape<'a> {
    stack: &'a Stack,
    load: &'a Load,
    latency: Latency,
}

/// An explanation; `None` where its shape is not in the figures.
type Explanation = fn(&Shape<'_>) -> Option<&'static str>;

const EXPLANATIONS: [Explanation; 2] = [puma_fast_inline, delayed_acknowledgement];

/// Sentences on the latency distribution of each stack whose shape has a known cause.
pub(super) fn latencies(results: &Results, load: &Load) -> Vec<String> {
    let mut sentences = Vec::new();
    for stack in &results.stacks {
        let trials = results.trials.iter().filter(|trial| {
            trial.stack == stack.id && trial.load == load.id && trial.failure.is_none()
        });
        let shape = Shape {
            stack,
            load,
            latency: merged(trials.map(|trial| &trial.outcome.latency)),
        };
        let known = EXPLANATIONS.iter().filter_map(|explain| explain(&shape));
        sentences.extend(known.map(|text| format!("{}: {text}", name(results, &stack.id))));
    }
    sentences
}

/// Puma answers up to ten requests of one keep-alive connection in a row (`max_fast_inline`) while other connections
/// wait, so that the latency rises steeply behind the ninth tenth of the requests.
fn puma_fast_inline(shape: &Shape<'_>) -> Option<&'static str> {
    let Shape {
        stack,
        load,
        latency,
    } = shape;
    let places = (stack.workers * stack.threads) as f64;
    let waits = !load.open && load.calls != Some(1) && load.size > places;
    let is_puma = stack.versions.contains_key("puma");
    let step = latency.at(93.0) > 3.0 * latency.at(86.0);
    (is_puma && waits && step).then_some(
        "the step near 90 % is its setting max_fast_inline. Puma answers up to ten requests of one keep-alive connection \
         in a row while other connections wait: nine of ten requests start at once, and the tenth waits for its turn.",
    )
}

/// Linux acknowledges a segment after 40 ms at the latest; a server that sends a response in two small segments, without
/// TCP_NODELAY, waits for that before it sends the second.
fn delayed_acknowledgement(shape: &Shape<'_>) -> Option<&'static str> {
    let share = |from: u64, to: u64| {
        let values = shape.latency.values();
        let within = values.filter(|(microseconds, _)| (from..to).contains(microseconds));
        let count: u64 = within.map(|(_, count)| count).sum();
        count as f64 / shape.latency.count().max(1) as f64
    };
    let plateau = share(39_000, 45_000) > 0.2 && share(25_000, 39_000) < 0.05;
    plateau.then_some(
        "many responses take 40 ms, the delay after which Linux acknowledges a TCP segment. The server sends a response in \
         two small segments without TCP_NODELAY, and the second waits for the acknowledgement of the first.",
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use compare::results::Trial;

    /// One trial of ten connections on two workers; of 100 requests each takes so many microseconds.
    fn results(program: &str, latency: impl Fn(u64) -> u64) -> Results {
        let mut trial = Trial {
            stack: "one".into(),
            load: "c10".into(),
            ..Trial::default()
        };
        for index in 0..100 {
            let time = Duration::from_micros(latency(index));
            trial.outcome.latency.record(time);
        }
        Results {
            stacks: vec![Stack {
                id: "one".into(),
                name: "One".into(),
                versions: [(program.to_owned(), "5.6".to_owned())].into(),
                workers: 2,
                threads: 1,
                ..Stack::default()
            }],
            loads: vec![Load {
                id: "c10".into(),
                size: 10.0,
                ..Load::default()
            }],
            trials: vec![trial],
            ..Results::default()
        }
    }

    fn explained(results: &Results) -> String {
        latencies(results, &results.loads[0]).join(" ")
    }

    #[test]
    fn pumas_step_is_explained_where_it_is_measured() {
        let step = |index| if index < 90 { 200 } else { 4_000 };
        let text = explained(&results("puma", step));
        assert!(
            text.starts_with("One: the step near 90 % is its setting max_fast_inline."),
            "{text}"
        );
        assert_eq!(explained(&results("unicorn", step)), "");
        assert_eq!(explained(&results("puma", |index| 200 + index)), "");
        let mut enough_workers = results("puma", step);
        enough_workers.stacks[0].workers = 10;
        assert_eq!(explained(&enough_workers), "");
    }

    #[test]
    fn a_plateau_at_the_delayed_acknowledgement_is_explained() {
        let text = explained(&results(
            "thin",
            |index| if index < 60 { 900 } else { 41_000 },
        ));
        assert!(text.starts_with("One: many responses take 40 ms"), "{text}");
        assert_eq!(explained(&results("thin", |index| 1_000 * index)), "");
    }
}
