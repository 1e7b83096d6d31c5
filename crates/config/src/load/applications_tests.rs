//! Tables of applications: what they may say, and what goes over what.

use std::fs;

use super::*;
use crate::applications::ApplicationSettings;

const ONE_CORE: Machine = Machine {
    cores: || 1,
    has_ipv6: || false,
};

fn load(file: &str, flags: &[(&str, &str)]) -> Result<ServerSettings, String> {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("highball.toml"), file).expect("written");
    let flags = flags.iter();
    let sources = Sources {
        dir: dir.path().to_owned(),
        flags: flags
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect(),
        ..Sources::default()
    };
    let folder = format!("{}/", dir.path().display());
    let all = layers::load(&sources, ONE_CORE);
    all.map_err(|errors| errors.to_string().replace(&folder, ""))
}

#[test]
fn a_table_goes_over_the_file_and_a_flag_over_the_table() {
    let file = "threads = 2\nqueue_limit = 7\nworkers = 3\n[[application]]\npath = \"/srv/shop/current\"\n\
                hosts = [\"Shop.test\"]\nthreads = 5\nworkers = 4\nuser = \"shop\"\n[application.variables]\nA = \"b\"\n\
                [[application]]\npath = \"wiki\"\nprefix = \"/wiki/\"\n";
    let all = load(file, &[("workers", "9")]).unwrap();
    let [shop, wiki] = &all.applications[..] else {
        panic!("{all:?}");
    };
    let settings = |one: &ApplicationSettings| {
        let one = &one.settings;
        (one.threads.most(), one.queue_limit, one.workers.most())
    };
    assert_eq!(settings(shop), (5, 7, 9));
    assert_eq!(settings(wiki), (2, 7, 9));
    assert_eq!(
        (shop.table.name.as_str(), wiki.table.name.as_str()),
        ("shop", "wiki")
    );
    assert_eq!(shop.table.hosts[0].to_string(), "shop.test");
    assert_eq!(shop.table.variables, [("A".to_owned(), "b".to_owned())]);
    assert_eq!(
        (shop.table.prefix.as_str(), wiki.table.prefix.as_str()),
        ("", "/wiki")
    );
    assert_eq!(
        (shop.table.user.as_deref(), wiki.table.user.as_deref()),
        (Some("shop"), None)
    );
    assert!(
        wiki.table.path.is_absolute(),
        "{}",
        wiki.table.path.display()
    );
}

#[test]
fn what_is_wrong_with_an_application_names_line_and_remedy() {
    let check = |file: &str, expect: &str| {
        let errors = load(file, &[]).map(drop).unwrap_err();
        assert!(errors.contains(expect), "{errors}");
    };
    check(
        "[application]\npath = \"a\"\n",
        "highball.toml:1: application: each application is a table: write [[application]]",
    );
    check(
        "[[application]]\nname = \"a\"\n",
        "highball.toml:1: application: path is missing",
    );
    check(
        "[[application]]\npath = \"a\"\nlisten = [\"1\"]\n",
        "highball.toml:3: listen: it belongs to the server: write it above",
    );
    check(
        "[[application]]\npath = \"a\"\nuser = 1\n",
        "highball.toml:3: application: user: expected a text, found",
    );
    check(
        "[[application]]\npath = \"a\"\nuser = \"\"\n",
        "highball.toml:3: application: user and group may not be empty",
    );
    check(
        "[[application]]\npath = \"a\"\ngroup = \"www\"\n",
        "highball.toml:3: application: group is set without user",
    );
    check(
        "[[application]]\npath = \"a\"\nthread = 1\n",
        "highball.toml:3: unknown setting thread; the nearest known one is threads",
    );
    check(
        "[[application]]\npath = \"a\"\nthreads = 0\n",
        "highball.toml:3: threads: ",
    );
    check(
        "[[application]]\npath = \"a b\"\n",
        "the name \"a b\" is not allowed; set name to",
    );
    check(
        "[[application]]\npath = \"a\"\nprefix = \"a\"\n",
        "highball.toml:3: application: prefix: \"a\" is not allowed",
    );
    check(
        "[[application]]\npath = \"a\"\nhosts = [\n\"a.test\", \"a:1\"]\n",
        "highball.toml:4: application: hosts: \"a:1\" is not allowed",
    );
    check(
        "[[application]]\npath = \"a\"\nhosts = [1]\n",
        "hosts: expected a list of texts, found a list",
    );
    check(
        "[[application]]\npath = \"a\"\nvariables = { \"A=\" = \"b\" }\n",
        "variables: \"A=\" is not allowed",
    );
    check(
        "[[application]]\npath = \"a\"\n[[application]]\npath = \"b/a\"\nprefix = \"/b\"\n",
        "another application is called a too",
    );
    check(
        "[[application]]\npath = \"a\"\nhosts = [\"x.test\"]\n[[application]]\npath = \"b\"\nhosts = [\"X.test.\"]\n",
        "b and a have the same requests: host x.test, prefix /",
    );
    let many = "[[application]]\npath = \"a\"\n".repeat(65);
    check(&many, "there are more than 64 applications");
}
