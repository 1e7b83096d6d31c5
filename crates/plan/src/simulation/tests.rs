//! The simulation beside queues whose figures are known exactly, and beside Allen and Cunneen's approximation.

use super::*;
use crate::recording::{RecordedRoute, Recording};
use crate::times::Times;

const REQUESTS: usize = 300_000;

fn constant(seconds: f64) -> Times {
    two(seconds, seconds, 0.0)
}

/// Mostly the one time, and the other one with this share.
fn two(usual_s: f64, other_s: f64, share: f64) -> Times {
    let other = (share * 1e6) as u64;
    Times {
        sum_s: usual_s * (1_000_000 - other) as f64 + other_s * other as f64,
        ranges: vec![
            (usual_s, usual_s, 1_000_000 - other),
            (other_s, other_s, other),
        ],
    }
}

/// Exponential times, as ranges of the same probability.
fn exponential(mean_s: f64) -> Times {
    let parts = 4_000;
    let bound = |at: i32| -mean_s * (1.0 - f64::from(at) / f64::from(parts)).ln();
    let mut ranges: Vec<_> = (0..parts - 1)
        .map(|at| (bound(at), bound(at + 1), 250))
        .collect();
    // The mean of what is above the last bound is a mean more.
    ranges.push((bound(parts - 1), bound(parts - 1) + 2.0 * mean_s, 250));
    Times {
        sum_s: mean_s * 1e6,
        ranges,
    }
}

fn workload(cpu: Times, wait: Times) -> Workload {
    let route = RecordedRoute {
        cpu,
        wait,
        ..RecordedRoute::default()
    };
    let recording = Recording {
        routes: vec![route],
        ..Recording::default()
    };
    Workload::of(&recording).expect("requests")
}

fn setup(workers: u16, threads: u16, cores: u16) -> Setup {
    Setup {
        workers,
        threads,
        cores: f64::from(cores),
    }
}

fn times(workload: &Workload, setup: Setup, rate: f64) -> Percentiles {
    let forecast = simulate(workload, setup, rate, REQUESTS, 7);
    forecast.percentiles.expect("no overload")
}

#[track_caller]
fn is_near(found: f64, expected: f64, within: f64) {
    let off = found / expected - 1.0;
    assert!(off.abs() < within, "{found} is not {expected}: {off:+.3}");
}

/// Erlang's C: the probability that a request waits for one of `servers`; `load` is how many are busy in the mean.
fn erlang_c(servers: u16, load: f64) -> f64 {
    // Erlang's B, by its recursion.
    let blocked = (1..=servers).fold(1.0, |blocked, server| {
        load * blocked / (f64::from(server) + load * blocked)
    });
    let use_ = load / f64::from(servers);
    blocked / (1.0 - use_ * (1.0 - blocked))
}

#[test]
fn erlangs_c_has_its_known_values() {
    is_near(erlang_c(1, 0.7), 0.7, 1e-9);
    is_near(erlang_c(2, 1.0), 1.0 / 3.0, 1e-9);
}

#[test]
fn one_thread_is_the_queue_m_m_1() {
    let found = times(
        &workload(exponential(0.01), constant(0.0)),
        setup(1, 1, 1),
        70.0,
    );
    is_near(found.mean_s, 1.0 / 30.0, 0.04);
    is_near(found.p50_s, 2.0_f64.ln() / 30.0, 0.04);
    is_near(found.p99_s, 100.0_f64.ln() / 30.0, 0.06);
    // The queue's time is above t with the probability 0.7 e^-30t.
    is_near(found.queue_p95_s, (0.7_f64 / 0.05).ln() / 30.0, 0.05);
}

#[test]
fn workers_with_cores_of_their_own_are_the_queue_m_m_c() {
    let load = workload(exponential(0.04), constant(0.0));
    let found = times(&load, setup(4, 1, 4), 80.0);
    is_near(found.mean_queue_s, erlang_c(4, 3.2) / (100.0 - 80.0), 0.06);
    let forecast = simulate(&load, setup(4, 1, 4), 80.0, REQUESTS, 7);
    is_near(forecast.busy_cores, 3.2, 0.02);
    is_near(forecast.busy_threads, 0.8, 0.02);
}

#[test]
fn threads_that_wait_are_the_queue_m_m_c() {
    let found = times(
        &workload(constant(0.0), exponential(0.04)),
        setup(1, 4, 1),
        80.0,
    );
    is_near(found.mean_queue_s, erlang_c(4, 3.2) / (100.0 - 80.0), 0.06);
}

#[test]
fn requests_of_one_length_are_the_queue_m_d_1() {
    let load = workload(constant(0.01), constant(0.0));
    let expected_queue_s = 0.8 * 0.01 / (2.0 * 0.2);
    let found = times(&load, setup(1, 1, 1), 80.0);
    is_near(found.mean_queue_s, expected_queue_s, 0.04);
    // Threads that wait for the lock in turn make no difference to the whole.
    let found = times(&load, setup(1, 32, 1), 80.0);
    is_near(found.mean_s, 0.01 + expected_queue_s, 0.04);
}

#[test]
fn other_distributions_are_near_allen_and_cunneens_approximation() {
    for (cpu, squared_variation) in [
        (two(0.01, 0.11, 0.1), 2.25),
        (two(0.02, 0.02, 0.0), 0.0),
        (two(0.01, 0.06, 0.5), 0.510_2),
    ] {
        for workers in [2, 4] {
            let servers = f64::from(workers);
            let service_s = workload(cpu.clone(), constant(0.0)).mean_cpu_s();
            let rate = 0.75 * servers / service_s;
            let exact_s = erlang_c(workers, 0.75 * servers) / (servers / service_s - rate);
            let expected_s = exact_s * (1.0 + squared_variation) / 2.0;
            let load = workload(cpu.clone(), constant(0.0));
            let found = times(&load, setup(workers, 1, workers), rate);
            is_near(found.mean_queue_s, expected_s, 0.15);
        }
    }
}

#[test]
fn a_lock_in_short_turns_and_shared_cores_are_processor_sharing() {
    // The mean of processor sharing does not depend on the distribution (Kleinrock): 20 ms at a use of 0.6.
    let load = workload(two(0.01, 0.11, 0.1), constant(0.0));
    let forecast = simulate_with_slice(&load, setup(1, 200, 1), 30.0, 100_000, 7, 0.000_5);
    is_near(
        forecast.percentiles.expect("no overload").mean_s,
        0.02 / 0.4,
        0.05,
    );
    is_near(
        times(&load, setup(200, 1, 1), 30.0).mean_s,
        0.02 / 0.4,
        0.05,
    );
}

#[test]
fn a_long_request_holds_the_lock_for_a_slice_at_most() {
    // Two of a second and many of a millisecond: without slices the short ones would wait for half a second.
    let load = workload(two(0.001, 1.0, 0.002), constant(0.0));
    let found = times(&load, setup(1, 16, 1), 100.0);
    assert!(found.p95_s < 0.35, "{found:?}");
}

#[test]
fn a_load_beyond_the_capacity_has_no_times() {
    let load = workload(constant(0.01), constant(0.02));
    for (setup, rate) in [
        (setup(1, 8, 4), 110.0),
        (setup(8, 8, 1), 110.0),
        (setup(1, 1, 1), 40.0),
    ] {
        let forecast = simulate(&load, setup, rate, REQUESTS, 7);
        assert_eq!(forecast.percentiles, None, "{setup:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let load = workload(exponential(0.01), exponential(0.02));
    let run = |seed| simulate(&load, setup(2, 3, 2), 100.0, 5_000, seed);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
