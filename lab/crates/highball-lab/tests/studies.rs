//! What the shipped studies hold: that they are whole, agree with themselves, and give the ratios that their texts
//! state; and that those which were run give their reports again. No figure is measured here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use stacks::application::Application;
use stacks::{Catalogue, Deployment};
use studies::{Better, Cell, ELSEWHERE, Measure, Study, Table};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn studies() -> Vec<Study> {
    Study::list_in(&data().join("studies")).expect("every study reads")
}

fn study(id: &str) -> Study {
    let mut studies = studies().into_iter();
    studies.find(|study| study.id == id).expect(id)
}

/// Best first, by the published figures.
fn order_of_finish(study: &Study, application: &str, load: &str, measure: Measure) -> Vec<String> {
    let mut order: Vec<(f64, String)> = study
        .participants
        .iter()
        .filter_map(|one| {
            let figure = study.figure(&one.id, application, load, measure)?;
            Some((figure, one.id.clone()))
        })
        .collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    if measure.better() == Better::Less {
        order.reverse();
    }
    order.into_iter().map(|(_, id)| id).collect()
}

#[test]
fn there_are_five_in_the_order_of_their_years() {
    let ids: Vec<String> = studies().into_iter().map(|study| study.id).collect();
    assert_eq!(
        ids,
        [
            "2006-mongrel-lighttpd-nginx",
            "2008-passenger-mongrel-thin",
            "2008-performance-and-memory",
            "2009-webroar",
            "2014-passenger-unicorn"
        ]
    );
}

#[test]
fn every_study_has_rates_of_every_participant_and_every_figure_its_passage() {
    for study in studies() {
        for one in &study.participants {
            let rate = study.figures.iter().any(|group| {
                group.participant == one.id
                    && group.values.contains_key(&Measure::RequestsPerSecond)
            });
            assert!(rate, "{}: {}", study.id, one.id);
        }
        for group in &study.figures {
            assert!(!group.quote.is_empty());
            assert!(!group.values.is_empty(), "{}: {}", study.id, group.quote);
        }
    }
}

/// The tools computed their fields from each other: a digit that was copied wrongly does not fit the others.
#[test]
fn figures_of_one_passage_agree_with_each_other() {
    for study in studies() {
        for group in &study.figures {
            let close = |name: &str, left: Option<f64>, right: Option<f64>, within: f64| {
                if let (Some(left), Some(right)) = (left, right) {
                    assert!(
                        (left / right - 1.0).abs() < within,
                        "{}, {:?}: {name}: {left} and {right}",
                        study.id,
                        group.quote
                    );
                }
            };
            let value = |measure| group.values.get(&measure).copied();
            let rate = value(Measure::RequestsPerSecond);
            let taken = value(Measure::TimeTakenS);
            // The list of 2006 leaves out what its command gives: -c 100 -n 10000.
            let of_2006 = study.year == 2006;
            let requests = if of_2006 {
                Some(10_000.0)
            } else {
                value(Measure::CompleteRequests)
            };
            let computed = requests.zip(taken).map(|(count, taken)| count / taken);
            close("rate", rate, computed, 0.001);
            let across = rate.map(|rate| 1000.0 / rate);
            close(
                "time across",
                value(Measure::TimePerRequestAcrossMs),
                across,
                0.001,
            );
            let level = if of_2006 {
                Some(100.0)
            } else {
                value(Measure::ConcurrencyLevel)
            };
            let mean = level.zip(rate).map(|(level, rate)| 1000.0 * level / rate);
            close("time", value(Measure::TimePerRequestMs), mean, 0.001);
            let transfer = value(Measure::TotalTransferredBytes)
                .zip(taken)
                .map(|(bytes, taken)| bytes / 1024.0 / taken);
            close("transfer", value(Measure::TransferKbPerS), transfer, 0.001);
            let read = value(Measure::ReadMb).zip(taken);
            let read = read.map(|(read, taken)| read / taken);
            close("read", value(Measure::TransferMbPerS), read, 0.001);
            // wrk ran two threads.
            let threads = value(Measure::ThreadRequestsPerSecond).map(|rate| 2.0 * rate);
            close("threads", rate, threads, 0.05);
            let spawners = value(Measure::MemoryWithSpawnersMb)
                .zip(value(Measure::MemoryWithoutSpawnersMb))
                .map(|(with, without)| (with + without) / 2.0);
            close("memory", value(Measure::MemoryMb), spawners, 0.0001);
        }
    }
}

#[test]
fn ratios_are_those_that_the_texts_state() {
    let mut recomputed = 0;
    for study in studies() {
        for claim in &study.claims {
            let Some(against) = &claim.against else {
                continue;
            };
            let figure = |participant: &str| {
                study
                    .figure(participant, &claim.application, &claim.load, claim.measure)
                    .unwrap()
            };
            let ratio = figure(&claim.participant) / figure(against);
            let [low, high] = claim.ratio;
            // A text rounds, or cuts, to whole hundredths.
            assert!(
                ratio > low - 0.005 && ratio < high + 0.01,
                "{}: {ratio} for {:?}",
                study.id,
                claim.quote
            );
            recomputed += 1;
        }
    }
    assert_eq!(recomputed, 5);
}

#[test]
fn orders_of_finish_are_those_of_the_texts() {
    let check = |id: &str, application: &str, load: &str, measure: Measure, expect: &str| {
        let order = order_of_finish(&study(id), application, load, measure);
        assert_eq!(order.join(" "), expect, "{id}");
    };
    let rate = Measure::RequestsPerSecond;
    check(
        "2006-mongrel-lighttpd-nginx",
        "project",
        "ab-100",
        rate,
        "nginx-mongrel lighttpd-mongrel mongrel pen-mongrel webrick",
    );
    let passenger = "2008-passenger-mongrel-thin";
    check(passenger, "typo", "ab-100", rate, "passenger thin mongrel");
    check(
        passenger,
        "petstore",
        "ab-100",
        rate,
        "thin passenger mongrel",
    );
    check(
        passenger,
        "eldorado",
        "ab-100",
        rate,
        "mongrel thin passenger",
    );
    let memory = "2008-performance-and-memory";
    check(
        memory,
        "typo",
        "ab-12",
        rate,
        "passenger-ree litespeed nginx-thin passenger-worker passenger-prefork nginx-mongrel",
    );
    check(
        memory,
        "typo",
        "ab-12",
        Measure::MemoryMb,
        "passenger-ree nginx-mongrel nginx-thin passenger-worker passenger-prefork litespeed",
    );
    let webroar = "2009-webroar";
    check(
        webroar,
        "instiki",
        "httperf",
        rate,
        "webroar thin mongrel passenger",
    );
    check(
        webroar,
        "instiki",
        "httperf",
        Measure::MemoryMb,
        "passenger thin webroar mongrel",
    );
    for load in ["wrk-100", "wrk-50"] {
        check(
            "2014-passenger-unicorn",
            "list",
            load,
            rate,
            "passenger unicorn",
        );
    }
}

fn number(table: &Table, row: usize, column: usize) -> f64 {
    match &table.rows[row][column] {
        Cell::Number(number) => *number,
        Cell::Text(text) => panic!("{}: {text} is no number", table.title),
    }
}

#[test]
fn memory_of_2008_follows_from_its_tables() {
    let study = study("2008-performance-and-memory");
    for one in &study.participants {
        let free: Vec<f64> = study
            .tables
            .iter()
            .filter(|table| {
                table.participant.as_ref() == Some(&one.id) && table.title.ends_with("(free -m)")
            })
            // Used memory less buffers and cache.
            .map(|table| number(table, 1, 2))
            .collect();
        let stopped = free.last().unwrap();
        let figure = |measure| study.figure(&one.id, "typo", "ab-12", measure);
        let with = figure(Measure::MemoryWithSpawnersMb).or(figure(Measure::MemoryMb));
        // The text took LiteSpeed's from the line above, which is 3 MB off for its cache.
        assert!(
            (free[0] - stopped - with.unwrap()).abs() <= 3.0,
            "{}",
            one.id
        );
        if let Some(without) = figure(Measure::MemoryWithoutSpawnersMb) {
            assert!((free[1] - stopped - without).abs() <= 1.0, "{}", one.id);
        }
    }
}

#[test]
fn private_dirty_memory_of_2008_is_the_sum_of_its_processes() {
    let study = study("2008-performance-and-memory");
    let mut summed = 0;
    for table in &study.tables {
        let (count, sum) = match &table.title {
            title if title.ends_with("Apache processes") => {
                (Measure::WebProcesses, Measure::PrivateDirtyWebMb)
            }
            title if title.ends_with("Passenger processes") => (
                Measure::ApplicationProcesses,
                Measure::PrivateDirtyApplicationMb,
            ),
            _ => continue,
        };
        let participant = table.participant.as_deref().unwrap();
        let figure = |measure| study.figure(participant, "typo", "ab-12", measure).unwrap();
        let private = table.columns.iter().position(|head| head == "Private (MB)");
        let rows = table.rows.len();
        let total: f64 = (0..rows)
            .map(|row| number(table, row, private.unwrap()))
            .sum();
        assert_eq!(rows as f64, figure(count), "{}", table.title);
        // Each row is rounded to a tenth.
        assert!(
            (total - figure(sum)).abs() < 0.05 * rows as f64 + 0.01,
            "{}",
            table.title
        );
        summed += 1;
    }
    assert_eq!(summed, 6);
}

#[test]
fn the_overall_table_of_2008_repeats_the_figures() {
    let study = study("2008-performance-and-memory");
    let overall = study.tables.last().unwrap();
    assert_eq!(overall.rows.len(), study.participants.len());
    for (row, one) in study.participants.iter().enumerate() {
        let figure = |measure| study.figure(&one.id, "typo", "ab-12", measure).unwrap();
        assert_eq!(overall.rows[row][0], Cell::Text(one.name.clone()));
        assert_eq!(number(overall, row, 1), figure(Measure::RequestsPerSecond));
        assert_eq!(number(overall, row, 2), figure(Measure::MemoryMb));
    }
}

#[test]
fn everything_of_today_is_there() {
    let catalogue = Catalogue::load_from(&data(), &[]).unwrap();
    for study in studies() {
        for application in &study.applications {
            Application::open(data().join("apps").join(&application.today.app)).unwrap();
        }
        for one in &study.participants {
            let stack = catalogue.get(&one.stack).unwrap();
            assert_eq!(stack.is_external(), one.stack == ELSEWHERE, "{}", one.name);
            if let Some(earlier) = &one.earlier {
                catalogue.get(&earlier.stack).unwrap();
            }
        }
    }
}

/// The event MPM is the heir of the worker MPM: a row that has it says so.
#[test]
fn apache_has_the_mpm_of_the_text_in_every_row() {
    let catalogue = Catalogue::load_from(&data(), &[]).unwrap();
    let deployment = Deployment {
        app: PathBuf::from("/app"),
        highball: PathBuf::from("/highball"),
        scratch: PathBuf::from("/scratch"),
        workers: 2,
        threads: 1,
        environment: BTreeMap::new(),
        path: "/".to_owned(),
        boot_timeout: Duration::from_secs(1),
        cores: Vec::new(),
    };
    let mut rows = Vec::new();
    for study in studies() {
        for one in &study.participants {
            let stack = catalogue.get(&one.stack).unwrap().describe(&deployment);
            let Some((_, configuration)) =
                stack.files.iter().find(|(name, _)| name == "apache.conf")
            else {
                continue;
            };
            let has = |mpm: &str| configuration.contains(&format!("LoadModule mpm_{mpm}_module"));
            assert!(has("prefork") != has("event"), "{}", one.stack);
            if has("event") {
                let why = one.stand_in.as_deref().unwrap();
                assert!(why.contains("worker MPM"), "{}: {why}", one.name);
                assert!(one.name.contains("worker MPM"), "{}", one.name);
            }
            rows.push(one.name.clone());
        }
    }
    assert_eq!(rows.len(), 9, "{rows:?}");
}

#[test]
fn a_stack_in_two_rows_has_as_many_workers_in_both() {
    for study in studies() {
        for one in &study.participants {
            let same = study
                .participants
                .iter()
                .filter(|other| other.stack == one.stack);
            assert!(
                same.clone().all(|other| other.workers == one.workers),
                "{}: {}",
                study.id,
                one.stack
            );
            assert!(
                same.count() == 1 || one.stand_in.is_some(),
                "{}: why {} stands there twice",
                study.id,
                one.stack
            );
        }
    }
}

/// The reports of the studies that were run, from the data that is kept of them: what a report learns reaches them too.
#[test]
fn every_study_that_was_run_gives_its_report_again() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/studies");
    for study in studies() {
        let folder = tempfile::tempdir().unwrap();
        let applications = study.applications.iter().map(|one| one.id.as_str());
        let mut places: Vec<&str> = applications.collect();
        if let [only] = &mut places[..] {
            *only = "";
        }
        places.retain(|place| {
            kept.join(&study.id)
                .join(place)
                .join("results.json")
                .is_file()
        });
        assert!(!places.is_empty(), "{}", study.id);
        for place in &places {
            let into = folder.path().join(place);
            fs::create_dir_all(&into).unwrap();
            let results = kept.join(&study.id).join(place).join("results.json");
            fs::copy(results, into.join("results.json")).unwrap();
        }
        let output = Command::new(test_support::lab_binary())
            .args(["study", &study.id, "--report"])
            .arg(folder.path())
            .env("HIGHBALL_LAB", data())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", study.id);
        for place in places {
            let report = fs::read_to_string(folder.path().join(place).join("report.html")).unwrap();
            assert!(report.contains("Then and now: "), "{} {place}", study.id);
        }
    }
}

#[test]
fn a_closed_pipe_is_no_error_for_the_list() {
    for list in ["study", "stacks"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(test_support::lab_binary())
            .arg(list)
            .env("HIGHBALL_LAB", data())
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .and_then(|child| child.wait_with_output())
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{list}: {said}");
    }
}
