//! The dashboard's last day in a file: it outlives a stop, a crash of the server and an upgrade; damage and a folder that takes
//! nothing are told and harm nothing.

use std::path::{Path, PathBuf};

use highball_tests::dashboard::Dashboard;
use rustix::process::Signal;
use test_support::{Application, Directory, Server, until};

const SOURCE: &str = "run ->(_) { Test.text('hello') }";

/// A server of this application that keeps its history in this folder.
fn start(application: Application, folder: &Path) -> Server {
    Server::application_of(application)
        .setting("dashboard_history", folder.to_str().expect("text"))
        .start()
}

/// The file of history in a folder, once there is one.
fn file(folder: &Path) -> PathBuf {
    let find = || {
        let files = std::fs::read_dir(folder).ok()?;
        let mut paths = files.filter_map(|one| Some(one.ok()?.path()));
        paths.find(|path| path.extension().is_some_and(|end| end == "history"))
    };
    until("a history is written", || find().is_some());
    find().expect("it is there")
}

/// Waits until the page of a server holds this text.
fn see(server: &Server, text: &str) {
    let dashboard = Dashboard::open(server);
    let cookie = dashboard.enter();
    until(text, || {
        let page = dashboard.send("GET", "/dashboard/live", &cookie);
        page.expect(200).text().contains(text)
    });
}

/// Waits until a server has counted 20 requests.
fn count_requests(server: &Server) {
    // Before the first reading nothing is counted.
    see(server, "0 requests in ");
    for _ in 0..20 {
        server.get("/").expect(200);
    }
    see(server, "20 requests in ");
}

#[test]
fn history_outlives_a_stop_and_a_crash() {
    let folder = Directory::new();
    let server = start(Application::new(SOURCE), folder.path());
    count_requests(&server);
    let stopped = server.stop();
    let path = file(folder.path());
    assert!(path.metadata().expect("facts").len() < 50_000);
    let server = start(stopped.application, folder.path());
    see(&server, "20 requests in ");
    let mark = format!("the server started: pid {}", server.process().0);
    see(&server, &mark);
    // A crash: what was written last is there.
    std::fs::remove_file(&path).expect("it is ours");
    file(folder.path());
    let killed = server.stop_with(Signal::KILL);
    let server = start(killed.application, folder.path());
    see(&server, "20 requests in ");
    see(&server, &mark);
}

#[test]
fn history_outlives_an_upgrade() {
    let folder = Directory::new();
    let mut server = start(Application::new(SOURCE), folder.path());
    count_requests(&server);
    let ran = server.command(&["upgrade"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    server.replaced_by(ran.process());
    see(&server, "20 requests in ");
    see(
        &server,
        &format!("the server started: pid {}", server.process().0),
    );
}

#[test]
fn a_damaged_history_is_told_and_begins_anew() {
    let folder = Directory::new();
    let stopped = start(Application::new(SOURCE), folder.path()).stop();
    let path = file(folder.path());
    std::fs::write(&path, "something else").expect("it is ours");
    let server = start(stopped.application, folder.path());
    server
        .log()
        .wait(|line| line.contains("the dashboard begins without history"));
    server.get("/").expect(200);
    server.stop();
    let text = std::fs::read(&path).expect("a file");
    assert!(text.starts_with(b"HBHIST"), "it is written again");
}

#[test]
fn a_folder_that_takes_nothing_is_told_once() {
    let folder = Directory::new();
    let no_folder = folder.write("file", "");
    let server = start(Application::new(SOURCE), &no_folder);
    let told = |line: &str| line.contains("the history of the dashboard is not kept: cannot write");
    server.log().wait(told);
    server.get("/").expect(200);
    let stopped = server.stop();
    let lines = stopped.log.iter().filter(|line| told(line));
    assert_eq!(lines.count(), 1, "{:?}", stopped.log);
}
