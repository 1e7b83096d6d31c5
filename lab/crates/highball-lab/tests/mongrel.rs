//! Mongrel's stacks with a program in the place of mongrel_rails: it has its command line, refuses what that refuses,
//! and has Thin serve. So it is shown that the lab finds, starts, asks and stops what it would; Mongrel itself builds
//! on no Ruby of today.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use compare::results::{Results, Trial};
use test_support::Directory;

use run::Lab;

#[allow(dead_code, reason = "another test asks for more")]
#[path = "compare/run.rs"]
mod run;

const HELLO: &str = "run ->(_env) { [200, { 'content-type' => 'text/plain' }, ['Hello World']] }\n";

/// A comparison of these stacks, in which the program is found and notes how it was called.
fn lab(folder: &Directory, stacks: &[&str]) -> Lab {
    folder.write("app/config.ru", HELLO);
    let calls = folder.join("calls");
    let mongrels = stacks.iter().filter(|id| id.starts_with("mongrel"));
    let settings = mongrels.map(|id| {
        format!(
            "[stack.{id}]\nenvironment = {{ MONGREL_CALLS = \"{}\" }}\n",
            calls.display()
        )
    });
    let file = folder.write(
        "LAB.toml",
        format!(
            "app = \"app\"\nstacks = {stacks:?}\nworkers = 2\ntrials = 1\nwarm_up = \"500ms\"\n\
             [[load]]\nconnections = 4\nrequests = 100\n{}",
            settings.collect::<String>()
        ),
    );
    let mut lab = Lab::with(folder, &[file.to_str().unwrap()]);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mongrel");
    let path = std::env::var("PATH").unwrap_or_default();
    lab.env("PATH", &format!("{}:{path}", program.display()));
    lab
}

fn trial<'a>(results: &'a Results, stack: &str) -> &'a Trial {
    let mut trials = results.trials.iter();
    trials.find(|trial| trial.stack == stack).unwrap()
}

/// What follows an option.
fn option<'a>(call: &'a str, name: &str) -> &'a str {
    let mut words = call.split(' ').skip_while(|word| *word != name).skip(1);
    words.next().unwrap()
}

#[test]
fn mongrel_alone_and_as_a_cluster_is_started_asked_and_stopped() {
    let folder = Directory::new();
    folder.write("app/public/robots.txt", "");
    let mut lab = lab(&folder, &["mongrel", "mongrel-cluster", "thin"]);
    let ended = lab.run();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    lab.assert_nothing_is_left();
    let results = compare::read(&lab.output).unwrap();
    for (stack, processes) in [("mongrel", 1), ("mongrel-cluster", 3), ("thin", 1)] {
        let trial = trial(&results, stack);
        assert_eq!(trial.failure, None);
        assert_eq!((trial.outcome.good, trial.left_behind), (100, 0), "{stack}");
        assert_eq!(trial.processes, processes, "{stack}");
    }
    let described = results
        .stacks
        .iter()
        .find(|stack| stack.id == "mongrel")
        .unwrap();
    assert_eq!(described.versions["mongrel_rails"], "1.1.5");
    assert!(
        described.commands[0].ends_with(
            "mongrel_rails start --environment production --address 127.0.0.1 --port MONGREL_PORT --pid RUN/mongrel.pid \
             --log SCRATCH/mongrel.rails.log --chdir APP"
        ),
        "{:?}",
        described.commands
    );

    let calls = fs::read_to_string(folder.join("calls")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    // Each is started for the rehearsal and for its trial; the cluster is two.
    assert_eq!(calls.len(), 6, "{calls:#?}");
    for call in &calls {
        assert!(call.starts_with("start --environment production --address 127.0.0.1 --port "));
        assert!(
            Path::new(option(call, "--chdir")).ends_with("app"),
            "{call}"
        );
    }
    let cluster: Vec<&&str> = calls
        .iter()
        .filter(|call| !option(call, "--pid").ends_with("/mongrel.pid"))
        .collect();
    let distinct =
        |name: &str| -> BTreeSet<&str> { cluster.iter().map(|call| option(call, name)).collect() };
    assert_eq!(
        (distinct("--pid").len(), cluster.len()),
        (4, 4),
        "{calls:#?}"
    );
    assert!(distinct("--port").len() >= 2 && distinct("--log").len() >= 2);
    let config = &results
        .stacks
        .iter()
        .find(|stack| stack.id == "mongrel-cluster")
        .unwrap()
        .files[0];
    assert_eq!(config.0, "haproxy.cfg");
    assert!(
        config
            .1
            .contains("server mongrel1 127.0.0.1:MONGREL_1_PORT"),
        "{config:?}"
    );
}

#[test]
fn refusals_of_mongrel_are_shown() {
    let folder = Directory::new();
    // A Rails application has a folder `public`; this one has none.
    let mut lab = lab(&folder, &["mongrel", "thin"]);
    let ended = lab.run();
    assert_eq!(ended.code, Some(1), "{}", ended.text);
    assert!(
        ended.text.contains("Path to docroot not valid: public"),
        "{}",
        ended.text
    );
    let results = compare::read(&lab.output).unwrap();
    assert_eq!(trial(&results, "thin").failure, None);
    lab.assert_nothing_is_left();
}
