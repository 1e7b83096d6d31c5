//! Orders from a real certificate authority (Pebble): what is stored, what is ordered again, and what people are told when
//! an order fails.

// tests/tests/acme.rs uses it as well.
#[allow(dead_code)]
mod authority;
mod server;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use highball_certificates::{
    CertificateStatus, ChallengeKind, Clock, ExternalAccount, Installer, Manager, Names, Plan,
    RenewalReason, read_storage,
};
use test_support::{Directory, Program, fill_disk, under_small_disk};

use crate::authority::{
    Authority, DeadAuthority, EXTERNAL_KEY, Options, decider, first_certificate,
};
use crate::server::TestServer;

const HTTP: &[ChallengeKind] = &[ChallengeKind::Http01];
const ALPN: &[ChallengeKind] = &[ChallengeKind::TlsAlpn01];
const BOTH: &[ChallengeKind] = &[ChallengeKind::Http01, ChallengeKind::TlsAlpn01];

/// The variable that names the folder with the small disk.
const SMALL_DISK: &str = "TEST_SMALL_DISK";

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A server with its authority and storage.
struct Setup {
    server: Arc<TestServer>,
    authority: Authority,
    storage: Directory,
}

impl Setup {
    fn new(kinds: &[ChallengeKind]) -> Self {
        Self::with(TestServer::start(kinds), |_| {})
    }

    fn with(server: Arc<TestServer>, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options {
            http: server.http,
            tls: server.tls,
            refused_nonces: 0,
            external_accounts: false,
        };
        change(&mut options);
        Self {
            server,
            authority: Authority::start(&options),
            storage: Directory::new(),
        }
    }

    fn plan(&self, names: &[&str]) -> Plan {
        Plan {
            ca_file: Some(self.authority.ca_file()),
            ..plan(self.authority.directory(), self.storage.path(), names)
        }
    }

    fn start(&self, names: &[&str]) -> Manager {
        self.start_plan(self.plan(names))
    }

    fn start_plan(&self, plan: Plan) -> Manager {
        start(plan, &self.server)
    }

    /// The folder of a name.
    fn folder(&self, name: &str) -> PathBuf {
        let address = self.authority.directory().replace("https://", "");
        let authority = address.replace([':', '/'], "-");
        self.storage.path().join(authority).join(name)
    }
}

fn plan(directory: String, storage: &Path, names: &[&str]) -> Plan {
    Plan {
        sets: names
            .iter()
            .map(|name| Names::new(&[name]).expect("a name"))
            .collect(),
        directory,
        contact: Some("admin@a.example".to_owned()),
        external_account: None,
        // Without one Pebble takes one at random.
        profile: Some("default".to_owned()),
        ca_file: None,
        storage: storage.to_owned(),
        dns_command: None,
        ask_url: None,
    }
}

fn start(plan: Plan, server: &Arc<TestServer>) -> Manager {
    let installer: Arc<dyn Installer> = Arc::<TestServer>::clone(server);
    let clock: Arc<dyn Clock> = Arc::clone(&server.clock) as _;
    Manager::start(plan, installer, clock).expect("a plan that works")
}

fn only(manager: &Manager) -> CertificateStatus {
    let mut all = manager.status();
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

fn warning(manager: &Manager) -> String {
    only(manager).warning.unwrap_or_default()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it exists").permissions().mode() & 0o7777
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[test]
fn a_first_order_by_http01_is_stored_and_found_again() {
    let setup = Setup::new(HTTP);
    let manager = setup.start(&["a.example"]);
    assert_eq!(setup.server.installed(), ["a.example"]);
    setup.server.idle();
    let status = only(&manager);
    assert_eq!(status.warning, None);
    assert_eq!(
        status.not_after.unwrap() - status.not_before.unwrap() + 1,
        7_776_000
    );
    assert_eq!(status.renew_reason, Some(RenewalReason::RenewalInformation));
    assert!(!setup.server.shows_answers());
    let folder = setup.folder("a.example");
    assert_eq!(mode(&folder), 0o700);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap())
        .collect();
    files.sort_by_key(fs::DirEntry::file_name);
    let names: Vec<_> = files
        .iter()
        .map(|file| file.file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, ["certificate.pem", "lock", "state.json"]);
    assert!(files.iter().all(|file| mode(&file.path()) == 0o600));
    drop(manager);

    let stored = read_storage(setup.storage.path(), setup.server.clock.now()).unwrap();
    assert_eq!(stored, std::slice::from_ref(&status));
    let manager = setup.start(&["a.example"]);
    assert_eq!(setup.server.installed(), ["a.example"]);
    setup.server.idle();
    assert_eq!(only(&manager), status);
    assert_eq!(setup.authority.orders(), 1);
}

#[test]
fn a_first_order_by_tls_alpn01() {
    let setup = Setup::new(ALPN);
    let _manager = setup.start(&["a.example"]);
    setup.server.installed();
    setup.server.idle();
    assert!(setup.server.serves("a.example"));
    assert!(!setup.server.shows_answers());
    assert_eq!(setup.authority.orders(), 1);
}

#[test]
fn an_authority_that_refuses_half_of_all_nonces_gets_one_order() {
    let server = TestServer::start(BOTH);
    let setup = Setup::with(server, |options| options.refused_nonces = 50);
    let _manager = setup.start(&["a.example"]);
    setup.server.installed();
    setup.server.idle();
    assert_eq!(setup.authority.orders(), 1);
}

#[test]
fn an_external_account_is_asked_for_and_used() {
    let server = TestServer::start(HTTP);
    let setup = Setup::with(server, |options| options.external_accounts = true);
    let manager = setup.start(&["a.example"]);
    let warned = setup.server.warned();
    assert!(warned.contains("externalAccountRequired"), "{warned}");
    assert!(
        warned.contains("set acme_eab_key_id and acme_eab_key_file"),
        "{warned}"
    );
    drop(manager);

    let file = setup.storage.path().join("eab");
    fs::write(&file, EXTERNAL_KEY).unwrap();
    let account = ExternalAccount::from_file("kid-1".to_owned(), &file).unwrap();
    let plan = Plan {
        external_account: Some(account),
        ..setup.plan(&["a.example"])
    };
    let _manager = setup.start_plan(plan);
    setup.server.idle();
    assert_eq!(setup.authority.count("Successful newAccount Binding"), 0);
    setup.server.clock.advance(2 * MINUTE);
    setup.server.installed();
    assert_eq!(setup.authority.count("Successful newAccount Binding"), 1);
}

#[test]
fn a_certificate_is_renewed_when_renewal_information_says_so() {
    let setup = Setup::new(HTTP);
    let manager = setup.start(&["a.example"]);
    setup.server.installed();
    setup.server.idle();
    let first = only(&manager);
    let pem = fs::read_to_string(setup.folder("a.example").join("certificate.pem")).unwrap();
    let window = ("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z");
    setup
        .authority
        .suggest(&first_certificate(&pem), window.0, window.1);
    // It looks again when Retry-After says so, which Pebble sets to six hours.
    setup.server.clock.advance(7 * HOUR);
    setup.server.installed();
    setup.server.idle();
    assert_ne!(only(&manager).serial, first.serial);
    assert_eq!(setup.authority.count("is a replacement of"), 1);
    assert_eq!(setup.authority.orders(), 2);
}

#[test]
fn an_authority_that_always_says_now_is_not_asked_in_a_circle() {
    let setup = Setup::new(HTTP);
    let manager = setup.start(&["a.example"]);
    setup.server.installed();
    let waited = setup.server.idle();
    let pem = fs::read_to_string(setup.folder("a.example").join("certificate.pem")).unwrap();
    let window = ("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z");
    setup
        .authority
        .suggest(&first_certificate(&pem), window.0, window.1);
    assert!(waited > setup.server.clock.now());
    drop(manager);
    // A new server that has never looked looks at once, and renews an hour after the order at the earliest.
    let state = setup.folder("a.example").join("state.json");
    let text = fs::read_to_string(&state).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["suggestion"] = serde_json::Value::Null;
    fs::write(&state, json.to_string()).unwrap();
    let manager = setup.start(&["a.example"]);
    let waited = setup.server.idle();
    assert!(waited <= setup.server.clock.now() + HOUR);
    assert_eq!(
        only(&manager).renew_at,
        Some(json["ordered"].as_u64().unwrap() + 3600)
    );
    assert_eq!(setup.authority.orders(), 1);
}

#[test]
fn a_profile_is_ordered_and_an_unknown_one_is_reported() {
    let setup = Setup::new(HTTP);
    let profile = |name: &str| Plan {
        profile: Some(name.to_owned()),
        ..setup.plan(&["a.example"])
    };
    let manager = setup.start_plan(profile("imagined"));
    let warned = setup.server.warned();
    assert!(warned.contains("imagined"), "{warned}");
    drop(manager);
    let manager = setup.start_plan(profile("shortlived"));
    setup.server.idle();
    setup.server.clock.advance(2 * MINUTE);
    setup.server.installed();
    setup.server.idle();
    let status = only(&manager);
    assert_eq!(
        status.not_after.unwrap() - status.not_before.unwrap() + 1,
        518_400
    );
}

#[test]
fn an_authority_that_is_down_is_not_asked_before_its_time_by_the_next_server_either() {
    let server = TestServer::start(HTTP);
    let (dead, storage) = (DeadAuthority::start(), Directory::new());
    let ca = Authority::start(&Options {
        http: server.http,
        tls: server.tls,
        refused_nonces: 0,
        external_accounts: false,
    });
    let directory = format!("https://{}/dir", dead.address);
    let plan = Plan {
        ca_file: Some(ca.ca_file()),
        ..plan(directory, storage.path(), &["a.example"])
    };
    let manager = start(plan.clone(), &server);
    server.warned();
    let retry = server.idle();
    assert!(
        warning(&manager).contains("there is no certificate: "),
        "{:?}",
        only(&manager)
    );
    assert_eq!(only(&manager).failure.unwrap().retry_at, seconds(retry));
    assert!(retry >= server.clock.now() + MINUTE);
    drop(manager);
    let asked = dead.connections();
    assert!(asked >= 1);

    let manager = start(plan, &server);
    assert_eq!(server.idle(), retry);
    assert_eq!(dead.connections(), asked);
    server.clock.set(retry);
    server.warned();
    assert!(dead.connections() > asked);
    assert!(server.idle() >= retry + 2 * MINUTE);
    assert_eq!(only(&manager).failure.unwrap().failures, 2);
}

#[test]
fn an_old_certificate_serves_on_and_the_status_warns_before_it_ends_and_after() {
    let mut setup = Setup::new(HTTP);
    let manager = setup.start(&["a.example"]);
    setup.server.installed();
    setup.server.idle();
    setup.authority.stop();
    let not_after = UNIX_EPOCH + Duration::from_secs(only(&manager).not_after.unwrap());
    assert_eq!(warning(&manager), "");
    setup.server.clock.set(not_after - 20 * DAY);
    setup.server.warned();
    setup.server.idle();
    let expected =
        "the certificate expires soon and has not been renewed: reading the authority's directory";
    assert!(
        warning(&manager).starts_with(expected),
        "{}",
        warning(&manager)
    );
    setup.server.clock.set(not_after);
    setup.server.warned();
    setup.server.idle();
    let expected = "the certificate has expired: reading the authority's directory";
    assert!(
        warning(&manager).starts_with(expected),
        "{}",
        warning(&manager)
    );
    assert!(setup.server.serves("a.example"));
}

#[test]
fn nothing_is_ordered_that_could_not_be_stored() {
    let setup = Setup::new(HTTP);
    let blocked = setup.folder("a.example").join("reserve.new");
    fs::create_dir_all(&blocked).unwrap();
    let manager = setup.start(&["a.example"]);
    setup.server.warned();
    setup.server.idle();
    assert!(
        warning(&manager).contains("cannot write"),
        "{}",
        warning(&manager)
    );
    assert_eq!(setup.authority.orders(), 0);
    fs::remove_dir(&blocked).unwrap();
    setup.server.clock.advance(MINUTE);
    setup.server.installed();
    setup.server.idle();
    assert_eq!(warning(&manager), "");
}

/// Has this test program run one of its tests again where the storage is a disk of so many bytes, and returns true there: the
/// folder is mounted for that process alone.
fn is_on_small_disk(test: &str, bytes: usize) -> bool {
    if std::env::var_os(SMALL_DISK).is_some() {
        return true;
    }
    let folder = Directory::new();
    let command = under_small_disk(folder.path(), bytes, "exec \"$@\"");
    let ran = Program::new(&command[0])
        .args(&command[1..])
        .arg(std::env::current_exe().expect("the test program"))
        .args(["--exact", test, "--nocapture"])
        .env(SMALL_DISK, folder.path())
        .run();
    assert!(ran.status.success(), "{}", ran.output());
    assert!(ran.stdout.contains("1 passed"), "{}", ran.output());
    false
}

#[test]
fn on_a_full_disk_nothing_is_ordered_and_the_old_certificate_serves_on() {
    let test = "on_a_full_disk_nothing_is_ordered_and_the_old_certificate_serves_on";
    if !is_on_small_disk(test, 1 << 20) {
        return;
    }
    let setup = Setup::new(HTTP);
    let disk = PathBuf::from(std::env::var_os(SMALL_DISK).unwrap());
    let manager = setup.start_plan(Plan {
        storage: disk.clone(),
        ..setup.plan(&["a.example"])
    });
    setup.server.installed();
    setup.server.idle();
    let first = only(&manager);
    assert_eq!(first.warning, None);
    let fill = disk.join("fill");
    fill_disk(&fill);
    // It is due, and is tried again and again in vain.
    let due = first.renew_at.unwrap();
    setup
        .server
        .clock
        .set(UNIX_EPOCH + Duration::from_secs(due) + MINUTE);
    setup.server.warned();
    for _ in 0..5 {
        let retry = setup.server.idle();
        let warning = warning(&manager);
        assert!(warning.contains("No space left on device"), "{warning}");
        assert!(setup.server.serves("a.example"));
        setup.server.clock.set(retry);
    }
    let retry = setup.server.idle();
    assert_eq!(only(&manager).serial, first.serial);
    assert_eq!(setup.authority.orders(), 1);
    fs::remove_file(fill).unwrap();
    setup.server.clock.set(retry);
    setup.server.installed();
    setup.server.idle();
    assert_eq!(warning(&manager), "");
    assert_ne!(only(&manager).serial, first.serial);
    assert_eq!(setup.authority.orders(), 2);
    let stored = read_storage(&disk, setup.server.clock.now()).unwrap();
    assert_eq!(stored[0].serial, only(&manager).serial);
}

#[test]
fn a_certificate_that_cannot_be_stored_is_served_and_not_ordered_again() {
    let setup = Setup::new(HTTP);
    let blocked = setup.folder("a.example").join("certificate.pem.new");
    fs::create_dir_all(&blocked).unwrap();
    let manager = setup.start(&["a.example"]);
    setup.server.installed();
    setup.server.warned();
    for _ in 0..5 {
        let retry = setup.server.idle();
        assert!(
            warning(&manager).contains("served from memory only"),
            "{}",
            warning(&manager)
        );
        setup.server.clock.set(retry);
    }
    setup.server.idle();
    fs::remove_dir(&blocked).unwrap();
    setup.server.clock.advance(MINUTE);
    setup.server.idle();
    assert_eq!(warning(&manager), "");
    drop(manager);
    let stored = read_storage(setup.storage.path(), setup.server.clock.now()).unwrap();
    assert!(stored[0].not_after.is_some());
    assert_eq!(setup.authority.orders(), 1);
}

#[test]
fn an_order_that_was_interrupted_is_continued() {
    let setup = Setup::new(HTTP);
    let blocked = setup.folder("a.example").join("order-key.pem.new");
    fs::create_dir_all(&blocked).unwrap();
    let manager = setup.start(&["a.example"]);
    setup.server.warned();
    setup.server.idle();
    drop(manager);
    fs::remove_dir(&blocked).unwrap();
    let _manager = setup.start(&["a.example"]);
    setup.server.installed();
    assert_eq!(setup.authority.orders(), 1);
}

#[test]
fn a_storage_that_was_lost_is_written_again_without_an_order() {
    let setup = Setup::new(HTTP);
    let manager = setup.start(&["a.example"]);
    setup.server.installed();
    setup.server.idle();
    let folder = setup.folder("a.example");
    let (certificate, account) = (
        folder.join("certificate.pem"),
        folder.with_file_name("account.json"),
    );
    let before = fs::read(&certificate).unwrap();
    fs::remove_dir_all(folder.parent().unwrap()).unwrap();
    setup.server.clock.advance(7 * HOUR);
    setup.server.idle();
    assert_eq!(fs::read(&certificate).unwrap(), before);
    assert!(account.exists());
    drop(manager);
    assert_eq!(setup.authority.orders(), 1);
    assert_eq!(setup.authority.count("accounts in memory"), 1);
}

#[test]
fn a_name_that_leads_elsewhere_is_reported_in_the_authoritys_words_and_tried_otherwise() {
    let setup = Setup::with(TestServer::mute(BOTH), |_| {});
    let manager = setup.start(&["a.example"]);
    let warned = setup.server.warned();
    assert!(warned.contains("checking a.example: "), "{warned}");
    let retry = setup.server.idle();
    let failure = only(&manager).failure.unwrap();
    assert_eq!(failure.problem.as_deref(), Some("unauthorized"));
    assert!(failure.text.contains("HTTP"), "{}", failure.text);
    assert!(warning(&manager).contains(&failure.text));
    assert!(!failure.text.contains(char::is_control));
    setup.server.clock.set(retry);
    let warned = setup.server.warned();
    assert!(warned.contains("tls"), "{warned}");
    assert_eq!(setup.authority.orders(), 2);
}

#[test]
fn a_name_that_the_authority_refuses_harms_no_other() {
    let setup = Setup::new(HTTP);
    let manager = setup.start(&["blocked.example", "a.example"]);
    assert_eq!(setup.server.installed(), ["a.example"]);
    let all = manager.status();
    let blocked = all
        .iter()
        .find(|one| one.names == ["blocked.example"])
        .unwrap();
    let failure = blocked.failure.clone().map(|failure| failure.problem);
    assert!(failure.is_none() || failure == Some(Some("rejectedIdentifier".to_owned())));
    assert!(setup.server.serves("a.example") && !setup.server.serves("blocked.example"));
}

#[test]
fn two_servers_with_one_storage_make_one_order() {
    let setup = Setup::new(HTTP);
    let first = setup.start(&["a.example"]);
    let second = setup.start(&["a.example"]);
    setup.server.installed();
    // The one that found the lock taken looks again later, and finds the certificate.
    let done = || [&first, &second].map(|manager| only(manager).serial);
    while done().iter().any(Option::is_none) {
        setup.server.idle();
        setup.server.clock.advance(Duration::from_secs(10));
    }
    assert_eq!(done()[0], done()[1]);
    assert_eq!(setup.authority.orders(), 1);
}

#[test]
fn a_name_on_demand_gets_a_certificate_if_the_address_that_is_asked_says_yes() {
    let setup = Setup::new(HTTP);
    let plan = Plan {
        ask_url: Some(decider("shop.example")),
        ..setup.plan(&[])
    };
    let manager = setup.start_plan(plan.clone());
    let demands = manager.demands().expect("an address to ask");
    let decided = |name| {
        let decided = demands.demand(name).expect("room for another client");
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.build().unwrap().block_on(decided);
    };
    decided("attacker.example");
    let warned = setup.server.warned();
    assert!(
        warned.contains("attacker.example: acme_ask_url answered 403"),
        "{warned}"
    );
    let other_client = demands.demand("shop.example");
    decided("shop.example");
    assert_eq!(setup.server.installed(), ["shop.example"]);
    drop(other_client);
    setup.server.idle();
    drop(manager);
    // The next server knows it from the storage.
    let _manager = setup.start_plan(plan);
    assert_eq!(setup.server.installed(), ["shop.example"]);
    assert_eq!(setup.authority.orders(), 1);
}
