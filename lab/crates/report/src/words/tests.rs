//! The sentences for each possible end of a comparison.

use super::*;
use compare::results::{Load, Stack, Trial};
use compare::verdict::judge;

/// Rates of each stack in each round, under one closed loop.
fn results(stacks: &[(&str, &[f64])]) -> Results {
    let mut results = Results {
        loads: vec![Load {
            id: "closed".into(),
            title: "12 connections".into(),
            ..Load::default()
        }],
        ..Results::default()
    };
    for (id, rates) in stacks {
        results.stacks.push(Stack {
            id: (*id).into(),
            name: capitalised(id),
            ..Stack::default()
        });
        for (index, rate) in rates.iter().enumerate() {
            let mut trial = Trial {
                stack: (*id).into(),
                load: "closed".into(),
                round: index + 1,
                limit: Limit::Server,
                ..Trial::default()
            };
            let count = (rate * 10.0) as u64;
            trial.outcome.elapsed_s = 10.0;
            trial.outcome.demanded = count;
            trial.outcome.completed = count;
            trial.outcome.good = count;
            results.trials.push(trial);
        }
    }
    results
}

/// The first sentence, with plain spaces.
fn lead_of(results: &Results) -> String {
    let Sentence { strong, rest } = answer(results, &judge(results)).swap_remove(0);
    format!("{strong}{rest}").replace('\u{a0}', " ")
}

#[test]
fn a_winner_is_named_with_its_lead_and_how_sure_that_is() {
    let text = lead_of(&results(&[
        ("puma", &[1000.0, 1010.0, 990.0]),
        ("highball", &[1300.0, 1312.0, 1288.0]),
        ("thin", &[400.0, 404.0, 396.0]),
    ]));
    assert_eq!(
        text,
        "Highball answers the most requests: 1,300 requests a second (12 connections), 30 % more than Puma, the next \
         best (95 % interval +30 to +30 %). Last is Thin with 400 requests a second, 69 % fewer than Highball."
    );
}

#[test]
fn a_tie_is_named_with_its_uncertainty() {
    let close = lead_of(&results(&[
        ("puma", &[1000.0, 1010.0, 990.0]),
        ("highball", &[1002.0, 1005.0, 996.0]),
    ]));
    assert!(close.starts_with("Highball and Puma are too close to call by requests per second (12 connections): 1,000 and 1,000"), "{close}");
    assert!(!close.contains("differ too much"), "{close}");
    let noisy = lead_of(&results(&[
        ("puma", &[1000.0, 2000.0, 500.0]),
        ("highball", &[1500.0, 600.0, 2500.0]),
    ]));
    assert!(
        noisy.contains("the trials differ too much among themselves for a verdict"),
        "{noisy}"
    );
}

#[test]
fn a_tie_of_more_than_two_has_no_clear_winner_and_no_list() {
    let text = lead_of(&results(&[
        ("puma", &[1000.0, 1010.0, 990.0]),
        ("unicorn", &[1001.0, 1008.0, 992.0]),
        ("highball", &[1002.0, 1005.0, 996.0]),
    ]));
    assert_eq!(
        text,
        "There is no clear winner by requests per second (12 connections): 3 stacks from Highball (1,000 requests a second) \
         to Puma (1,000 requests a second) are too close to call."
    );
}

#[test]
fn the_reference_is_in_every_sentence_that_ranks() {
    let text = lead_of(&results(&[
        ("thin", &[600.0, 604.0, 596.0]),
        ("puma", &[1000.0, 1010.0, 990.0]),
        ("highball", &[1300.0, 1312.0, 1288.0]),
        ("webrick", &[400.0, 404.0, 396.0]),
    ]));
    assert!(
        text.ends_with("Thin, the reference, has 600 requests a second, 54 % fewer than Highball."),
        "{text}"
    );
}

#[test]
fn disturbed_trials_give_no_verdict_and_name_the_reason() {
    let mut results = results(&[
        ("puma", &[1000.0, 1010.0, 990.0]),
        ("highball", &[1300.0, 1312.0, 1288.0]),
    ]);
    for trial in results.trials.iter_mut().take(3) {
        trial.other_cores = 0.7;
    }
    assert_eq!(
        lead_of(&results),
        "There is no verdict, because other programs disturbed too many trials. In them Highball was ahead with 1,300 \
         requests a second (12 connections). Puma, the reference, has 1,000 requests a second."
    );
}

#[test]
fn two_rounds_are_too_few_for_a_winner() {
    let text = lead_of(&results(&[
        ("puma", &[1000.0, 1010.0]),
        ("highball", &[1300.0, 1312.0]),
    ]));
    assert_eq!(
        text,
        "There are too few rounds for a verdict. In them Highball was ahead with 1,310 requests a second (12 connections). \
         Puma, the reference, has 1,000 requests a second."
    );
}

#[test]
fn an_unranked_stack_with_a_better_figure_is_named() {
    let mut results = results(&[
        ("puma", &[1000.0, 1010.0, 990.0]),
        ("thin", &[400.0, 404.0, 396.0]),
        ("highball", &[9000.0, 9100.0, 8900.0]),
    ]);
    // The generator says so itself, or the rate is what it can take at most.
    for ceiling in [None, Some(9_500.0)] {
        results.loads[0].ceiling = ceiling;
        let trials = results.trials.iter_mut();
        for trial in trials.filter(|trial| trial.stack == "highball") {
            trial.limit = if ceiling.is_none() {
                Limit::Client
            } else {
                Limit::Server
            };
        }
        let text = lead_of(&results);
        assert!(
            text.starts_with("Puma answers the most requests: "),
            "{text}"
        );
        assert!(
            text.ends_with("although the figure looks better: Highball (9,000 requests a second)."),
            "{text}"
        );
        let limits = answer(&results, &judge(&results))
            .pop()
            .expect("what set the limit");
        assert!(
            limits.rest.contains("the load generator in 3"),
            "{limits:?}"
        );
    }
}

#[test]
fn no_stack_ranks_where_all_have_failed() {
    let mut results = results(&[("puma", &[1000.0; 3]), ("thin", &[400.0; 3])]);
    for trial in &mut results.trials {
        trial.outcome.errors.timeout = trial.outcome.demanded / 10;
    }
    assert!(lead_of(&results).starts_with("There is no ranking."));
}

/// With so many requests of each trial that took 10 ms for each place among the stacks.
fn with_latencies(stacks: &[(&str, &[f64])], counts: &[usize]) -> Results {
    let mut results = results(stacks);
    for trial in &mut results.trials {
        let place = results.stacks.iter().position(|of| of.id == trial.stack);
        let place = place.expect("a stack of the trial");
        let latency = std::time::Duration::from_millis(10 * (place as u64 + 1));
        (0..counts[place]).for_each(|_| trial.outcome.latency.record(latency));
    }
    results
}

/// The sentence that begins so, with plain spaces.
fn sentence(results: &Results, strong: &str) -> String {
    let sentences = answer(results, &judge(results));
    let found = sentences
        .into_iter()
        .find(|sentence| sentence.strong.starts_with(strong));
    found.expect("such a sentence").rest.replace('\u{a0}', " ")
}

#[test]
fn a_stack_without_a_figure_is_named_and_none_is_best_of_all() {
    let stacks: [(&str, &[f64]); 3] = [
        ("thin", &[90.0; 3]),
        ("highball", &[1000.0, 1001.0, 999.0]),
        ("puma", &[500.0, 501.0, 499.0]),
    ];
    let text = sentence(&with_latencies(&stacks, &[10, 2000, 2000]), "p99");
    assert!(
        text.starts_with(" Highball is best of those with a figure with 20"),
        "{text}"
    );
    assert!(
        text.contains(" Puma, the next best of those with a figure"),
        "{text}"
    );
    assert!(
        text.ends_with(" There is no figure of Thin, which answered too few requests for one."),
        "{text}"
    );
    let text = sentence(&with_latencies(&stacks, &[2000; 3]), "p99");
    assert!(text.starts_with(" Thin is best with 10"), "{text}");
    assert!(!text.contains("figure"), "{text}");
}

#[test]
fn a_stack_alone_is_not_held_against_others() {
    let alone = with_latencies(&[("thin", &[200.0; 3])], &[2000]);
    assert_eq!(sentence(&alone, "p99"), " Thin 10.0 ms.");
    let both = with_latencies(&[("thin", &[200.0; 3]), ("puma", &[200.0; 3])], &[2000, 10]);
    assert_eq!(
        sentence(&both, "p99"),
        " Thin 10.0 ms. There is no figure of Puma, which answered too few requests for one."
    );
}

#[test]
fn the_mean_and_p95_replace_a_p99_of_too_few_requests() {
    let stacks: [(&str, &[f64]); 2] = [("thin", &[90.0; 3]), ("puma", &[500.0; 3])];
    let results = with_latencies(&stacks, &[100, 2000]);
    let strong: Vec<String> = answer(&results, &judge(&results))
        .into_iter()
        .map(|sentence| sentence.strong)
        .collect();
    assert!(strong.contains(&"p95 latency:".to_owned()), "{strong:?}");
    assert!(strong.contains(&"Mean latency:".to_owned()), "{strong:?}");
    assert!(!strong.contains(&"p99 latency:".to_owned()), "{strong:?}");
}

#[test]
fn a_faster_median_with_a_longer_tail_is_named() {
    let stacks: [(&str, &[f64]); 2] = [("puma", &[500.0; 3]), ("highball", &[500.0; 3])];
    let mut results = results(&stacks);
    for trial in &mut results.trials {
        let (median, slowest) = match trial.stack.as_str() {
            "puma" => (20, 100),
            _ => (10, 200),
        };
        for index in 0..1000 {
            let milliseconds = if index < 900 { median } else { slowest };
            let time = std::time::Duration::from_millis(milliseconds);
            trial.outcome.latency.record(time);
        }
    }
    assert_eq!(
        sentence(&results, "Faster median, longer tail:"),
        " Highball compared with Puma, median latency 50 % lower and p99 latency 2.00 times."
    );
}
