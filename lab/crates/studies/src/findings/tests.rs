//! On results that were made up: three rounds of two stacks.

use super::*;
use crate::participant::Earlier;
use crate::tests::small;
use compare::results::{self, Missing, Stack, Trial};
use loadgen::outcome::Outcome;
use report::then_and_now::Order;

fn trial(stack: &str, round: usize, rate: u64, memory: i64) -> Trial {
    Trial {
        stack: stack.to_owned(),
        load: "ab".to_owned(),
        round,
        outcome: Outcome {
            elapsed_s: 1.0,
            demanded: rate,
            sent: rate,
            completed: rate,
            good: rate,
            ..Outcome::default()
        },
        memory: MemoryUse {
            free_difference: memory * 1_048_576,
            ..MemoryUse::default()
        },
        ..Trial::default()
    }
}

/// Thin at 1,000 requests per second and nginx before Thins at `rates`, 20 and 60 MB.
fn results(rates: [u64; 3]) -> Results {
    let stack = |id: &str, name: &str| Stack {
        id: id.to_owned(),
        name: name.to_owned(),
        ..Stack::default()
    };
    let trials = rates.iter().zip(1..).flat_map(|(rate, round)| {
        [
            trial("thin", round, 1000 + round as u64, 20),
            trial("nginx+thin", round, *rate, 60),
        ]
    });
    Results {
        rounds: 3,
        stacks: vec![
            stack("thin", "Thin"),
            stack("nginx+thin", "nginx before Thins"),
        ],
        loads: vec![results::Load {
            id: "ab".to_owned(),
            size: 2.0,
            duration_s: 1.0,
            ..results::Load::default()
        }],
        trials: trials.collect(),
        ..Results::default()
    }
}

fn held(results: &Results) -> ThenAndNow {
    let study = small();
    then_and_now(&study, &study.applications[0], results)
}

#[test]
fn every_participant_keeps_its_row_the_reference_first() {
    let found = held(&results([1500, 1510, 1490]));
    let rates = &found.findings[0];
    let names: Vec<&str> = rates
        .rows
        .iter()
        .map(|row| row.then_name.as_str())
        .collect();
    assert_eq!(names, ["Alone 1.0", "Gone 1.0", "Cluster 1.0"]);
    let gone = &rates.rows[1];
    assert_eq!(
        (gone.then, gone.now, gone.stack.as_deref()),
        (Some(20.0), None, None)
    );
    assert_eq!(gone.stand_in.as_deref(), Some("Nothing stands in."));
    assert_eq!(rates.rows[2].stand_in.as_deref(), Some("Thin for another."));
    assert_eq!(rates.rows[2].now_name, "nginx before Thins");
}

#[test]
fn ratios_of_then_and_now_have_todays_interval() {
    let found = held(&results([1500, 1510, 1490]));
    let rates = &found.findings[0];
    assert_eq!(rates.order(), Order::Same);
    let (then, now) = rates.ratios(&rates.rows[2]);
    assert_eq!(then, Some(2.0));
    assert!((now.unwrap() - 1.497).abs() < 0.01, "{now:?}");
    let (low, high) = rates.rows[2].ratio.unwrap().interval().unwrap();
    assert!(low > 1.45 && high < 1.55, "{low} to {high}");
    assert_eq!(rates.rows[0].ratio, None);
    assert_eq!(rates.note, "The text: \"twice as fast\".");
}

#[test]
fn another_order_and_a_tie_are_named() {
    assert!(matches!(
        held(&results([500, 510, 490])).findings[0].order(),
        Order::Different(_)
    ));
    let found = held(&results([900, 1000, 1130]));
    assert_eq!(found.findings[0].order(), Order::TooClose);
}

#[test]
fn memory_is_the_difference_in_free() {
    let found = held(&results([1500, 1510, 1490]));
    let memory = &found.findings[1];
    assert_eq!((memory.unit.as_str(), memory.more_is_better), ("MB", false));
    assert!((memory.rows[2].now.unwrap().value - 60.0).abs() < 1e-9);
    assert_eq!(memory.order(), Order::Same);
    assert_eq!(found.findings.len(), 2);
}

#[test]
fn what_could_not_be_measured_says_why_in_its_row() {
    let mut results = results([1500, 1510, 1490]);
    results.stacks.pop();
    results.missing.push(Missing {
        id: "nginx+thin".to_owned(),
        reason: "nginx is not there".to_owned(),
        ..Missing::default()
    });
    let found = held(&results);
    let row = &found.findings[0].rows[2];
    assert_eq!(row.now, None);
    assert_eq!(
        row.stand_in.as_deref(),
        Some("Thin for another. Not measured: nginx is not there.")
    );
    assert_eq!(found.findings[0].order(), Order::Unknown);
}

#[test]
fn a_run_with_a_stack_that_was_replaced_since_keeps_its_figures_and_says_so() {
    let mut study = small();
    for one in &mut study.participants {
        let earlier = Earlier {
            stack: one.stack.clone(),
            difference: format!("It was {} in this run.", one.stack),
        };
        one.earlier = Some(earlier);
        one.stack = format!("{}-2", one.stack);
    }
    let mut results = results([1500, 1510, 1490]);
    let of = |results: &Results| then_and_now(&study, &study.applications[0], results);
    let rates = &of(&results).findings[0];
    let cluster = &rates.rows[2];
    assert_eq!(cluster.stack.as_deref(), Some("nginx+thin"));
    assert_eq!(
        cluster.stand_in.as_deref(),
        Some("Thin for another. It was nginx+thin in this run.")
    );
    assert!(cluster.ratio.is_some() && rates.rows[0].now.is_some());
    assert_eq!(rates.order(), Order::Same);

    // Where today's stack could not be measured, another stack is no substitute.
    results.missing.push(Missing {
        id: "nginx+thin-2".to_owned(),
        reason: "nginx is not there".to_owned(),
        ..Missing::default()
    });
    let cluster = &of(&results).findings[0].rows[2];
    assert_eq!(
        (cluster.now, cluster.stand_in.as_deref()),
        (
            None,
            Some("Thin for another. Not measured: nginx is not there.")
        )
    );
}

#[test]
fn results_limited_by_the_generator_are_not_compared() {
    let mut results = results([1500, 1510, 1490]);
    for trial in &mut results.trials {
        if trial.stack == "nginx+thin" {
            trial.limit = results::Limit::Client;
        }
    }
    for finding in held(&results).findings {
        let limited = &finding.rows[2];
        assert!(limited.set_aside && limited.now.is_some(), "{limited:?}");
        assert_eq!((limited.ratio, finding.ratios(limited).1), (None, None));
        assert_eq!(finding.order(), Order::Unknown);
    }
}

#[test]
fn a_study_of_rates_is_compared_by_the_most_replies() {
    let search = |stack: &str, round, most| results::Peak {
        stack: stack.to_owned(),
        round,
        last_good: 60.0,
        first_bad: Some(62.0),
        steps: vec![results::Step {
            rate: 200.0,
            achieved: most,
            ..results::Step::default()
        }],
        finished: true,
        ..results::Peak::default()
    };
    let mut study = small();
    let figures = study
        .figures
        .iter_mut()
        .filter(|figures| figures.load == "ab");
    figures.for_each(|figures| "series".clone_into(&mut figures.load));
    let mut results = results([1500, 1510, 1490]);
    for round in 1..=3 {
        results.peaks.push(search("thin", round, 80.0));
        results.peaks.push(search("nginx+thin", round, 120.0));
    }
    let found = then_and_now(&study, &study.applications[0], &results);
    let rates = found
        .findings
        .iter()
        .find(|finding| finding.title.contains("largest reply rate"))
        .unwrap();
    let now = |row: usize| rates.rows[row].now.map(|now| now.value.round());
    assert_eq!((now(0), now(2)), (Some(80.0), Some(120.0)));
    let held = "Largest rate held: Thin 60.0, nginx before Thins 60.0.";
    assert!(rates.note.contains(held), "{}", rates.note);
}

#[test]
fn memory_that_differs_by_less_than_two_percent_is_a_tie_and_one_round_is_none() {
    let memory = |other: i64, rounds: usize| {
        let mut results = results([1500, 1510, 1490]);
        for trial in &mut results.trials {
            let own = if trial.stack == "thin" { 1000 } else { other };
            trial.memory.free_difference = own * 1_048_576;
        }
        results.trials.retain(|trial| trial.round <= rounds);
        held(&results).findings[1].order()
    };
    assert_eq!(memory(1010, 3), Order::TooClose);
    assert_eq!(memory(1050, 3), Order::Same);
    assert_eq!(memory(1050, 1), Order::TooFewRounds);
}
