//! Places, names and locks of directories.

use super::*;

#[test]
fn a_directory_that_another_process_keeps_locked_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(MODE);
    std::fs::set_permissions(dir.path(), mode).unwrap();
    let directory = ControlDirectory::look(dir.path(), None).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let first = directory.lock().await.unwrap();
        let error = directory.lock().await.err().unwrap().to_string();
        assert!(error.contains("another process locks"), "{error}");
        drop(first);
        directory.lock().await.unwrap();
    });
}

#[test]
fn directories_are_looked_for_where_the_variables_say_and_then_where_they_may_be() {
    let variables = Variables {
        runtime: Some("/run/shop".into()),
        session: Some("/run/user/7".into()),
    };
    let paths = |places: Vec<Place>| -> Vec<PathBuf> {
        places.into_iter().map(|place| place.path).collect()
    };
    let folder = Some(Path::new("/srv/shop"));
    let all = [
        "/run/shop/highball",
        "/run/user/7/highball",
        "/run/highball-7",
        "/srv/shop/tmp/highball",
    ];
    assert_eq!(paths(places(&variables, 7, folder)), all.map(PathBuf::from));
    let none = Variables::default();
    assert_eq!(
        paths(places(&none, 7, folder)),
        all[2..].iter().map(PathBuf::from).collect::<Vec<_>>()
    );
    // A command finds the same ones without the variables, but for the service manager's.
    let known = known_places(&none, 7, folder);
    assert_eq!(
        known,
        all[1..].iter().map(PathBuf::from).collect::<Vec<_>>()
    );
}

#[test]
fn a_directory_is_known_by_its_name() {
    for (path, expect) in [
        ("/run/shop/highball", true),
        ("/run/highball-1000", true),
        ("/srv/highball-demo", false),
        ("/run/highball (deleted)", false),
        ("/", false),
    ] {
        assert_eq!(is_named(Path::new(path)), expect, "{path}");
    }
}
