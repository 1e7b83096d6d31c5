//! Files of stacks: errors, descriptions for reports, the catalogue.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn shipped() -> Catalogue {
    Catalogue::load_from(&test_support::workspace().join("lab"), &[])
        .expect("files without a mistake")
}

fn deployment() -> Deployment {
    Deployment {
        app: PathBuf::from("/srv/shop"),
        highball: PathBuf::from("/opt/highball"),
        scratch: PathBuf::from("/var/scratch"),
        workers: 3,
        threads: 2,
        environment: BTreeMap::new(),
        path: "/".to_owned(),
        boot_timeout: Duration::from_secs(1),
        cores: Vec::new(),
    }
}

/// What is said of a file that is wrong.
fn refusal(text: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("my.toml");
    fs::write(&path, text).expect("a file");
    let error = Definition::read(&path).expect_err("the file is wrong");
    format!("{error:#}").replace(&format!("{}/", folder.path().display()), "")
}

const HEAD: &str = "id = \"my\"\nname = \"Mine\"\nabout = \"My own.\"\n";
const PROCESS: &str = "[[process]]\nname = \"mine\"\ncommand = [\"mine\", \"{{ port }}\"]\n";

#[test]
fn every_id_of_the_documentation_is_there() {
    let catalogue = shipped();
    for id in [
        "highball",
        "highball-tls",
        "nginx-tls+puma",
        "caddy-tls+puma",
        "nginx",
        "nginx-tls",
        "nginx-cache+puma",
        "webrick",
        "thin",
        "thin-cluster",
        "thin-cluster-unix",
        "unicorn",
        "puma",
        "puma-cluster",
        "passenger",
        "passenger-apache-event",
        "passenger-apache-prefork",
        "nginx+thin",
        "nginx+thin-unix",
        "nginx+unicorn",
        "nginx+puma",
        "nginx+passenger",
        "caddy+puma",
        "thruster+puma",
        "falcon",
        "pitchfork",
        "iodine",
        "itsi",
        "apache+thin",
        "apache+thin-byrequests",
        "apache+thin-bybusyness",
        "apache+puma",
        "apache-prefork+thin",
        "apache-prefork+puma",
        "lighttpd+thin",
        "pen+thin",
        "haproxy+thin",
        "uwsgi",
        "mongrel",
        "mongrel-cluster",
        "url",
    ] {
        let found = catalogue.get(id).unwrap();
        assert!(
            found.id == id || found.aliases.iter().any(|alias| alias == id),
            "{id}"
        );
    }
}

#[test]
fn an_unknown_id_is_answered_with_the_nearest() {
    let error = shipped().get("pumma-cluster").unwrap_err().to_string();
    assert_eq!(
        error,
        "no stack is named pumma-cluster; the nearest known one is puma-cluster (`highball stacks` lists them)"
    );
}

#[test]
fn a_report_has_commands_and_files_with_names_for_paths_and_ports() {
    let catalogue = shipped();
    for definition in catalogue.iter() {
        let stack = definition.describe(&deployment());
        let texts = stack
            .commands
            .iter()
            .chain(stack.files.iter().map(|(_, content)| content));
        for text in texts {
            assert!(
                !text.contains("{{")
                    && !text.contains("/srv/shop")
                    && !text.contains("/var/scratch"),
                "{text}"
            );
        }
    }
    let stack = catalogue.get("nginx+thin").unwrap().describe(&deployment());
    assert_eq!(
        (stack.id.as_str(), stack.name.as_str()),
        ("nginx+thin", "nginx before 3 Thins")
    );
    assert_eq!((stack.workers, stack.threads), (3, 1));
    assert_eq!(
        stack.commands,
        [
            "3 times: thin start --rackup config.ru --environment production --address 127.0.0.1 --port THIN_N_PORT",
            "nginx -e SCRATCH/nginx.error.log -p RUN -c SCRATCH/nginx.conf",
        ]
    );
    let (name, content) = &stack.files[0];
    assert_eq!(name, "nginx.conf");
    let upstream = "upstream workers {\n        server 127.0.0.1:THIN_1_PORT;\n        server 127.0.0.1:THIN_2_PORT;\n        server 127.0.0.1:THIN_3_PORT;\n    }";
    assert!(content.contains(upstream), "{content}");
    let pen = catalogue.get("pen+thin").unwrap().describe(&deployment());
    assert_eq!(
        pen.commands[1],
        "pen -f -r 127.0.0.1:PEN_PORT 127.0.0.1:THIN_1_PORT 127.0.0.1:THIN_2_PORT 127.0.0.1:THIN_3_PORT"
    );
}

#[test]
fn all_stacks_have_as_many_ruby_processes_as_the_comparison_says() {
    let alone = [
        "mongrel",
        "nginx",
        "nginx-tls",
        "puma",
        "thin",
        "url",
        "webrick",
    ];
    for definition in shipped().iter() {
        let stack = definition.describe(&deployment());
        let id = stack.id.as_str();
        assert_eq!(
            stack.workers,
            if alone.contains(&id) && id != "url" {
                1
            } else {
                3
            },
            "{id}"
        );
        // A number of workers that is nowhere in commands and files would be the server's own choice.
        let texts = stack
            .commands
            .iter()
            .chain(stack.files.iter().map(|(_, content)| content));
        let text = texts.fold(String::new(), |all, text| all + text + "\n");
        assert!(
            alone.contains(&id) || text.contains(" 3") || text.contains("3 times: "),
            "{id}: {text}"
        );
    }
}

#[test]
fn titles_have_no_number() {
    let catalogue = shipped();
    let title = |id| catalogue.get(id).unwrap().title();
    assert_eq!(title("nginx+thin"), "nginx before N Thins");
    assert_eq!(title("puma-cluster"), "Puma with N workers");
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_its_place() {
    let check = |text: String, expect: &str| assert_eq!(refusal(&text), expect, "{text}");
    check(
        format!("{HEAD}wrokers = 1\n{PROCESS}"),
        "my.toml:4: unknown key wrokers; the nearest known one is workers",
    );
    check(
        format!("{HEAD}{PROCESS}stop = \"KILL\"\n"),
        "my.toml:7: unknown value KILL; the nearest known one is INT",
    );
    check(
        HEAD.to_owned(),
        "my.toml: give either url or one [[process]] or more",
    );
    check(
        format!("{HEAD}{}", PROCESS.replace("{{ port }}", "{{ prot }}")),
        "my.toml, process mine: `prot` is undefined",
    );
    check(
        format!(
            "{HEAD}[[file]]\npath = \"my.conf\"\ncontent = \"\"\"\none\nport {{{{ process.other[0].port }}}}\n\"\"\"\n{PROCESS}"
        ),
        "my.toml, file my.conf, line 2: `process.other` is undefined",
    );
    check(
        format!("{HEAD}{}", PROCESS.replace("{{ port }}", "{% for x in %}")),
        "my.toml, process mine: unexpected end of block",
    );
    check(
        format!("{HEAD}[[file]]\npath = \"../my.conf\"\ncontent = \"\"\n{PROCESS}"),
        "my.toml: the file ../my.conf must lie in the scratch folder itself",
    );
    check(
        format!("{HEAD}{PROCESS}each_worker = true\n"),
        "my.toml: clients talk to the last process, so mine can't be one for each worker",
    );
    check(
        format!("{HEAD}{PROCESS}{PROCESS}"),
        "my.toml: two processes are named mine",
    );
    check(
        format!("{}{PROCESS}", HEAD.replace("\"my\"", "\"my own\"")),
        "my.toml: id \"my own\" may hold letters, digits, - _ + and . only",
    );
}

#[test]
fn a_users_file_adds_a_stack_or_takes_the_place_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let lab = test_support::workspace().join("lab");
    let mine = write("mine.toml", &format!("{HEAD}{PROCESS}"));
    let puma = write(
        "puma.toml",
        &format!("{}{PROCESS}", HEAD.replace("\"my\"", "\"puma\"")),
    );
    let catalogue = Catalogue::load_from(&lab, &[mine, puma]).unwrap();
    assert_eq!(catalogue.get("my").unwrap().name, "Mine");
    assert_eq!(catalogue.get("puma").unwrap().name, "Mine");
    let ids: Vec<&str> = catalogue
        .iter()
        .map(|definition| definition.id.as_str())
        .collect();
    assert!(ids.is_sorted(), "{ids:?}");

    let alias = write(
        "alias.toml",
        &format!("aliases = [\"thin\"]\n{HEAD}{PROCESS}"),
    );
    let error = format!(
        "{:#}",
        Catalogue::load_from(&lab, std::slice::from_ref(&alias)).unwrap_err()
    );
    assert!(
        error.starts_with(&format!(
            "{}: thin is the name of a stack in ",
            alias.display()
        )),
        "{error}"
    );
}

#[test]
fn an_address_is_a_stack_of_its_own() {
    let mut catalogue = shipped();
    catalogue
        .add_external("litespeed", "http://127.0.0.1:8088")
        .unwrap();
    let stack = catalogue.get("litespeed").unwrap();
    assert!(stack.is_external());
    assert_eq!(
        stack.presence(),
        Presence::Installed {
            versions: BTreeMap::new()
        }
    );
    assert!(stack.describe(&deployment()).commands.is_empty());
    assert!(catalogue.add_external("other", "ftp://127.0.0.1").is_err());
    assert!(
        catalogue
            .add_external("an other", "http://127.0.0.1")
            .is_err()
    );
}

#[test]
fn a_stack_that_no_command_installs_says_what_to_do() {
    let catalogue = shipped();
    for id in ["mongrel", "mongrel-cluster"] {
        let Presence::Missing { reason, install } = catalogue.get(id).unwrap().presence() else {
            continue;
        };
        let said = "the gem mongrel had its last release in 2010. `gem install mongrel";
        assert!(
            reason.contains(said) && reason.ends_with("today"),
            "{reason}"
        );
        assert_eq!((install, reason.lines().count()), (None, 1), "{id}");
    }
}

#[test]
fn a_missing_program_is_named_with_its_install_command() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("my.toml");
    let programs = "[[program]]\nname = \"no_such_program\"\ninstall = \"apt-get install b\"\n\
                    [[program]]\nname = \"no_such_module\"\nfind = [\"/nonexistent/*.so\"]\ninstall = \"apt-get install a\"\n";
    fs::write(&path, format!("{HEAD}{programs}{PROCESS}")).unwrap();
    let definition = Definition::read(Path::new(&path)).unwrap();
    assert_eq!(
        definition.presence(),
        Presence::Missing {
            reason: "no_such_program is not there; /nonexistent/*.so is not there".to_owned(),
            install: Some("apt-get install a b".to_owned()),
        }
    );
    let error = format!("{:#}", definition.start(&deployment()).unwrap_err());
    assert!(
        error.ends_with("; apt-get install a b installs it"),
        "{error}"
    );
}

#[test]
fn names_of_shipped_stacks_have_no_comma() {
    // Sentences list them.
    for definition in shipped().iter() {
        assert!(!definition.name.contains(','), "{}", definition.name);
    }
}
