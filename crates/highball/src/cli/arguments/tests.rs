//! Command lines and what they mean.

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
    clap().debug_assert();
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
fn the_other_commands_name_a_server() {
    let check = |line: &str, expect: Command| assert_eq!(read(line).unwrap(), expect, "{line}");
    let server = Server::default;
    let (json, now) = (false, false);
    check(
        "highball status",
        Command::Status {
            server: server(),
            json,
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
    let server = Server {
        pid: Some(7),
        ..Server::default()
    };
    check(
        "highball status --pid 7 --json",
        Command::Status { server, json },
    );
    let now = true;
    let server = Server {
        dir: Some("app".into()),
        ..Server::default()
    };
    check("highball stop app --now", Command::Stop { server, now });
    let server = Server {
        socket: Some("/a.sock".into()),
        ..Server::default()
    };
    check(
        "highball stop --socket /a.sock --now",
        Command::Stop { server, now },
    );
}

#[test]
fn an_upgrade_may_name_another_program() {
    let check = |line: &str, expect: Command| assert_eq!(read(line).unwrap(), expect, "{line}");
    check("highball reload", Command::Reload(Server::default()));
    let server = || Server {
        dir: Some("app".into()),
        ..Server::default()
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
    let about = clap().get_about().unwrap().to_string();
    assert!(about.starts_with("An application server"), "{about}");
    let list = read("highball --help").unwrap_err().to_string();
    let all_given = |line: &str| {
        let words = line.split_whitespace().skip(1).map(OsString::from);
        assert_eq!(read(line).unwrap(), Command::Lab(words.collect()), "{line}");
    };
    for name in ["load", "compare", "study", "stacks"] {
        assert!(list.contains(&format!("  {name} ")), "{list}");
        all_given(&format!("highball {name} --help"));
        all_given(&format!("highball help {name}"));
    }
    all_given("highball load http://localhost:8080/ --no such");
}
