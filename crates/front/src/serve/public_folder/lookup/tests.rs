//! What is found in a folder: links, files that are none, siblings, earlier releases, names.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use tempfile::TempDir;

use super::*;

fn site(root: &Path) -> Site {
    Site {
        root: root.to_owned(),
        earlier: Vec::new(),
        index: "index".to_owned(),
        rack: 3,
        reader: Reader::default(),
    }
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (path, content) in files {
        write(folder.path(), path, content);
    }
    folder
}

fn write(folder: &Path, path: &str, content: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// The content of what the path means.
fn content(site: &Site, path: &str) -> Option<String> {
    match site.look(path.as_bytes(), None) {
        Ok(Looked::Found(found)) => {
            let bytes = found.forms[0].bytes.as_ref().unwrap().to_vec();
            Some(String::from_utf8(bytes).unwrap())
        }
        _ => None,
    }
}

#[test]
fn the_first_candidate_that_is_a_regular_file_is_meant() {
    let folder = folder(&[
        ("a.html", "page"),
        ("b/index.html", "index"),
        ("c", "plain"),
    ]);
    write(folder.path(), "c.html", "other");
    fs::create_dir(folder.path().join("a")).unwrap();
    rustix::fs::mkfifoat(CWD, folder.path().join("fifo"), Mode::RWXU).unwrap();
    let site = site(folder.path());
    for (path, expected) in [
        ("/a", Some("page")),
        ("/b", Some("index")),
        ("/c", Some("plain")),
        ("/fifo", None),
        ("/none", None),
        ("/c/d", None),
        (&format!("/{}", "n".repeat(300)), None),
    ] {
        assert_eq!(content(&site, path).as_deref(), expected, "{path}");
    }
}

#[test]
fn links_are_followed_inside_the_folder_only() {
    let outside = folder(&[("secret.css", "secret")]);
    let folder = folder(&[("a.css", "inside"), ("b/x", "x"), ("escape.html", "page")]);
    let root = folder.path();
    symlink("a.css", root.join("link.css")).unwrap();
    symlink("../a.css", root.join("b/link.css")).unwrap();
    symlink(outside.path().join("secret.css"), root.join("out.css")).unwrap();
    symlink(outside.path(), root.join("out")).unwrap();
    symlink(outside.path().join("secret.css"), root.join("escape")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    let site = site(root);
    for (path, expected) in [
        ("/link.css", Some("inside")),
        ("/b/link.css", Some("inside")),
        ("/out.css", None),
        ("/out/secret.css", None),
        // Rails would send what the link names, and not the page.
        ("/escape", None),
        ("/loop", None),
    ] {
        assert_eq!(content(&site, path).as_deref(), expected, "{path}");
    }
}

#[test]
fn a_sibling_that_is_older_than_its_original_is_ignored() {
    let folder = folder(&[
        ("a.css", "a"),
        ("a.css.gz", "gz"),
        ("a.css.br", "br"),
        ("a.tar", "a"),
        ("a.tar.gz", "another"),
    ]);
    let touch = |name: &str, age: u64| {
        let file = File::options()
            .write(true)
            .open(folder.path().join(name))
            .unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        file.set_modified(time).unwrap();
    };
    touch("a.css", 10);
    touch("a.css.gz", 20);
    touch("a.css.br", 10);
    touch("a.css.br", 5);
    let site = site(folder.path());
    let codings = |path: &str| match site.look(path.as_bytes(), None) {
        Ok(Looked::Found(found)) => found.forms.iter().map(|form| form.coding).collect(),
        _ => Vec::new(),
    };
    assert_eq!(codings("/a.css"), [None, Some(Coding::Brotli)]);
    assert_eq!(codings("/a.tar"), [None]);
}

#[test]
fn a_file_that_is_known_is_not_read_again_until_it_changes() {
    let folder = folder(&[("a.css", "one")]);
    let site = site(folder.path());
    let Ok(Looked::Found(known)) = site.look(b"/a.css", None) else {
        panic!("not found");
    };
    let again = site.look(b"/a.css", Some(&known)).unwrap();
    assert!(matches!(again, Looked::Unchanged));
    assert!(known.open(&known.forms[0]).is_ok());
    write(folder.path(), "new", "two");
    fs::rename(folder.path().join("new"), folder.path().join("a.css")).unwrap();
    let again = site.look(b"/a.css", Some(&known)).unwrap();
    assert!(matches!(again, Looked::Found(_)));
    assert!(known.open(&known.forms[0]).is_err());
}

#[test]
fn large_files_are_not_kept_in_memory() {
    let folder = folder(&[("a.css", ""), ("b.css", "")]);
    let large = "x".repeat(MEMORY_FILE_BYTES as usize + 1);
    write(folder.path(), "a.css", &large);
    write(folder.path(), "b.css", &large[1..]);
    let site = site(folder.path());
    for (path, kept) in [("/a.css", false), ("/b.css", true)] {
        let Ok(Looked::Found(found)) = site.look(path.as_bytes(), None) else {
            panic!("not found");
        };
        assert_eq!(found.forms[0].bytes.is_some(), kept);
    }
}

#[test]
fn digested_names_are_found_in_earlier_releases() {
    let deploy = folder(&[]);
    for release in 1..=8 {
        let path = format!("releases/{release}/public/assets/a-{release}a2b3c4d.css");
        write(deploy.path(), &path, &release.to_string());
    }
    let root = deploy.path().join("releases/8/public");
    let served: Vec<Arc<Path>> = vec![Arc::from(deploy.path().join("elsewhere"))];
    write(
        &deploy.path().join("elsewhere"),
        "assets/b-1a2b3c4d.css",
        "served",
    );
    let earlier = earlier(&root, &served, 5);
    assert_eq!(earlier.len(), 6);
    let site = Site {
        earlier,
        ..site(&root)
    };
    let find = |path: &str| content(&site, path);
    assert_eq!(find("/assets/a-8a2b3c4d.css").as_deref(), Some("8"));
    assert_eq!(find("/assets/a-7a2b3c4d.css").as_deref(), Some("7"));
    assert_eq!(find("/assets/a-3a2b3c4d.css").as_deref(), Some("3"));
    assert_eq!(find("/assets/a-2a2b3c4d.css"), None);
    assert_eq!(find("/assets/b-1a2b3c4d.css").as_deref(), Some("served"));
    write(
        &deploy.path().join("releases/7/public"),
        "assets/plain.css",
        "7",
    );
    assert_eq!(find("/assets/plain.css"), None);
}

#[test]
fn the_names_of_a_folder_are_read_again_when_it_changes() {
    let folder = folder(&[("a.html", "a")]);
    let site = site(folder.path());
    let old = File::open(folder.path()).unwrap();
    old.set_modified(SystemTime::now() - Duration::from_secs(60))
        .unwrap();
    let Ok(LookedNames::Changed(Some(names))) = site.names(None) else {
        panic!("no names");
    };
    assert!(names.may_mean(b"a") && names.may_mean(b"a.html") && !names.may_mean(b"b"));
    assert!(matches!(
        site.names(Some(&names)),
        Ok(LookedNames::Unchanged)
    ));
    write(folder.path(), "b", "b");
    let Ok(LookedNames::Changed(Some(names))) = site.names(Some(&names)) else {
        panic!("no names");
    };
    assert!(names.may_mean(b"b"));
    // It was changed a moment ago: another change may have left the same time.
    assert!(matches!(
        site.names(Some(&names)),
        Ok(LookedNames::Changed(_))
    ));
}
