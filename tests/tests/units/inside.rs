//! How a scenario comes to run in the virtual machine: this very test program runs there once more, as a unit, with the
//! same arguments; each test takes its result from what that run reports.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use test_support::{Directory, REPORT, binary, ruby_library, run_machine, workspace};

/// Set where this program runs in the machine.
const VARIABLE: &str = "HIGHBALL_TEST_INSIDE";
/// How long the machine may take for all of it, beside other work.
const TEST_TIMEOUT: Duration = Duration::from_secs(1200);

/// Runs a scenario, the closure of a test, in the machine, which is booted once for all.
#[track_caller]
pub(crate) fn inside(scenario: impl FnOnce()) {
    static REPORT_OF_ALL: OnceLock<Result<String, String>> = OnceLock::new();
    // One service has one name.
    static TURN: Mutex<()> = Mutex::new(());
    let name = test_of(&scenario);
    if std::env::var_os(VARIABLE).is_some() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        return scenario();
    }
    match REPORT_OF_ALL.get_or_init(run) {
        Err(error) => panic!("{error}"),
        Ok(report) if report.contains(&format!("test {name} ... ok\n")) => {}
        Ok(report) => panic!("in the machine:\n{}", part_about(name, report)),
    }
}

/// The name of the test that a closure stands in: `units::NAME::{{closure}}`.
fn test_of<T>(_: &T) -> &'static str {
    let name = std::any::type_name::<T>();
    let mut parts = name.rsplit("::").skip(1);
    parts.next().expect("a closure stands in a function")
}

/// What a report says about a test that failed; all of it where it does not say that.
fn part_about<'a>(name: &str, report: &'a str) -> &'a str {
    let begins = report.find(&format!("---- {name} stdout ----"));
    let part = begins.map(|at| &report[at..]);
    let end = |part: &str| {
        ["\n---- ", "\nfailures:"]
            .iter()
            .filter_map(|end| part.find(end))
            .min()
    };
    part.map_or(report, |part| &part[..end(part).unwrap_or(part.len())])
}

fn run() -> Result<String, String> {
    let files = files();
    let left = run_machine(&files, TEST_TIMEOUT).map_err(|error| error.to_string())?;
    match left.report.contains("test result: ") {
        true => Ok(left.report),
        false => Err(format!(
            "the virtual machine did not come to the end of the tests: {left}"
        )),
    }
}

/// All that is in the machine beside `/usr`.
fn files() -> Directory {
    let files = Directory::new();
    files.write("etc/machine-id", "0".repeat(31) + "1\n");
    files.write("etc/hostname", "machine\n");
    files.write("etc/nsswitch.conf", "passwd: files\ngroup: files\n");
    let users =
        "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/:/bin/sh\nshop:x:1000:1000::/:/bin/sh\n";
    files.write(
        "etc/passwd",
        users.to_owned() + "nobody:x:65534:65534::/:/bin/sh\n",
    );
    files.write(
        "etc/group",
        "root:x:0:\nwww-data:x:33:\nshop:x:1000:\nnogroup:x:65534:\n",
    );
    files.write(
        "etc/pam.d/runuser",
        "auth sufficient pam_rootok.so\naccount required pam_permit.so\nsession required pam_permit.so\n",
    );
    files.write("etc/default/highball-shop", "SECRET_KEY_BASE=whispered\n");
    files.write("srv/shop/README", "Made by the tests.\n");
    // As two installed gems have it. The link is in place of the one that a package would make.
    for version in ["1", "2"] {
        let gem = format!("opt/highball-{version}");
        let program = files.write(&format!("{gem}/libexec/highball"), "");
        copy(&binary(), &program);
        copy_all(&ruby_library(), &files.join(format!("{gem}/lib")));
    }
    for name in ["highball@.service", "highball@.socket"] {
        let own = files.write(&format!("etc/systemd/system/{name}"), "");
        copy(&workspace().join("contrib/systemd").join(name), &own);
    }
    let rules = files.write("etc/logrotate.d/highball", "");
    copy(&workspace().join("packaging/debian/logrotate"), &rules);
    let tests = files.write("opt/tests/units", "");
    copy(&std::env::current_exe().expect("a test has a path"), &tests);
    files.write("etc/systemd/system/tests.service", unit());
    let target = "[Unit]\nRequires=basic.target tests.service\nAfter=basic.target\n";
    files.write("etc/systemd/system/default.target", target);
    files
}

/// The unit that runs the tests, and then ends the machine.
fn unit() -> String {
    // `cargo test --quiet` shows dots instead of the names that the report must have.
    let arguments = std::env::args().skip(1).filter(|one| one != "--quiet");
    let arguments: Vec<String> = arguments.map(|one| format!(" \"{one}\"")).collect();
    format!(
        "[Unit]\nSuccessAction=poweroff-force\nFailureAction=poweroff-force\n\
         [Service]\nType=oneshot\nTimeoutStartSec=infinity\nStandardOutput=file:{REPORT}\nStandardError=inherit\n\
         ExecStartPre=/bin/ln -s /opt/highball-1/libexec/highball /usr/bin/highball\n\
         Environment={VARIABLE}=1 TMPDIR=/srv HIGHBALL_BIN=/usr/bin/highball\n\
         ExecStart=/opt/tests/units{}\n",
        arguments.concat()
    )
}

fn copy(from: &Path, to: &Path) {
    let copied = std::fs::copy(from, to);
    copied.unwrap_or_else(|error| panic!("{}: {error}", from.display()));
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder in a directory of our own");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy_all(&from, &to),
            false => copy(&from, &to),
        }
    }
}

/// Has `/usr/bin/highball` be this version's.
pub(crate) fn install(version: &str) {
    let link = Path::new("/usr/bin/highball");
    std::fs::remove_file(link).expect("it is installed");
    symlink(format!("/opt/highball-{version}/libexec/highball"), link).expect("root may do that");
}
