//! Every stack that comes with Highball on the real programs: it starts, answers like the others, its process tree is
//! whole, and nothing is left of it. A program that is missing fails its test with the command that installs it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::stacks::{Catalogue, Deployment, Running};

fn catalogue() -> Catalogue {
    Catalogue::load_from(&test_support::workspace().join("lab"), &[]).unwrap()
}

fn deployment(scratch: &Path) -> Deployment {
    Deployment {
        app: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stacks"),
        highball: test_support::binary(),
        scratch: scratch.to_owned(),
        workers: 2,
        threads: 1,
        environment: BTreeMap::new(),
        path: "/".to_owned(),
        boot_timeout: Duration::from_secs(60),
        cores: Vec::new(),
    }
}

fn check(id: &str) {
    let folder = tempfile::tempdir().unwrap();
    let scratch: PathBuf = folder.path().join("scratch");
    let catalogue = catalogue();
    let mut running: Running = catalogue
        .get(id)
        .unwrap()
        .start(&deployment(&scratch))
        .unwrap();
    let members = running.tree().members();
    eprintln!(
        "{id}: {:?} {:?} {:?}",
        running.boot,
        running.first,
        members.iter().map(|one| &one.name).collect::<Vec<_>>()
    );
    assert_eq!(running.stop().left_behind, 0);
}

#[test]
fn highball() {
    check("highball");
}

#[test]
fn thin() {
    check("thin");
}

#[test]
fn puma_cluster() {
    check("puma-cluster");
}

#[test]
fn nginx_before_thin() {
    check("nginx+thin");
}
