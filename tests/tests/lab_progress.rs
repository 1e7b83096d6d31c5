//! What a load shows in a terminal while it runs, as a picture.

use std::io::Read as _;
use std::process::{Command, Stdio};

use highball_tests::terminal_picture::keep_terminal_pictures;
use test_support::{Directory, PseudoTerminal, Server};

#[test]
fn a_load_that_runs_shows_its_progress() {
    let server = Server::app(r##"run lambda { |_| Test.text("hello") }"##).start();
    let terminal = PseudoTerminal::new(80).expect("a terminal");
    let mut child = Command::new(test_support::binary())
        .args(["load", &format!("http://{}/", server.address()), "-d", "2s"])
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(terminal.program_end().expect("its other end"))
        .spawn()
        .expect("the program starts");
    let mut reader = terminal.reader().expect("this end");
    let (mut written, mut buffer) = (Vec::new(), [0; 4096]);
    let shows = |written: &[u8]| String::from_utf8_lossy(written).contains("load 1 s: ");
    while !shows(&written) {
        let count = reader.read(&mut buffer).expect("it shows its progress");
        written.extend_from_slice(&buffer[..count]);
    }
    let folder = Directory::new();
    keep_terminal_pictures(&written, 80, "lab_progress", folder.path());
    // It ends while nobody reads: what it still writes fits into the terminal.
    assert!(child.wait().expect("it ends").success());
}
