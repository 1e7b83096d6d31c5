//! `highball compare` as a whole, with real servers and short loads: what it writes, how it is stopped and gone on
//! with, and what it says when something is wrong. No figure is asserted: the machine may be busy with anything.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::fs;
use std::path::{Path, PathBuf};

use compare::results::{Results, Trial};
use rustix::process::Signal;
use test_support::Directory;

use run::{Lab, trials_in};

#[allow(dead_code, reason = "another test asks for more")]
#[path = "compare/run.rs"]
mod run;

const HELLO: &str = "run ->(_env) { [200, { 'content-type' => 'text/plain' }, ['Hello World']] }\n";

/// A folder with an application that says hello.
fn hello() -> Directory {
    let folder = Directory::new();
    folder.write("app/config.ru", HELLO);
    folder
}

fn results(folder: &Path) -> Results {
    compare::read(folder).unwrap()
}

/// Stack and round of every trial, sorted.
fn measured(results: &Results) -> Vec<(&str, usize)> {
    let mut measured: Vec<_> = results
        .trials
        .iter()
        .map(|trial| (trial.stack.as_str(), trial.round))
        .collect();
    measured.sort_unstable();
    measured
}

fn failed(results: &Results) -> Vec<&Trial> {
    results
        .trials
        .iter()
        .filter(|trial| trial.failure.is_some())
        .collect()
}

/// A stack of one process, `sh` with this script; `{{ port }}` is where it is to listen.
fn stack(folder: &Directory, id: &str, script: &str, more: &str) -> PathBuf {
    let text = format!(
        "id = \"{id}\"\nname = \"{id}\"\nabout = \"A shell.\"\n\n[[program]]\nname = \"sh\"\ninstall = \"none\"\n\n\
         [[process]]\nname = \"server\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n{more}\n"
    );
    folder.write(&format!("{id}.toml"), text)
}

/// The part of a script that makes a FIFO and says on it that it runs.
fn say_up(fifo: &Path) -> String {
    let fifo = fifo.display();
    format!("mkfifo {fifo}; echo up > {fifo}")
}

/// Waits until [`say_up`] runs. Opening the FIFO waits for the other side.
#[track_caller]
fn wait_up(fifo: &Path) {
    while !fifo.exists() {
        std::thread::yield_now();
    }
    let said = fs::read_to_string(fifo).expect("it can be read");
    assert_eq!(said, "up\n");
}

/// A comparison of a stack that boots for ten minutes, while it does.
fn booting(folder: &Directory) -> Lab {
    let fifo = folder.join("booting");
    let script = format!("{}; exec sleep 600", say_up(&fifo));
    let file = stack(folder, "slow", &script, "");
    let file = file.to_str().expect("in UTF-8");
    let mut lab = Lab::new(folder, &["--stacks", "slow", "--stack-file", file]);
    lab.start();
    lab.wait_for("comparing slow");
    wait_up(&fifo);
    lab
}

#[test]
fn a_comparison_writes_everything_and_prints_the_answer() {
    let folder = hello();
    let mut lab = Lab::new(
        &folder,
        &["--stacks", "thin,highball,puma-cluster", "--trials", "1"],
    );
    let ended = lab.run();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    let results = results(&lab.output);
    assert_eq!(
        measured(&results),
        [("highball", 1), ("puma-cluster", 1), ("thin", 1)]
    );
    assert_eq!(failed(&results), Vec::<&Trial>::new());
    assert!(results.quick && results.finished.is_some());
    assert_eq!(
        results
            .stacks
            .iter()
            .map(|stack| stack.id.as_str())
            .collect::<Vec<_>>(),
        ["thin", "highball", "puma-cluster"]
    );
    for trial in &results.trials {
        let name = &trial.stack;
        assert!(trial.outcome.good > 0 && trial.boot_s > 0.0, "{name}");
        assert_eq!(trial.outcome.errors.total(), 0, "{name}");
        assert_eq!(trial.left_behind, 0, "{name}");
        assert!(trial.cpu_s > 0.0 && trial.processes > 0, "{name}");
        let memory = &trial.memory;
        assert!(
            memory.idle.pss > 1_000_000 && memory.after.pss > 1_000_000,
            "{name}"
        );
        assert!(
            memory.idle.rss >= memory.idle.pss && memory.idle.private_dirty > 0,
            "{name}"
        );
        assert!(!memory.under_load.is_empty(), "{name}");
        // Its raw data is the same, in a file of its own.
        let file = lab
            .output
            .join(format!("trials/{:03}-{name}-c12.json", trial.position));
        let raw: Trial = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(raw, *trial);
    }
    for file in ["report.html", "results.csv", "LAB.toml"] {
        assert!(lab.output.join(file).is_file(), "{file}");
    }
    for name in ["Thin", "Highball", "Puma"] {
        assert!(ended.stdout.contains(name), "{}", ended.stdout);
    }
    assert!(!lab.output.join("work/trials").exists());
    lab.assert_nothing_is_left();
    reports_come_again(&folder, &lab.output, &ended.stdout);
}

/// From what was found alone: nothing is started, and another comparison in the same place is refused.
fn reports_come_again(folder: &Directory, output: &Path, answer: &str) {
    let read = |name: &str| fs::read_to_string(output.join(name)).unwrap();
    let reports = ["report.html", "results.csv"].map(|name| (name, read(name)));
    for (name, _) in &reports {
        fs::remove_file(output.join(name)).unwrap();
    }
    let ended = Lab::with(folder, &["--report", output.to_str().unwrap()]).run();
    assert_eq!((ended.code, ended.text.as_str()), (Some(0), ""));
    assert_eq!(ended.stdout, answer);
    let [(page, html), (table, figures)] = reports;
    assert_eq!(read(page), html);
    let figures_now = read(table);
    assert_eq!(figures_now.lines().count(), figures.lines().count());
    for (now, before) in figures_now.lines().zip(figures.lines()) {
        let ((name, now), (name_before, before)) = (
            now.rsplit_once(',').unwrap(),
            before.rsplit_once(',').unwrap(),
        );
        assert_eq!(name, name_before);
        // What was read from JSON may differ in the last of sixteen digits.
        if let (Ok(now), Ok(before)) = (now.parse::<f64>(), before.parse::<f64>()) {
            assert!((now - before).abs() <= before.abs() * 1e-12, "{name}");
        } else {
            assert_eq!(now, before, "{name}");
        }
    }
    let ended = Lab::with(folder, &["--app", "app", "--stacks", "thin"]).run();
    assert_eq!(ended.code, Some(1));
    let hint = format!(
        "write its reports again with `highball compare --report {}`",
        output.display()
    );
    assert!(ended.text.contains(&hint), "{}", ended.text);
}

#[test]
fn a_page_that_differs_each_time_is_compared_by_status_and_length_and_the_report_says_so() {
    let folder = Directory::new();
    folder.write(
        "app/config.ru",
        "require 'securerandom'\nrun(lambda do |env|\n  page = env['PATH_INFO'] == '/same' ? 'x' * 37 : \
         \"token: #{SecureRandom.hex(15)}\"\n  [200, { 'content-type' => 'text/plain' }, [page]]\nend)\n",
    );
    let mut lab = Lab::new(&folder, &["--stacks", "thin,puma", "--trials", "1"]);
    let ended = lab.run();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    let found = results(&lab.output);
    assert_eq!(measured(&found), [("puma", 1), ("thin", 1)]);
    let page = &found.varying[0];
    assert_eq!((page.name.as_str(), page.length), ("GET /", true));
    assert_eq!(page.stacks, ["thin", "puma"]);
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    let expected = "GET / had two different bodies under Thin and Puma with one process";
    assert!(words.join(" ").contains(expected), "{}", ended.stdout);
    let mut lab = Lab::new(
        &folder,
        &["--stacks", "thin", "--trials", "1", "--page", "/same"],
    );
    fs::remove_dir_all(&lab.output).unwrap();
    assert_eq!(lab.run().code, Some(0));
    assert_eq!(results(&lab.output).varying, []);
}

#[test]
fn a_missing_stack_is_reported_and_the_others_run() {
    let folder = hello();
    let file = stack(&folder, "absent", "true", "");
    let text = fs::read_to_string(&file).unwrap();
    let text = text
        .replace("name = \"sh\"\n", "name = \"no_such_program\"\n")
        .replace("\"none\"", "\"apt-get install it\"");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let mut lab = Lab::new(
        &folder,
        &[
            "--stacks",
            "absent,thin",
            "--trials",
            "1",
            "--stack-file",
            file,
        ],
    );
    let ended = lab.run();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    let expected =
        "absent is not installed: no_such_program is not there; `apt-get install it` installs it";
    assert!(ended.text.contains(expected), "{}", ended.text);
    let results = results(&lab.output);
    assert_eq!(measured(&results), [("thin", 1)]);
    assert_eq!(results.missing[0].id, "absent");
}

#[test]
fn the_largest_rate_is_searched_on_fresh_servers() {
    let folder = hello();
    let file = folder.write(
        "LAB.toml",
        "app = \"app\"\nstacks = [\"thin\"]\ntrials = 1\nduration = \"3s\"\nwarm_up = \"1s\"\nworkers = 1\n\
         [find_peak]\nprecision = 0.5\np99 = \"10s\"\n",
    );
    let mut lab = Lab::with(&folder, &[file.to_str().unwrap()]);
    let ended = lab.run();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    let results = results(&lab.output);
    assert!(results.trials.is_empty());
    let peak = &results.peaks[0];
    assert!(peak.finished && peak.failure.is_none() && peak.unloaded_ms.is_some());
    assert_eq!(peak.criterion, "p99 within 10000 ms");
    let overload = usize::from(peak.overload.is_some());
    let unloaded = 1;
    assert_eq!(
        trials_in(&lab.output).len(),
        unloaded + peak.steps.len() + overload
    );
    assert_eq!(peak.start, peak.steps[0].rate);
    let held = peak
        .steps
        .iter()
        .filter(|step| step.why.is_none())
        .map(|step| step.rate);
    assert_eq!(peak.last_good, held.fold(0.0, f64::max));
    lab.assert_nothing_is_left();
}

#[test]
fn a_server_that_dies_at_a_rate_keeps_the_rates_that_it_held() {
    let folder = Directory::new();
    // At most 50 requests a second, and the end with the 220th: within a load of 3 s only where that has many.
    folder.write(
        "app/config.ru",
        "left = 220\nrun(lambda do |_env|\n  sleep 0.02\n  left -= 1\n  exit!(3) if left.zero?\n  \
         [200, { 'content-type' => 'text/plain' }, ['Hello World']]\nend)\n",
    );
    let file = folder.write(
        "LAB.toml",
        "app = \"app\"\nstacks = [\"thin\"]\ntrials = 1\nduration = \"3s\"\nwarm_up = \"2s\"\nworkers = 1\n\
         [find_peak]\nprecision = 0.5\np99 = \"10s\"\n",
    );
    let mut lab = Lab::with(&folder, &[file.to_str().unwrap()]);
    let ended = lab.run();
    let results = results(&lab.output);
    let peak = &results.peaks[0];
    assert!(peak.finished && peak.failure.is_none(), "{}", ended.text);
    assert!(peak.last_good > 0.0, "{}", ended.text);
    let died = peak.steps.iter().find(|step| step.died);
    let why = died.and_then(|step| step.why.as_deref());
    let why = why.unwrap_or_else(|| panic!("none died: {}", ended.text));
    assert!(why.contains("exit status: 3"), "{why}");
    lab.assert_nothing_is_left();
}

#[test]
fn a_comparison_that_was_stopped_goes_on_where_it_was() {
    let folder = hello();
    let mut lab = Lab::new(&folder, &["--stacks", "thin,puma", "--trials", "2"]);
    lab.start();
    lab.wait_for("[1/4");
    lab.signal(Signal::INT);
    let ended = lab.end();
    assert_eq!(ended.code, Some(130), "{}", ended.text);
    let resume = format!(
        "Resume with `highball compare --resume {}`",
        lab.output.display()
    );
    assert!(ended.text.contains(&resume), "{}", ended.text);
    lab.assert_nothing_is_left();
    let before = results(&lab.output);
    assert_eq!(before.finished, None);
    // One, or as many as it ended before it heard of the signal.
    let kept = before.trials.len();
    assert!((1..4).contains(&kept), "{kept} trials");

    let output = lab.output.to_str().unwrap();
    let other = Lab::with(&folder, &["--resume", output, "--trials", "3"]).run();
    assert_eq!(other.code, Some(1));
    assert!(
        other.text.contains("trials is 2 there and 3 here"),
        "{}",
        other.text
    );

    let mut again = Lab::with(&folder, &["--resume", output]);
    let ended = again.run();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    let after = results(&lab.output);
    assert_eq!(
        measured(&after),
        [("puma", 1), ("puma", 2), ("thin", 1), ("thin", 2)]
    );
    assert_eq!(after.trials[..kept], before.trials[..]);
    assert!(after.finished.is_some());
}

#[test]
fn a_comparison_that_is_stopped_waits_for_no_boot() {
    let folder = hello();
    let mut lab = booting(&folder);
    lab.signal(Signal::INT);
    let ended = lab.end();
    assert_eq!(ended.code, Some(130), "{}", ended.text);
    lab.assert_nothing_is_left();
}

#[test]
fn commands_that_make_an_application_ready_end_with_the_lab() {
    let folder = hello();
    let (working, done) = (folder.join("working"), folder.join("done"));
    let command = format!(
        "[ -e {} ] || {{ {}; sleep 600; }}",
        done.display(),
        say_up(&working)
    );
    let definition = format!("name = 'Slow'\nprepare = [\"\"\"{command}\"\"\"]\n");
    folder.write("app/app.toml", definition);
    for (signal, code) in [(Signal::TERM, Some(130)), (Signal::KILL, None)] {
        let mut lab = Lab::new(&folder, &["--stacks", "thin", "--trials", "1"]);
        lab.start();
        wait_up(&working);
        lab.signal(signal);
        let ended = lab.end();
        assert_eq!(ended.code, code, "{}", ended.text);
        lab.assert_nothing_is_left();
        fs::remove_file(&working).unwrap();
    }
    // The plan is all that there is, and it is enough.
    folder.write("done", "");
    let output = folder.join("results");
    let ended = Lab::with(&folder, &["--resume", output.to_str().unwrap()]).run();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    assert_eq!(measured(&results(&output)), [("thin", 1)]);
}

#[test]
fn a_folder_in_which_a_comparison_is_at_work_is_left_alone_by_others() {
    let folder = hello();
    let mut lab = booting(&folder);

    let output = lab.output.to_str().unwrap();
    for flags in [
        &["--app", "app", "--stacks", "thin"][..],
        &["--resume", output],
    ] {
        let ended = Lab::with(&folder, flags).run();
        assert_eq!(ended.code, Some(1), "{}", ended.text);
        assert!(
            ended
                .text
                .starts_with("highball: another comparison (process ")
                && ended.text.contains("is at work in "),
            "{}",
            ended.text
        );
    }
    let trials = lab.output.join("work/trials");
    assert!(trials.join("rehearsal-slow").is_dir());

    lab.signal(Signal::KILL);
    lab.end();
    lab.assert_nothing_is_left();
    // Only the lock went with it.
    let ended = Lab::with(&folder, &["--app", "app", "--stacks", "thin"]).run();
    let expected = "there is a comparison in";
    assert!(ended.text.contains(expected), "{}", ended.text);
}

#[test]
fn nothing_is_left_of_a_lab_that_was_killed() {
    let folder = hello();
    let mut lab = Lab::new(&folder, &["--stacks", "puma-cluster,thin", "--trials", "2"]);
    lab.start();
    lab.wait_for("[1/4");
    lab.signal(Signal::KILL);
    lab.end();
    lab.assert_nothing_is_left();
    assert_eq!(results(&lab.output).trials.len(), 1);
}

#[test]
fn a_stack_that_does_not_come_up_is_recorded_and_the_rest_goes_on() {
    let folder = hello();
    let file = stack(&folder, "broken", "echo no such application; exit 3", "");
    let file = file.to_str().unwrap();
    let mut lab = Lab::new(
        &folder,
        &[
            "--stacks",
            "broken,thin",
            "--trials",
            "1",
            "--stack-file",
            file,
        ],
    );
    let ended = lab.run();
    assert_eq!(ended.code, Some(1), "{}", ended.text);
    assert!(
        ended
            .text
            .contains("highball: a trial failed: broken, c12 in round 1: "),
        "{}",
        ended.text
    );
    assert!(ended.text.contains("no such application"), "{}", ended.text);
    let results = results(&lab.output);
    assert_eq!(measured(&results), [("broken", 1), ("thin", 1)]);
    assert_eq!(failed(&results)[0].stack, "broken");
    assert!(results.finished.is_some() && lab.output.join("report.html").is_file());
}

#[test]
fn a_port_in_use_is_named() {
    let folder = hello();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let file = stack(&folder, "fixed", "exec sleep 60", &format!("port = {port}"));
    let file = file.to_str().unwrap();
    let ended = Lab::new(
        &folder,
        &[
            "--stacks",
            "fixed,thin",
            "--trials",
            "1",
            "--stack-file",
            file,
        ],
    )
    .run();
    assert_eq!(ended.code, Some(1), "{}", ended.text);
    assert!(
        ended.text.contains(&format!("port {port} of 127.0.0.1")),
        "{}",
        ended.text
    );
    assert!(ended.text.contains("is in use"), "{}", ended.text);
}

#[test]
fn a_wrong_file_is_refused_with_its_line_before_anything_starts() {
    let folder = hello();
    let check = |text: &str, expect: &str| {
        let file = folder.write("LAB.toml", text);
        let mut lab = Lab::with(&folder, &[file.to_str().unwrap()]);
        let ended = lab.run();
        assert_eq!(ended.code, Some(1));
        assert_eq!(
            ended.text,
            format!("highball: {}{expect}\n", file.display())
        );
        assert!(!lab.output.exists());
    };
    check(
        "app = \"app\"\nstakcs = []\n",
        ":2: unknown key stakcs; the nearest known one is stacks",
    );
    check(
        "trials = 0\n",
        ":1: trials: 0 is out of range; it goes from 1 to 1000",
    );
    let file = folder.write(
        "LAB.toml",
        "app = \"app\"\nstacks = [\"thin\"]\nserver_cores = [4095]\ngenerator_cores = [0]\n",
    );
    let mut lab = Lab::with(&folder, &[file.to_str().unwrap()]);
    let ended = lab.run();
    assert_eq!(ended.code, Some(1));
    let expected = "highball: server_cores: 4095 is no core that can be used here; these can: ";
    assert!(ended.text.starts_with(expected), "{}", ended.text);
    assert!(!lab.output.exists());
    let ended = Lab::new(&folder, &["--stacks", "pumma"]).run();
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .text
            .contains("no stack is named pumma; the nearest known one is puma"),
        "{}",
        ended.text
    );
}

#[test]
fn an_application_that_dies_midway_is_recorded_with_its_log() {
    let folder = Directory::new();
    folder.write(
        "app/config.ru",
        "left = 100\nrun(lambda do |_env|\n  left -= 1 if ENV['MORTAL']\n  if left.zero?\n    warn 'the application gives up'\n    \
         exit!(3)\n  end\n  [200, { 'content-type' => 'text/plain' }, ['Hello World']]\nend)\n",
    );
    let file = folder.write(
        "LAB.toml",
        "app = \"app\"\nstacks = [\"mortal\", \"thin\"]\ntrials = 1\nduration = \"1s\"\nwarm_up = \"1s\"\n\
         [stack.mortal]\nkind = \"thin\"\nenvironment = { MORTAL = \"1\" }\n",
    );
    let mut lab = Lab::with(&folder, &[file.to_str().unwrap()]);
    let ended = lab.run();
    assert_eq!(ended.code, Some(1), "{}", ended.text);
    let results = results(&lab.output);
    let failures = failed(&results);
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].stack, "mortal");
    let failure = failures[0].failure.as_ref().unwrap();
    assert!(
        failure.contains("ended (exit status: 3)") && failure.contains("the application gives up"),
        "{failure}"
    );
    assert!(
        ended.text.contains("the application gives up"),
        "{}",
        ended.text
    );
    lab.assert_nothing_is_left();
}

#[test]
fn a_full_disk_ends_it_with_one_message_and_keeps_what_was_measured() {
    let folder = hello();
    let file = folder.write(
        "LAB.toml",
        "app = \"app\"\nstacks = [\"thin\"]\ntrials = 50\nwarm_up = \"500ms\"\n[[load]]\nconnections = 2\nrequests = 100\n",
    );
    let mut lab = Lab::with(&folder, &[file.to_str().unwrap()]);
    // One trial of so few requests fits into a file, ten do not.
    lab.limit_files_to(24 * 1024);
    let ended = lab.run();
    assert_eq!(ended.code, Some(1), "{}", ended.text);
    let errors: Vec<&str> = ended
        .text
        .lines()
        .filter(|line| line.starts_with("highball: "))
        .collect();
    assert_eq!(errors.len(), 1, "{}", ended.text);
    let expect = format!(
        "highball: can't write {}",
        lab.output.join("results.json").display()
    );
    assert!(
        errors[0].starts_with(&expect) && errors[0].contains("--resume"),
        "{}",
        errors[0]
    );
    let results = results(&lab.output);
    assert!(!results.trials.is_empty() && results.finished.is_none());
    lab.assert_nothing_is_left();
}
