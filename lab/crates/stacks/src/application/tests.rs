//! Finding applications, and preparing those that are served in place.

use super::*;

/// A folder of applications: one plain, one with pages.
fn apps() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("plain/config.ru", "run ->(_) { [200, {}, ['plain']] }");
    write("pages/config.ru", "run ->(_) { [200, {}, ['page']] }");
    write(
        "pages/app.toml",
        "name = 'Pages'\nabout = 'Two.'\n[[page]]\nname = 'list'\npath = '/list'\n\
         [[page]]\nname = 'user'\npath = '/user?id=1'\nsame_body = false\nabout = 'One.'\n",
    );
    write("empty/readme", "");
    folder
}

#[test]
fn an_application_is_found_by_folder_by_name_and_by_page() {
    let apps = apps();
    let open = |name: &Path| Application::open_among(name, Some(apps.path())).unwrap();
    assert_eq!(open(&apps.path().join("plain")).page().path, "/");
    assert_eq!(open(Path::new("plain")).name(), "plain");
    assert_eq!(open(Path::new("pages")).page().path, "/list");
    assert_eq!(open(Path::new("pages/user")).page().path, "/user?id=1");
    assert_eq!(open(&apps.path().join("pages/user")).page().name, "user");
}

#[test]
fn what_is_no_application_is_refused_with_the_nearest() {
    let apps = apps();
    let check = |name: &Path, expect: &str| {
        let error = Application::open_among(name, Some(apps.path())).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(expect), "{error}");
    };
    check(Path::new("plane"), "the lab's nearest is plain");
    check(
        Path::new("pages/usr"),
        "there is no page usr; the nearest is user",
    );
    check(
        &apps.path().join("empty"),
        "is no Rack application: it holds no config.ru",
    );
    check(&apps.path().join("none"), "there is no application");
}

/// `make test-fast` leaves these out.
mod needs_ruby {
    use super::*;

    #[test]
    fn a_plain_folder_is_served_in_place_and_left_alone() {
        let apps = apps();
        let work = tempfile::tempdir().unwrap();
        let source = apps.path().join("plain");
        let prepared = Application::open(&source)
            .unwrap()
            .prepare(work.path(), &AtomicBool::new(false))
            .unwrap();
        assert_eq!(prepared.folder, source.canonicalize().unwrap());
        assert_eq!(prepared.environment["RACK_ENV"], "production");
        assert!(
            prepared.description.versions.contains_key("rack"),
            "{:?}",
            prepared.description
        );
        assert_eq!(std::fs::read_dir(source).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0);
    }
}

#[test]
fn the_page_says_what_it_is() {
    let apps = apps();
    let application = Application::open(apps.path().join("pages/user")).unwrap();
    let prepared = application
        .prepare(apps.path(), &AtomicBool::new(false))
        .unwrap();
    assert_eq!(prepared.path, "/user?id=1");
    assert!(!prepared.same_body);
    assert_eq!(prepared.description.about, "Two. One.");
    assert_eq!(prepared.description.commit, None);
}
