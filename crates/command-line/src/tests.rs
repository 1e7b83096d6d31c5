//! Command lines and what they mean.

use std::path::PathBuf;
use std::time::Duration;

use config::SETTINGS;

use super::*;

fn read(line: &str) -> clap::error::Result<Command> {
    parse(line.split_whitespace().map(OsString::from))
}

fn arguments_of(dir: Option<&str>, flags: &[(&str, &str)]) -> ApplicationArguments {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    ApplicationArguments {
        dir: dir.map(PathBuf::from),
        config: None,
        flags: flags.iter().map(owned).collect(),
    }
}

#[test]
fn the_definition_is_sound() {
    definition().debug_assert();
}

#[test]
fn serving_is_what_happens_without_a_command() {
    let check = |line: &str, expect: ApplicationArguments| {
        assert_eq!(read(line).unwrap(), Command::Serve(expect), "{line}")
    };
    check("highball", ApplicationArguments::default());
    check("highball serve", ApplicationArguments::default());
    check("highball app", arguments_of(Some("app"), &[]));
    check("highball serve app", arguments_of(Some("app"), &[]));
    check("highball serve status", arguments_of(Some("status"), &[]));
    check(
        "highball --threads 5 app",
        arguments_of(Some("app"), &[("threads", "5")]),
    );
    check(
        "highball app --listen 1 --listen unix:/a --max-body-bytes=1MiB",
        arguments_of(
            Some("app"),
            &[
                ("listen", "1"),
                ("listen", "unix:/a"),
                ("max-body-bytes", "1MiB"),
            ],
        ),
    );
    let config = ApplicationArguments {
        config: Some("a.toml".into()),
        ..ApplicationArguments::default()
    };
    check("highball --config a.toml", config);
}

#[test]
fn every_setting_is_a_flag_of_serve_and_of_check() {
    for setting in SETTINGS {
        let flag = setting.flag();
        for command in ["", "serve", "check"] {
            let read = read(&format!("highball {command} --{flag} x"));
            let (Command::Serve(arguments) | Command::Check(arguments)) = read.unwrap() else {
                panic!("--{flag}: another command");
            };
            assert_eq!(arguments.flags, [(flag.clone(), "x".to_owned())]);
        }
    }
}

#[test]
fn short_flags_mean_what_they_mean_for_puma() {
    let check = |line: &str, expect: &[(&str, &str)]| {
        let line = format!("highball {line}");
        assert_eq!(
            read(&line).unwrap(),
            Command::Serve(arguments_of(None, expect)),
            "{line}"
        );
    };
    check("-p 3000", &[("listen", "3000")]);
    check("serve --port 3000", &[("listen", "3000")]);
    check(
        "-b tcp://127.0.0.1:9292",
        &[("listen", "tcp://127.0.0.1:9292")],
    );
    check(
        "-p 80 -b unix:///a",
        &[("listen", "80"), ("listen", "unix:///a")],
    );
    check("-e production", &[("environment", "production")]);
    check("-w 2 -t 5", &[("workers", "2"), ("threads", "5")]);
    check("-t 0:5", &[("threads", "5")]);
    check("-t 5:5", &[("threads", "5")]);
    // These are wrong, and the settings say so.
    check("-t 5:1", &[("threads", "5:1")]);
    check("-t :5", &[("threads", ":5")]);
    let config = ApplicationArguments {
        config: Some("a.toml".into()),
        ..ApplicationArguments::default()
    };
    assert_eq!(read("highball -C a.toml").unwrap(), Command::Serve(config));
    for line in ["highball -p 65536", "highball -p http", "highball -w"] {
        assert!(read(line).unwrap_err().use_stderr(), "{line}");
    }
}

#[test]
fn a_mistyped_command_is_no_folder() {
    let check = |word: &str, expect: &str| {
        let error = read(&format!("highball {word}")).unwrap_err();
        let text = error.to_string();
        assert!(error.use_stderr());
        assert!(
            text.contains(&format!("did you mean `highball {expect}`?")),
            "{text}"
        );
    };
    check("retsart", "restart");
    check("statsu", "status");
    check("sevre", "serve");
    check("compar", "compare");
    // A folder of that name, a path, or another word.
    check("slwo", "slow");
    for folder in ["src", "./retsart", "blog"] {
        let served = Command::Serve(arguments_of(Some(folder), &[]));
        assert_eq!(read(&format!("highball {folder}")).unwrap(), served);
    }
}

#[test]
fn a_topic_that_is_no_command_has_a_help_of_its_own() {
    for topic in [
        "settings",
        "signals",
        "request_timeout",
        "--workers",
        "nothing",
    ] {
        let line = format!("highball help {topic}");
        assert_eq!(read(&line).unwrap(), Command::Help(topic.to_owned()));
    }
    let general = read("highball help").unwrap_err().to_string();
    assert!(general.contains("highball help settings"), "{general}");
    let command = read("highball help init").unwrap_err().to_string();
    assert!(command.contains("--from"), "{command}");
}

#[test]
fn completions_know_commands_flags_and_settings() {
    for (shell, line) in [
        (Shell::Bash, "highball completion bash"),
        (Shell::Zsh, "highball completion zsh"),
        (Shell::Fish, "highball completion fish"),
    ] {
        assert_eq!(read(line).unwrap(), Command::Completion(shell));
        let script = completion(shell);
        for word in ["upgrade", "now", "request-timeout", "workers"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert!(read("highball completion tcsh").unwrap_err().use_stderr());
}

#[test]
fn init_may_name_a_file_to_translate() {
    let check = |line: &str, dir: Option<&str>, from: Option<&str>| {
        let (dir, from) = (dir.map(PathBuf::from), from.map(PathBuf::from));
        assert_eq!(read(line).unwrap(), Command::Init { dir, from }, "{line}");
    };
    check("highball init", None, None);
    check(
        "highball init --from config/puma.rb",
        None,
        Some("config/puma.rb"),
    );
    check("highball init app --from a.rb", Some("app"), Some("a.rb"));
    assert_eq!(read("highball version").unwrap(), Command::Version);
}

#[test]
fn the_other_commands_name_a_server() {
    let check = |line: &str, expect: Command| assert_eq!(read(line).unwrap(), expect, "{line}");
    let server = ServerArguments::default;
    let (json, now) = (false, false);
    check(
        "highball status",
        Command::Status {
            server: server(),
            json,
            watch: None,
        },
    );
    check(
        "highball stop",
        Command::Stop {
            server: server(),
            now,
        },
    );
    let json = true;
    let server = ServerArguments {
        pid: Some(7),
        ..ServerArguments::default()
    };
    check(
        "highball status --pid 7 --json",
        Command::Status {
            server,
            json,
            watch: None,
        },
    );
    for (line, expect) in [
        ("highball status --watch", 2),
        ("highball status --watch 7", 7),
    ] {
        let watch = Command::Status {
            server: ServerArguments::default(),
            json: false,
            watch: Some(Duration::from_secs(expect)),
        };
        check(line, watch);
    }
    let top = Command::Top {
        server: ServerArguments::default(),
        interval: Duration::from_secs(1),
    };
    check("highball top", top);
    let server = ServerArguments::default();
    let group = Some("5d41".to_owned());
    let exceptions = Command::Exceptions {
        server: ServerArguments::default(),
        group,
        json: false,
    };
    check("highball exceptions --group 5d41", exceptions);
    let all = false;
    check(
        "highball memory --json",
        Command::Memory { server, all, json },
    );
    let now = true;
    let server = ServerArguments {
        dir: Some("app".into()),
        ..ServerArguments::default()
    };
    check("highball stop app --now", Command::Stop { server, now });
    let server = ServerArguments {
        socket: Some("/a.sock".into()),
        ..ServerArguments::default()
    };
    check(
        "highball stop --socket /a.sock --now",
        Command::Stop { server, now },
    );
}

#[test]
fn an_upgrade_may_name_another_program() {
    let check = |line: &str, expect: Command| assert_eq!(read(line).unwrap(), expect, "{line}");
    check(
        "highball reload",
        Command::Reload(ServerArguments::default()),
    );
    let server = || ServerArguments {
        dir: Some("app".into()),
        ..ServerArguments::default()
    };
    let plain = Command::Upgrade {
        server: server(),
        binary: None,
    };
    check("highball upgrade app", plain);
    let other = Command::Upgrade {
        server: server(),
        binary: Some("/new".into()),
    };
    check("highball upgrade app --binary /new", other);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for line in [
        "highball a b",
        "highball --colour red",
        "highball status --threads 3",
        "highball stop --pid 0",
        "highball stop app --pid 3",
        "highball status --json yes please",
    ] {
        let error = read(line).unwrap_err();
        assert!(error.use_stderr(), "{line}");
    }
    for line in [
        "highball --help",
        "highball serve --help",
        "highball -V",
        "highball help stop",
    ] {
        assert!(!read(line).unwrap_err().use_stderr(), "{line}");
    }
}

#[test]
fn the_labs_commands_are_known() {
    let about = definition().get_about().unwrap().to_string();
    assert!(about.starts_with("An application server"), "{about}");
    let list = read("highball --help").unwrap_err().to_string();
    let all_given = |line: &str| {
        let words = line.split_whitespace().skip(1).map(OsString::from);
        assert_eq!(read(line).unwrap(), Command::Lab(words.collect()), "{line}");
    };
    for name in ["load", "compare", "diff", "study", "stacks"] {
        assert!(list.contains(&format!("  {name} ")), "{list}");
        all_given(&format!("highball {name} --help"));
        all_given(&format!("highball help {name}"));
    }
    all_given("highball load http://localhost:8080/ --no such");
}

#[test]
fn an_experiment_names_what_differs() {
    let action = |line: &str| match read(line).unwrap() {
        Command::Experiment(arguments) => arguments.action,
        other => panic!("{other:?}"),
    };
    let owned = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        action("highball experiment --set jit=none --env A=b=c --env B= --for 90s"),
        ExperimentAction::Start {
            settings: vec![owned("jit", "none")],
            variables: vec![owned("A", "b=c"), owned("B", "")],
            time: Duration::from_secs(90),
        }
    );
    let same = ExperimentAction::Start {
        settings: Vec::new(),
        variables: Vec::new(),
        time: Duration::from_secs(600),
    };
    assert_eq!(action("highball experiment --same app"), same);
    assert_eq!(action("highball experiment --stop"), ExperimentAction::Stop);
    assert_eq!(action("highball experiment --show"), ExperimentAction::Show);
    for wrong in [
        "",
        " --set jit",
        " --set =1",
        " --same --set jit=none",
        " --stop --env A=1",
        " --same --for 1s",
        " --same --for 2d",
    ] {
        assert!(
            read(&format!("highball experiment{wrong}")).is_err(),
            "{wrong}"
        );
    }
}
