//! Verdicts on made-up trials: which count, who ranks where, and how often equal stacks get different verdicts.

use std::time::Duration;

use super::*;
use crate::results::{Limit, Peak, Stack};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

/// Two stacks and one closed loop; no trial yet.
fn comparison() -> Results {
    let stack = |id: &str| Stack {
        id: id.into(),
        ..Stack::default()
    };
    Results {
        stacks: vec![stack("first"), stack("second")],
        loads: vec![Load {
            id: "closed".into(),
            size: 12.0,
            ..Load::default()
        }],
        ..Results::default()
    }
}

/// A trial of ten seconds with so many good responses a second.
fn trial(stack: &str, round: usize, rate: f64) -> Trial {
    let mut trial = Trial {
        stack: stack.into(),
        load: "closed".into(),
        round,
        cpu_s: 10.0,
        ..Trial::default()
    };
    set_rate(&mut trial, rate);
    trial.outcome.elapsed_s = 10.0;
    trial.memory.after.pss = 100_000_000;
    trial
}

fn set_rate(trial: &mut Trial, rate: f64) {
    let count = (rate * 10.0) as u64;
    trial.outcome.demanded = count;
    trial.outcome.sent = count;
    trial.outcome.completed = count;
    trial.outcome.good = count;
}

fn rounds(first: &[f64], second: &[f64]) -> Results {
    let mut results = comparison();
    for (index, (one, other)) in first.iter().zip(second).enumerate() {
        results.trials.push(trial("first", index + 1, *one));
        results.trials.push(trial("second", index + 1, *other));
    }
    results
}

fn on_rate(results: &Results) -> Versus {
    let judgement = judge(results);
    let finding = judgement.finding(Measure::Rate, Some("closed"));
    finding.unwrap().versus("second", "first").unwrap()
}

/// A draw from the normal distribution (Box and Muller).
fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

/// How many of `count` simulated comparisons of five rounds call the second stack better, too close and worse. Rounds
/// drift by 5 %, which both stacks share; starts differ by `between`; the second stack has `speed` of the first's rate.
fn simulate(count: u64, between: f64, speed: f64) -> [usize; 3] {
    let mut calls = [0; 3];
    let mut results = rounds(&[1.0; 5], &[1.0; 5]);
    for seed in 0..count {
        let mut random = SplitMix64::seed_from_u64(seed);
        for pair in results.trials.chunks_mut(2) {
            let drift = (0.05 * normal(&mut random)).exp();
            for (trial, speed) in pair.iter_mut().zip([1.0, speed]) {
                let start = (between * normal(&mut random)).exp();
                set_rate(trial, 5_000.0 * drift * start * speed);
            }
        }
        calls[match on_rate(&results).verdict {
            Verdict::Better => 0,
            Verdict::TooClose => 1,
            Verdict::Worse => 2,
            Verdict::Unknown => unreachable!("five rounds"),
        }] += 1;
    }
    calls
}

#[test]
fn a_stack_and_itself_are_too_close_to_call_in_19_of_20_comparisons() {
    for between in [0.005, 0.03, 0.05] {
        let [better, close, worse] = simulate(1000, between, 1.0);
        assert!(close >= 950, "{between}: {better} {close} {worse}");
    }
    // Where starts differ this much the noise threshold is no help, and the interval's own 5 % show.
    let [better, close, worse] = simulate(1000, 0.20, 1.0);
    assert!(close >= 935, "{better} {close} {worse}");
}

#[test]
fn ten_per_cent_more_work_is_found_slower() {
    let [better, _, worse] = simulate(1000, 0.03, 1.0 / 1.1);
    assert!(worse >= 930 && better == 0, "{better} {worse}");
    let [better, _, worse] = simulate(1000, 0.02, 1.0 / 1.1);
    assert!(worse >= 990 && better == 0, "{better} {worse}");
}

#[test]
fn equal_latencies_are_too_close_to_call() {
    let mut false_calls = 0;
    for seed in 0..200 {
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut results = rounds(&[100.0; 5], &[100.0; 5]);
        for trial in &mut results.trials {
            let start = (0.05 * normal(&mut random)).exp();
            for _ in 0..300 {
                let milliseconds = 10.0 * start * (0.5 * normal(&mut random)).exp();
                let time = Duration::from_secs_f64(milliseconds / 1e3);
                trial.outcome.latency.record(time);
            }
        }
        let judgement = judge(&results);
        let finding = judgement.finding(Measure::P99, Some("closed")).unwrap();
        let verdict = finding.versus("second", "first").unwrap().verdict;
        false_calls += u32::from(verdict != Verdict::TooClose);
    }
    assert!(false_calls <= 10, "{false_calls} of 200");
}

#[test]
fn a_difference_below_the_noise_is_none_however_sure() {
    let versus = on_rate(&rounds(
        &[1000.0, 1001.0, 999.0, 1000.0, 1000.0],
        &[1015.0, 1015.0, 1014.0, 1015.0, 1016.0],
    ));
    assert_eq!(versus.verdict, Verdict::TooClose);
    assert!(versus.ratio.unwrap().low > 1.0);
}

#[test]
fn two_rounds_give_a_ratio_and_no_verdict() {
    let versus = on_rate(&rounds(&[1000.0, 1000.0], &[2000.0, 2001.0]));
    assert_eq!(versus.verdict, Verdict::Unknown);
    assert!((versus.ratio.unwrap().value - 2.0).abs() < 0.01);
}

#[test]
fn of_latency_cpu_and_memory_less_is_better() {
    let mut results = rounds(&[1000.0; 5], &[1000.0; 5]);
    for trial in results
        .trials
        .iter_mut()
        .filter(|trial| trial.stack == "second")
    {
        trial.cpu_s = 5.0;
        trial.memory.after.pss = 200_000_000;
    }
    let judgement = judge(&results);
    let verdict = |measure| {
        let finding = judgement.finding(measure, Some("closed")).unwrap();
        finding.versus("second", "first").unwrap().verdict
    };
    assert_eq!(verdict(Measure::Cpu), Verdict::Better);
    assert_eq!(verdict(Measure::PerCore), Verdict::Better);
    assert_eq!(verdict(Measure::Memory), Verdict::Worse);
    assert_eq!(verdict(Measure::PerGigabyte), Verdict::Worse);
}

#[test]
fn a_saturated_generator_refuses_to_rank() {
    let mut results = rounds(&[1000.0; 5], &[2000.0; 5]);
    for trial in results
        .trials
        .iter_mut()
        .filter(|trial| trial.stack == "second")
    {
        trial.limit = Limit::Client;
        trial.outcome.generator.limit = Some("its threads used 99 % of their cores".into());
    }
    assert_eq!(on_rate(&results).verdict, Verdict::Unknown);
    let judgement = judge(&results);
    let finding = judgement.headline().unwrap();
    assert_eq!(finding.of("second").unwrap().rank, None);
    assert_eq!(finding.ranking().len(), 1);
    assert_eq!(judgement.set_aside.len(), 5);
    assert_eq!(judgement.set_aside[0].cause, Cause::Client);
    assert!(judgement.set_aside[0].reason.contains("99 %"));
}

#[test]
fn a_rate_at_the_generators_ceiling_refuses_to_rank_too() {
    let mut results = rounds(&[1000.0; 5], &[2000.0; 5]);
    results.loads[0].ceiling = Some(2100.0);
    let judgement = judge(&results);
    assert_eq!(on_rate(&results).verdict, Verdict::Unknown);
    let first = &judgement.set_aside[0];
    assert_eq!((judgement.set_aside.len(), first.cause), (5, Cause::Client));
    assert_eq!(
        first.reason,
        "the generator was the limit: 95 % of the 2100 responses a second that it can take at all"
    );
    // Nearer than half of it is for the report to warn of.
    results.loads[0].ceiling = Some(2500.0);
    assert_eq!(judge(&results).set_aside, []);
}

#[test]
fn a_server_that_answers_500_or_another_body_cannot_win() {
    for expected_known in [true, false] {
        let mut results = rounds(&[1000.0; 5], &[9000.0; 5]);
        for trial in results
            .trials
            .iter_mut()
            .filter(|trial| trial.stack == "second")
        {
            trial.outcome.good -= 900;
            trial.outcome.statuses.insert(500, 900);
            trial.outcome.errors.unexpected = if expected_known { 900 } else { 0 };
        }
        let judgement = judge(&results);
        assert_eq!(on_rate(&results).verdict, Verdict::Unknown);
        let first = &judgement.set_aside[0];
        assert_eq!(first.cause, Cause::WrongResponses);
        assert_eq!(
            first.reason,
            "1.00 % of its responses were wrong: 900 with status 500"
        );
    }
}

#[test]
fn requests_in_flight_when_the_load_ended_are_no_errors() {
    let mut results = rounds(&[100.0; 5], &[100.0; 5]);
    for trial in &mut results.trials {
        trial.outcome.demanded += 12;
        trial.outcome.errors.unanswered = 12;
        trial.outcome.peak_in_flight = 12;
    }
    assert_eq!(judge(&results).set_aside, []);
    results.trials[0].outcome.errors.timeout = 3;
    let judgement = judge(&results);
    assert_eq!(judgement.set_aside[0].cause, Cause::Errors);
    assert!(judgement.set_aside[0].reason.contains("3 timed out"));
}

#[test]
fn a_stack_ranks_on_the_rounds_that_are_left_or_not_at_all() {
    let mut results = rounds(
        &[1000.0, 1010.0, 990.0, 1000.0, 1000.0],
        &[1500.0, 1520.0, 1490.0, 1510.0, 1500.0],
    );
    results.trials[1].failure = Some("it did not come up\nlog".into());
    let versus = on_rate(&results);
    assert_eq!((versus.verdict, versus.rounds), (Verdict::Better, 4));
    assert_eq!(judge(&results).set_aside[0].reason, "it did not come up");
    for index in [3, 5] {
        results.trials[index].failure = Some("it did not come up".into());
    }
    assert_eq!(on_rate(&results).verdict, Verdict::Unknown);
}

#[test]
fn stacks_too_close_to_call_share_a_rank() {
    let mut results = rounds(
        &[1000.0, 1010.0, 990.0, 1005.0, 1000.0],
        &[1002.0, 1000.0, 1001.0, 995.0, 1004.0],
    );
    results.stacks.push(Stack {
        id: "third".into(),
        ..Stack::default()
    });
    for round in 1..=5 {
        results.trials.push(trial("third", round, 500.0));
    }
    let judgement = judge(&results);
    let ranking: Vec<(&str, Option<usize>)> = judgement
        .headline()
        .unwrap()
        .ranking()
        .iter()
        .map(|figure| (figure.stack, figure.rank))
        .collect();
    assert_eq!(
        ranking,
        [("first", Some(1)), ("second", Some(1)), ("third", Some(3))]
    );
}

#[test]
fn peaks_closer_than_the_precision_are_equal() {
    let search = |stack: &str, round, last_good: f64| Peak {
        stack: stack.into(),
        round,
        last_good,
        first_bad: Some(last_good * 1.06),
        finished: true,
        ..Peak::default()
    };
    let versus = |second: f64| {
        let mut results = comparison();
        for round in 1..=5 {
            results.peaks.push(search("first", round, 1000.0));
            results.peaks.push(search("second", round, second));
        }
        let judgement = judge(&results);
        let finding = judgement.finding(Measure::Peak, None).unwrap();
        finding.versus("second", "first").unwrap().verdict
    };
    assert_eq!(versus(1050.0), Verdict::TooClose);
    assert_eq!(versus(1200.0), Verdict::Better);
}

#[test]
fn a_search_that_the_generator_ended_does_not_rank() {
    let mut results = comparison();
    results.peaks.push(Peak {
        stack: "first".into(),
        round: 1,
        last_good: 20_000.0,
        finished: true,
        ..Peak::default()
    });
    let judgement = judge(&results);
    assert_eq!(judgement.set_aside[0].cause, Cause::Client);
    assert_eq!(judgement.findings[0].figures[0].rank, None);
}

#[test]
fn nothing_measured_is_nothing_found() {
    let results = Results::default();
    let judgement = judge(&results);
    assert!(judgement.findings.is_empty() && judgement.headline().is_none());
}

/// Something else used half a core in so many of the ten trials.
fn disturbed(count: usize) -> Results {
    let mut results = rounds(&[1000.0; 5], &[2000.0; 5]);
    for trial in &mut results.trials {
        trial.memory.after.pss = 50_000_000 * (1 + u64::from(trial.stack == "first"));
    }
    for trial in results.trials.iter_mut().take(count) {
        trial.other_cores = 0.5;
    }
    results
}

#[test]
fn more_than_a_third_of_disturbed_trials_gives_no_verdict_but_on_memory() {
    let verdict_on = |results: &Results, measure| {
        let judgement = judge(results);
        let finding = judgement.finding(measure, Some("closed")).unwrap();
        finding.versus("second", "first").unwrap().verdict
    };
    let few = disturbed(3);
    assert_eq!(judge(&few).contamination, None);
    assert_eq!(verdict_on(&few, Measure::Rate), Verdict::Better);
    let many = disturbed(4);
    let contamination = judge(&many).contamination.unwrap();
    assert_eq!((contamination.disturbed, contamination.trials), (4, 10));
    assert!(
        contamination
            .to_string()
            .contains("in 4 of 10 trials, at most 0.5.")
    );
    for measure in [Measure::Rate, Measure::Cpu, Measure::PerGigabyte] {
        assert_eq!(verdict_on(&many, measure), Verdict::Unknown, "{measure:?}");
    }
    assert_eq!(verdict_on(&many, Measure::Memory), Verdict::Better);
}

#[test]
fn disturbed_steps_of_a_search_count_as_trials() {
    let mut results = disturbed(3);
    let step = crate::results::Step {
        other_cores: 0.3,
        ..Default::default()
    };
    results.peaks.push(Peak {
        steps: vec![step; 2],
        ..Peak::default()
    });
    let contamination = judge(&results).contamination.unwrap();
    assert_eq!((contamination.disturbed, contamination.trials), (5, 12));
}

#[test]
fn p95_or_p90_and_the_mean_replace_a_p99_of_too_few_requests() {
    let tail = |count: usize| {
        let mut results = rounds(&[1000.0; 3], &[1000.0; 3]);
        for trial in &mut results.trials {
            let count = if trial.stack == "first" { 1000 } else { count };
            for _ in 0..count {
                trial.outcome.latency.record(Duration::from_millis(10));
            }
        }
        let judgement = judge(&results);
        let tail = judgement.tail("closed").to_vec();
        let last = judgement.finding(*tail.last().unwrap(), Some("closed"));
        assert_eq!(last.unwrap().figures.len(), 2, "{tail:?}");
        tail
    };
    // Of three rounds together: p99 needs 1,000 requests, p95 200, p90 100.
    assert_eq!(tail(334), [Measure::P99]);
    assert_eq!(tail(333), [Measure::P95, Measure::Mean]);
    assert_eq!(tail(66), [Measure::P90, Measure::Mean]);
    assert_eq!(tail(33), [Measure::P99, Measure::Mean]);
}

#[test]
fn a_change_between_two_comparisons_has_its_verdict() {
    let before = rounds(
        &[1000.0, 1010.0, 990.0, 1005.0, 995.0],
        &[500.0, 505.0, 495.0, 502.0, 498.0],
    );
    let after = rounds(
        &[1300.0, 1310.0, 1290.0, 1305.0, 1295.0],
        &[501.0, 499.0, 500.0, 503.0, 497.0],
    );
    let changes = change::changes(&before, &after);
    let rates: Vec<(&str, Verdict)> = changes
        .iter()
        .filter(|change| change.measure == Measure::Rate)
        .map(|change| (change.stack.as_str(), change.verdict))
        .collect();
    assert_eq!(
        rates,
        [("first", Verdict::Better), ("second", Verdict::TooClose)]
    );
    let back = change::changes(&after, &before);
    assert_eq!(back[0].verdict, Verdict::Worse, "{:?}", back[0]);
    let few = rounds(&[1300.0, 1310.0], &[500.0, 501.0]);
    assert_eq!(change::changes(&before, &few)[0].verdict, Verdict::Unknown);
    let mut contaminated = after.clone();
    for trial in &mut contaminated.trials {
        trial.other_cores = 1.0;
    }
    assert_eq!(
        change::changes(&before, &contaminated)[0].verdict,
        Verdict::Unknown
    );
}

#[test]
fn conditions_that_differ_between_two_comparisons_are_named() {
    let before = rounds(&[1000.0; 3], &[1000.0; 3]);
    let mut after = before.clone();
    after.loads[0].ceiling = Some(9000.0);
    assert_eq!(change::conditions(&before, &after), Vec::<String>::new());
    after.machine.versions.push(("puma".into(), "6.0".into()));
    after.loads[0].size = 100.0;
    let lines = change::conditions(&before, &after);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("a version differs"), "{lines:?}");
    assert_eq!(lines[1], "a load differs (0.size): 12.0 and 100.0");
}
