//! Control sockets: where they are, who may use them, how commands find them, and what is left of them. And what an
//! upgrade runs. Some of it needs root, and says so.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use test_support::{Application, Directory, Program, Ran, Server, ServerBuilder, Status, binary};

const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;
/// A user and group without a name, that owns nothing and for which root has made nothing.
const STRANGER: u32 = 61_234;
const AS_STRANGER: [&str; 4] = [
    "setpriv",
    "--reuid=61234",
    "--regid=61234",
    "--clear-groups",
];
/// Without the variables that name directories.
const WITHOUT: [&str; 3] = [
    "env",
    "--unset=RUNTIME_DIRECTORY",
    "--unset=XDG_RUNTIME_DIR",
];

/// A server of [`STRANGER`] with these variables alone that name directories.
fn of_stranger(application: Application, variables: &[&str]) -> ServerBuilder {
    give(application.path());
    Server::application_of(application).under(&[&WITHOUT, variables, &AS_STRANGER].concat())
}

fn give(path: &Path) {
    chown(path, Some(STRANGER), Some(STRANGER)).expect("this test needs root");
}

/// A folder of [`STRANGER`] that a manager has made for it.
fn runtime_directory() -> Directory {
    let dir = Directory::new();
    give(dir.path());
    dir
}

/// Runs `highball ARGUMENTS` as [`STRANGER`], with none of the server's variables.
fn as_stranger(folder: &Path, arguments: &[&str]) -> Ran {
    let program = Program::new(WITHOUT[0])
        .args(&WITHOUT[1..])
        .args(AS_STRANGER);
    program
        .arg(binary())
        .args(arguments)
        .current_dir(folder)
        .run()
}

/// The same as the user of the tests.
fn command(folder: &Path, arguments: &[&str]) -> Ran {
    let program = Program::new(WITHOUT[0]).args(&WITHOUT[1..]);
    program
        .arg(binary())
        .args(arguments)
        .current_dir(folder)
        .run()
}

/// The process of the server that answers a status.
#[track_caller]
fn front(ran: &Ran) -> Vec<test_support::Process> {
    assert!(ran.status.success(), "{}", ran.output());
    Status(serde_json::from_str(&ran.stdout).expect("JSON")).processes("front")
}

/// The control sockets in a folder.
fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let socket = |path: &PathBuf| {
        path.symlink_metadata()
            .is_ok_and(|facts| facts.file_type().is_socket())
    };
    paths.filter(socket).collect()
}

#[test]
fn a_server_has_no_abstract_socket() {
    let server = Server::app(HELLO).start();
    let unix = std::fs::read_to_string("/proc/net/unix").expect("this is Linux");
    let pid = server.process().0.to_string();
    let abstract_ones: Vec<_> = unix
        .lines()
        .filter(|line| line.contains(" @highball"))
        .collect();
    assert!(
        !abstract_ones.iter().any(|line| line.ends_with(&pid)),
        "{abstract_ones:?}"
    );
    server.status();
}

#[test]
fn control_sockets_lie_in_a_folder_of_the_servers_user_alone() {
    let runtime = runtime_directory();
    // Several, as systemd has them.
    let variable = format!("RUNTIME_DIRECTORY={}:/nowhere", runtime.path().display());
    let application = Application::new(HELLO);
    // No umask makes it wider or narrower.
    let builder = of_stranger(
        application,
        &[&variable, "sh", "-c", "umask 0; exec \"$@\"", "sh"],
    );
    let server = builder.start();
    let folder = runtime.join("highball");
    let facts = std::fs::metadata(&folder).expect("it is there");
    assert_eq!((facts.mode() & 0o7777, facts.uid()), (0o700, STRANGER));
    // One for its folder and one for its process.
    assert_eq!(sockets(&folder).len(), 2);
    server.stop();
    assert_eq!(sockets(&folder), [""; 0].map(PathBuf::from));
}

#[test]
fn a_command_without_the_servers_variables_finds_it_by_its_folder() {
    let runtime = runtime_directory();
    for variable in ["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "NONE"] {
        let variable = format!("{variable}={}", runtime.path().display());
        let server = of_stranger(Application::new(HELLO), &[&variable]).start();
        let (dir, process) = (server.dir(), server.process());
        for arguments in [
            &["status", "--json"][..],
            &["status", "--json", "--pid", &process.0.to_string()],
        ] {
            assert_eq!(
                front(&as_stranger(dir, arguments)),
                [process],
                "{variable} {arguments:?}"
            );
            // And so does root.
            assert_eq!(
                front(&command(dir, arguments)),
                [process],
                "{variable} {arguments:?}"
            );
        }
        let ran = as_stranger(dir, &["stop"]);
        assert!(ran.status.success(), "{}", ran.output());
        server.wait_end();
    }
}

#[test]
fn a_server_is_found_by_a_link_that_was_moved_since_its_start() {
    let folder = runtime_directory();
    let current = folder.join("current");
    let (first, second) = (Application::new(HELLO), Application::new(HELLO));
    give(second.path());
    symlink(first.path(), &current).expect("a folder of our own");
    let server = of_stranger(first, &[]).folder(current.clone()).start();
    symlink(second.path(), folder.join("new")).expect("a folder of our own");
    std::fs::rename(folder.join("new"), &current).expect("a folder of our own");
    let path = current.display().to_string();
    for _ in 0..2 {
        assert_eq!(
            front(&as_stranger(Path::new("/"), &["status", "--json", &path])),
            [server.process()]
        );
        assert_eq!(
            front(&command(Path::new("/"), &["status", "--json", &path])),
            [server.process()]
        );
        let ran = as_stranger(Path::new("/"), &["restart", &path]);
        assert!(ran.status.success(), "{}", ran.output());
    }
    // Deploy tools remove old releases.
    std::fs::remove_dir_all(server.dir().join("tmp")).expect("it was there");
    assert_eq!(
        front(&as_stranger(Path::new("/"), &["status", "--json", &path])),
        [server.process()]
    );
}

#[test]
fn another_user_neither_finds_a_server_nor_keeps_its_name() {
    let server = Server::app(HELLO).start();
    for (arguments, expected) in [
        (
            &["status"][..],
            "found no running server of your user (uid 61234) for",
        ),
        (
            &["status", "--pid", &server.process().0.to_string()],
            "belongs to uid 0; you are uid 61234: run the command as that user or as root",
        ),
    ] {
        let ran = as_stranger(server.dir(), arguments);
        assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
        assert!(ran.stderr.contains(expected), "{}", ran.output());
    }
    // The owner of the folder may have one there, and looks the same.
    let (dir, pid) = (server.dir().to_owned(), server.process());
    let other = Server::app(HELLO)
        .folder(dir.clone())
        .under(&AS_STRANGER)
        .listen(["127.0.0.1:0"]);
    let other = other.start();
    assert_eq!(front(&command(&dir, &["status", "--json"])), [pid]);
    drop(other);
}

#[test]
fn a_folder_that_others_may_enter_is_not_used_and_the_log_says_so() {
    let runtime = runtime_directory();
    let folder = runtime.join("highball");
    std::fs::create_dir(&folder).expect("a folder of our own");
    give(&folder);
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o750)).expect("it is ours");
    let variable = format!("XDG_RUNTIME_DIR={}", runtime.path().display());
    let server = of_stranger(Application::new(HELLO), &[&variable]).start();
    let line = server
        .log()
        .wait(|line| line.contains("is not used for control sockets"));
    assert!(
        line.contains("mode is 0750") && line.contains("chmod 0700"),
        "{line}"
    );
    // The next place is.
    assert_eq!(sockets(&server.dir().join("tmp/highball")).len(), 2);
    assert_eq!(
        front(&as_stranger(server.dir(), &["status", "--json"])),
        [server.process()]
    );
}

#[test]
fn a_server_without_a_place_for_control_sockets_serves_and_says_so() {
    let application = Application::new(HELLO);
    // Root's, and nobody else may write there.
    let under = [&WITHOUT[..], &AS_STRANGER].concat();
    let server = Server::application_of(application).under(&under).start();
    let line = server
        .log()
        .wait(|line| line.contains("no place for its control sockets"));
    assert!(
        line.contains("tmp") && line.contains("RUNTIME_DIRECTORY"),
        "{line}"
    );
    server.get("/").expect(200);
    let ran = as_stranger(
        server.dir(),
        &["status", "--pid", &server.process().0.to_string()],
    );
    assert!(
        ran.stderr.contains("has no control socket"),
        "{}",
        ran.output()
    );
    assert!(server.stop().status.success());
}

#[test]
fn a_folder_that_cannot_be_written_to_leaves_a_server_without_commands() {
    let application = Application::new(HELLO);
    let folder = application.path().join("tmp/highball");
    std::fs::create_dir_all(&folder).expect("a folder of our own");
    give(&folder);
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o500)).expect("it is ours");
    let server = of_stranger(application, &[]).start();
    let line = server
        .log()
        .wait(|line| line.contains("no place for its control sockets"));
    assert!(line.contains("tmp/highball"), "{line}");
    server.get("/").expect(200);
}

#[test]
fn what_a_killed_server_left_is_replaced_by_the_next_one() {
    let runtime = runtime_directory();
    let variable = format!("RUNTIME_DIRECTORY={}", runtime.path().display());
    let folder = runtime.join("highball");
    let server = of_stranger(Application::new(HELLO), &[&variable]).start();
    let dir = server.dir().to_owned();
    server.process().kill();
    let killed = server.wait_end();
    assert_eq!(sockets(&folder).len(), 2);
    let ran = as_stranger(&dir, &["status"]);
    assert!(
        ran.stderr.contains("found no running server"),
        "{}",
        ran.output()
    );
    let server = of_stranger(killed.application, &[&variable]).start();
    assert_eq!(
        front(&command(&dir, &["status", "--json"])),
        [server.process()]
    );
    let log = server.stop().log;
    assert!(
        !log.iter().any(|line| line.contains("another server runs")),
        "{log:?}"
    );
    assert_eq!(sockets(&folder).len(), 0);
}

#[test]
fn the_first_of_two_servers_of_a_folder_keeps_its_name_whatever_their_variables() {
    let runtime = runtime_directory();
    let variable = format!("RUNTIME_DIRECTORY={}", runtime.path().display());
    let first = of_stranger(Application::new(HELLO), &[&variable]).start();
    let dir = first.dir().to_owned();
    let second = of_stranger(Application::new(HELLO), &[])
        .folder(dir.clone())
        .start();
    second
        .log()
        .wait(|line| line.contains("another server runs for this folder"));
    assert_eq!(
        front(&as_stranger(&dir, &["status", "--json"])),
        [first.process()]
    );
    let pid = second.process().0.to_string();
    assert_eq!(
        front(&as_stranger(&dir, &["status", "--json", "--pid", &pid])),
        [second.process()]
    );
}

#[test]
fn servers_of_two_containers_share_a_directory_but_no_name() {
    let runtime = runtime_directory();
    let variable = format!("RUNTIME_DIRECTORY={}", runtime.path().display());
    let first = of_stranger(Application::new(HELLO), &[&variable]).start();
    let dir = first.dir().to_owned();
    // Process numbers of its own, as in a container with the same volume and the same user.
    let container = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    let variables = [&*variable].into_iter().chain(container);
    let second = of_stranger(Application::new(HELLO), &variables.collect::<Vec<_>>());
    let second = second.folder(dir.clone()).start();
    let inside = second.process().children()[0].0.to_string();
    let in_container = |arguments: &[&str]| {
        let enter = ["--target", &inside, "--pid", "--mount", "env", &variable];
        let program = Program::new("nsenter").args(enter).args(AS_STRANGER);
        program.arg(binary()).args(arguments).arg(&dir).run()
    };
    let ran = in_container(&["status", "--json"]);
    assert_eq!(front(&ran), [test_support::Process(1)]);
    let ran = as_stranger(&dir, &["status", "--json"]);
    assert_eq!(front(&ran), [first.process()]);
    let warns = |line: &String| line.contains("another server runs");
    assert!(!second.log().lines().iter().any(warns));
    assert_eq!(sockets(&runtime.join("highball")).len(), 4);
    // The command is killed with the container as soon as that has no first process.
    in_container(&["stop"]);
    assert!(second.wait_end().status.success());
    let ran = as_stranger(&dir, &["status", "--json"]);
    assert_eq!(front(&ran), [first.process()]);
}

#[test]
fn a_folder_with_a_long_path_has_control_sockets_as_well() {
    let runtime = runtime_directory();
    let long = runtime.join("x".repeat(150));
    std::fs::create_dir(&long).expect("a folder of our own");
    give(&long);
    let variable = format!("RUNTIME_DIRECTORY={}", long.display());
    let mut server = of_stranger(Application::new(HELLO), &[&variable]).start();
    assert_eq!(sockets(&long.join("highball")).len(), 2);
    assert!(as_stranger(server.dir(), &["upgrade"]).status.success());
    let new = front(&as_stranger(server.dir(), &["status", "--json"]))[0];
    let old = server.replaced_by(new);
    assert!(old.wait_gone(test_support::TEST_TIMEOUT));
    // Those of the new one: the old one has removed its own alone.
    assert_eq!(sockets(&long.join("highball")).len(), 2);
    assert_eq!(
        front(&as_stranger(server.dir(), &["status", "--json"])),
        [new]
    );
    server.stop();
    assert_eq!(sockets(&long.join("highball")).len(), 0);
}

#[test]
fn a_server_that_became_another_user_has_its_control_sockets_there() {
    let application = Application::new(HELLO);
    // It has to be in the system's table.
    const NOBODY: u32 = 65_534;
    let as_nobody = |folder: &Path, arguments: &[&str]| {
        let user = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ];
        let program = Program::new(WITHOUT[0]).args(&WITHOUT[1..]).args(user);
        let program = program.arg(binary()).args(arguments);
        program.current_dir(folder).run()
    };
    chown(application.path(), Some(NOBODY), Some(NOBODY)).expect("this test needs root");
    // A folder of root's, as RuntimeDirectory= of a unit without User= is.
    let runtime = Directory::new();
    std::fs::set_permissions(runtime.path(), PermissionsExt::from_mode(0o700)).expect("it is ours");
    let variable = format!("RUNTIME_DIRECTORY={}", runtime.path().display());
    let builder = Server::application_of(application).under(&["env", &variable]);
    let mut server = builder.setting("user", &NOBODY.to_string()).start();
    let folder = runtime.join("highball");
    let facts = std::fs::metadata(&folder).expect("it is there");
    assert_eq!((facts.mode() & 0o7777, facts.uid()), (0o700, NOBODY));
    let status = ["status", "--json"];
    assert_eq!(front(&as_nobody(server.dir(), &status)), [server.process()]);
    assert_eq!(front(&command(server.dir(), &status)), [server.process()]);
    // The new server could not find the folder by its path.
    let ran = as_nobody(server.dir(), &["upgrade"]);
    assert!(ran.status.success(), "{}", ran.output());
    let new = front(&as_nobody(server.dir(), &status))[0];
    server.replaced_by(new);
    assert!(server.stop().status.success());
    assert_eq!(sockets(&folder).len(), 0);
}

/// A program that says that it was run.
fn program(dir: &Directory, name: &str) -> PathBuf {
    let path = dir.write(name, "#!/bin/sh\necho it-was-run\nexit 7\n");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it is ours");
    path
}

#[test]
fn an_upgrade_runs_no_program_that_others_can_change() {
    let server = Server::app(HELLO).start();
    let dir = Directory::new();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
    };
    let upgrade =
        |path: &Path| server.command(&["upgrade", "--binary", &path.display().to_string()]);
    let refused = |path: &Path, parts: &[&str]| {
        let ran = upgrade(path);
        assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
        for part in parts {
            assert!(ran.stderr.contains(part), "{part:?}: {}", ran.output());
        }
    };
    let path = program(&dir, "folder/other");
    let folder = dir.join("folder");
    for bits in [0o775, 0o757] {
        mode(&path, bits);
        refused(
            &path,
            &[&format!(
                "folder/other (mode {bits:04o}) can be changed by other users: chmod go-w it"
            )],
        );
        mode(&path, 0o755);
        mode(&folder, bits);
        refused(
            &path,
            &[&format!(
                "folder (mode {bits:04o}) can be changed by other users"
            )],
        );
        mode(&folder, 0o755);
    }
    // A link is followed before anything is looked at.
    let link = dir.join("link");
    symlink(&path, &link).expect("a folder of our own");
    mode(&path, 0o777);
    refused(&link, &["folder/other (mode 0777)"]);
    mode(&path, 0o755);
    for other in [&path, &folder] {
        chown(other, Some(STRANGER), None).expect("this test needs root");
        refused(
            &link,
            &[
                "belongs to uid 61234: only programs of root or of the server's user (uid 0) are run",
            ],
        );
        chown(other, Some(0), None).expect("this test needs root");
    }
    refused(&folder, &["is not a regular file"]);
    assert!(!server.log().text().contains("it-was-run"));
    // Nothing of that is left: now it is run, by a link as well, from a folder in a sticky one.
    refused(&link, &["exit status: 7"]);
    server.log().wait(|line| line == "it-was-run");
    server.get("/").expect(200);
}

#[test]
fn a_server_of_a_user_runs_programs_of_root_and_its_own() {
    let server = of_stranger(Application::new(HELLO), &[]).start();
    let dir = Directory::new();
    let path = program(&dir, "other");
    for owner in [0, STRANGER] {
        chown(&path, Some(owner), None).expect("this test needs root");
        let ran = as_stranger(
            server.dir(),
            &["upgrade", "--binary", &path.display().to_string()],
        );
        assert!(ran.stderr.contains("exit status: 7"), "{}", ran.output());
    }
}
