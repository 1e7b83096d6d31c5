//! Applications with users of their own: what each of them, the front and the launchers may do, and what reaches them. All
//! of these tests need root.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use highball_tests::own_users::{FRONT, SHOP, WIKI, fact, give, launchers, start, uid};
use highball_tests::several::{Several, prepared, settings_file};
use serde_json::Value;
use sha2::{Digest, Sha256};
use test_support::{Application, Client, Process, Program, Server, binary, until};

/// Says who it is, runs what a client asks for, or digests a body. The class is loaded at the start: `Digest` alone loads
/// one when it is first named, and threads that name it at once may get an error.
const EVALUATES: &str = r##"require "digest/sha2"
run lambda { |env|
  input = env["rack.input"]
  if env["PATH_INFO"] == "/digest"
    digest, bytes = Digest::SHA256.new, 0
    while (piece = input.read(65_536))
      digest << piece
      bytes += piece.bytesize
    end
    input.rewind if input.respond_to?(:rewind)
    next Test.text("#{bytes} #{digest.hexdigest} #{input.read(1)&.bytesize}")
  end
  result =
    begin
      eval(Test.input(env))
    rescue SystemCallError => error
      error.class
    end
  next result if result.is_a?(Array) && result.size == 3
  Test.text(result.to_s)
}"##;

fn both(settings: &str) -> Several {
    let applications = [EVALUATES, EVALUATES].map(Application::without_lint);
    start(applications, settings, |builder| builder)
}

/// What the application of this name answers to code.
#[track_caller]
fn evaluate(several: &Several, name: &str, code: &str) -> String {
    let mut client = several.server.connect();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: {name}.test\r\nContent-Length: {}\r\n\r\n{code}",
        code.len()
    ));
    client.response().expect(200).text()
}

#[test]
fn each_application_has_its_user_and_the_front_has_no_rights() {
    let several = both("");
    let who = "[Process.uid, Process.euid, Process.gid, `id -u`.to_i, ENV['USER']].join(' ')";
    for (name, user) in [("shop", SHOP), ("wiki", WIKI)] {
        let id = uid(user);
        let said = evaluate(&several, name, who);
        let words: Vec<_> = said.split(' ').collect();
        for word in [words[0], words[1], words[3]] {
            assert_eq!(word, id.to_string(), "{said}");
        }
        assert_eq!(words[4], user);
        assert_ne!(words[2], "0");
    }
    let front = several.server.process();
    let [shop, wiki] = launchers(&several);
    for (process, user) in [(front, FRONT), (shop, SHOP), (wiki, WIKI)] {
        assert_eq!(fact(process, "Uid:"), uid(user).to_string());
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(fact(process, set), "0000000000000000", "{set} of {user}");
        }
    }
    several.server.stop();
}

/// The inodes of memory files and sockets that processes have open.
fn open_files(processes: &[Process]) -> BTreeSet<(u64, u64)> {
    let mut all = BTreeSet::new();
    for process in processes {
        let entries = fs::read_dir(format!("/proc/{}/fd", process.0)).expect("it runs");
        for path in entries.flatten().map(|entry| entry.path()) {
            let link = fs::read_link(&path).unwrap_or_default();
            let link = link.to_string_lossy();
            if (link.contains("memfd:") || link.starts_with("socket:"))
                && let Ok(facts) = fs::metadata(&path)
            {
                all.insert((facts.dev(), facts.ino()));
            }
        }
    }
    all
}

#[test]
fn no_process_of_an_application_has_a_descriptor_of_the_other() {
    let several = both("");
    let front = several.server.process();
    let of = |name: &str| -> Vec<Process> {
        let all = several.processes(name).into_iter();
        all.filter(|one| *one != front).collect()
    };
    let [of_shop, of_wiki] = launchers(&several);
    let sets = [
        of("shop"),
        of("wiki"),
        vec![of_shop],
        vec![of_wiki],
        vec![front],
    ];
    assert!(
        sets[0].len() >= 2 && sets[1].len() >= 2,
        "template and worker"
    );
    let [shop, wiki, of_shop, of_wiki, front] = sets.map(|one| open_files(&one));
    assert!(!shop.is_empty() && !wiki.is_empty());
    for (one, other) in [
        (&shop, &wiki),
        (&of_shop, &of_wiki),
        (&shop, &of_wiki),
        (&wiki, &of_shop),
        (&shop, &of_shop),
    ] {
        let common: Vec<_> = one.intersection(other).collect();
        assert_eq!(common, Vec::<&(u64, u64)>::new());
    }
    // Of the front they have the memory of their exchange, and no socket.
    assert_eq!(shop.intersection(&front).count(), 1);
}

#[test]
fn no_application_reaches_files_or_processes_of_another() {
    let several = both("");
    let secret = several.applications[1].path().join("secret");
    fs::write(&secret, "x").expect("a folder of our own");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("it is ours");
    give(&secret, WIKI);
    let path = secret.display();
    assert_eq!(
        evaluate(&several, "wiki", &format!("File.read('{path}')")),
        "x"
    );
    assert_eq!(
        evaluate(&several, "shop", &format!("File.read('{path}')")),
        "Errno::EACCES"
    );
    let front = several.server.process();
    let [own, other] = launchers(&several);
    let mut foreign: Vec<Process> = several.processes("wiki");
    foreign.extend([front, other]);
    for process in &foreign {
        let pid = process.0;
        let kill = evaluate(&several, "shop", &format!("Process.kill(0, {pid})"));
        assert_eq!(kill, "Errno::EPERM", "{pid}");
    }
    // It may end its own launcher, but not look into it.
    for process in foreign.iter().chain([&own]) {
        let pid = process.0;
        for code in [
            format!("Dir.children('/proc/{pid}/fd')"),
            format!("File.open('/proc/{pid}/mem')"),
            format!("File.open('/proc/{pid}/environ').read"),
        ] {
            assert_eq!(evaluate(&several, "shop", &code), "Errno::EACCES", "{code}");
        }
    }
    let control = format!("Dir.children('/run/highball-{}')", uid(FRONT));
    assert_eq!(evaluate(&several, "shop", &control), "Errno::EACCES");
}

#[test]
fn large_bodies_arrive_byte_for_byte() {
    let several = both("");
    for (name, bytes) in [("shop", 1_000_000), ("wiki", 100_000_000), ("shop", 65_537)] {
        let body: Vec<u8> = (0..bytes)
            .map(|at: usize| (at * 7 / 3 % 251) as u8)
            .collect();
        let digest: String = Sha256::digest(&body)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let mut client = several.server.connect();
        client.send(format!(
            "POST /digest HTTP/1.1\r\nHost: {name}.test\r\nContent-Length: {bytes}\r\n\r\n"
        ));
        client.send(&body[..]);
        let response = client.response();
        // It can be read again.
        assert_eq!(response.expect(200).text(), format!("{bytes} {digest} 1"));
    }
}

#[test]
fn many_threads_get_the_bodies_of_their_own_requests() {
    let applications = [EVALUATES, EVALUATES].map(Application::without_lint);
    let several = start(applications, "threads = 4\nworkers = 2", |builder| builder);
    std::thread::scope(|scope| {
        for client in 0..8_usize {
            let address = several.server.address();
            scope.spawn(move || {
                for round in 0..20_usize {
                    let bytes = 70_000 + client * 1000 + round;
                    let body = vec![(client * 20 + round) as u8; bytes];
                    let digest: String =
                        Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
                    let mut client = Client::connect(address);
                    client.send(format!(
                        "POST /digest HTTP/1.1\r\nHost: shop.test\r\nContent-Length: {bytes}\r\n\r\n"
                    ));
                    client.send(&body[..]);
                    let text = client.response().expect(200).text();
                    assert_eq!(text, format!("{bytes} {digest} 1"));
                }
            });
        }
    });
}

/// Asks the front, with the words of a worker, for the bodies of all slots; says how many answers and descriptors came.
const ASKS_FOR_ALL: &str = r##"
require "json"
$answers = []
Highball::Bodies.class_eval { define_method(:answer) { |*, descriptor| $answers << descriptor } }
sockets = Dir.children("/proc/self/fd").filter_map do |number|
  socket = Socket.for_fd(Integer(number))
  socket.autoclose = false
  socket if socket.getsockopt(:SOCKET, :TYPE).int == Socket::SOCK_SEQPACKET
rescue SystemCallError
  nil
end
sockets.each do |socket|
  8.times { |slot| 4.times { |sequence| socket.send(JSON.generate({ Body: { thread: 0, slot:, sequence: } }), 0) } }
end
Highball.purge(tag: "answered after those")
"#{$answers.size} #{$answers.compact.size}"
"##;

#[test]
fn a_worker_gets_no_body_but_that_of_its_own_claim() {
    const WAITS: &str =
        r##"run lambda { |env| Test.pass("work", env["rack.input"].read(1)); Test.text("done") }"##;
    let applications = [
        Application::without_lint(EVALUATES),
        Application::new(WAITS),
    ];
    let (mut events, gate) = (applications[1].events(), applications[1].gate("work"));
    let several = start(applications, "", |builder| builder);
    let mut client = several.server.connect();
    client.send("POST / HTTP/1.1\r\nHost: wiki.test\r\nContent-Length: 100000\r\n\r\n");
    client.send(vec![b'x'; 100_000]);
    assert_eq!(events.wait(), "x");
    let said = evaluate(&several, "shop", ASKS_FOR_ALL);
    assert_eq!(said, "32 0");
    gate.admit(1);
    assert_eq!(client.response().text(), "done");
}

#[test]
fn files_of_the_front_are_not_served_for_an_application() {
    let applications = [EVALUATES, EVALUATES].map(Application::without_lint);
    let secrets = Application::new("raise 'never run'");
    let (key, table) = (secrets.path().join("key"), secrets.path().join("open"));
    for (path, mode) in [(&key, 0o600), (&table, 0o644)] {
        fs::write(path, "the secret").expect("a folder of our own");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
    }
    give(secrets.path(), FRONT);
    let shop = applications[0].path().to_owned();
    for folder in ["public", "errors"] {
        fs::create_dir(shop.join(folder)).expect("a folder of our own");
    }
    symlink(&key, shop.join("public/key")).expect("a folder of our own");
    symlink(&key, shop.join("errors/502.html")).expect("a folder of our own");
    symlink(&key, shop.join("errors/500.html")).expect("a folder of our own");
    fs::write(shop.join("public/own"), "its own").expect("a folder of our own");
    fs::set_permissions(shop.join("public/own"), Permissions::from_mode(0o604))
        .expect("it is ours");
    let keys = format!(
        "error_pages = \"errors\"\nsendfile_roots = [\"{}\", \"{}\"]",
        secrets.path().display(),
        shop.display()
    );
    let several = start(applications, &keys, |builder| builder);
    let named = |path: &std::path::Path| {
        let code = format!("[200, {{ 'x-sendfile' => '{}' }}, []]", path.display());
        let mut client = several.server.connect();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: {}\r\n\r\n{code}",
            code.len()
        ));
        client.response()
    };
    let refused = named(&key);
    assert_eq!(refused.status(), 500, "{}", refused.text());
    assert!(!refused.text().contains("the secret"));
    several
        .server
        .log()
        .wait(|line| line.contains("cannot read an error page"));
    // What everybody may read, and what is its own, it gets.
    assert_eq!(named(&table).expect(200).text(), "the secret");
    assert_eq!(
        named(&shop.join("public/own")).expect(200).text(),
        "its own"
    );
    // And nothing of that is the other's by the links of the first one.
    let leaf = several.applications[1].path().join("secret");
    fs::write(&leaf, "of wiki").expect("a folder of our own");
    fs::set_permissions(&leaf, Permissions::from_mode(0o640)).expect("it is ours");
    give(&leaf, WIKI);
    symlink(&leaf, shop.join("public/other")).expect("a folder of our own");
    assert_eq!(named(&shop.join("public/other")).status(), 500);
}

#[test]
fn a_public_folder_is_served_within_the_rights_of_its_application() {
    let applications = [EVALUATES, EVALUATES].map(Application::without_lint);
    let shop = applications[0].path().to_owned();
    let public = shop.join("public");
    fs::create_dir(&public).expect("a folder of our own");
    for (name, mode) in [("open.txt", 0o644), ("mixed.txt", 0o640)] {
        fs::write(public.join(name), name).expect("a folder of our own");
        fs::set_permissions(public.join(name), Permissions::from_mode(mode)).expect("it is ours");
    }
    let several = start(applications, "public_files = \"public\"", |builder| builder);
    several.get("shop.test", "/open.txt").expect(200);
    // The front alone may read it: the application is asked instead.
    give(&public.join("mixed.txt"), FRONT);
    let response = several.get("shop.test", "/mixed.txt");
    assert!(!response.text().contains("mixed"), "{}", response.text());
}

#[test]
fn bodies_that_are_files_are_read_by_the_worker() {
    let several = both("");
    let path = several.applications[0].path().join("private");
    fs::write(&path, "private").expect("a folder of our own");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
    give(&path, SHOP);
    let code = format!(
        "body = File.open('{}'); def body.to_path = path; [200, {{}}, body]",
        path.display()
    );
    assert_eq!(evaluate(&several, "shop", &code), "private");
}

#[test]
fn status_has_the_memory_of_processes_of_other_users() {
    let several = both("");
    for name in ["shop", "wiki"] {
        until("all are measured", || {
            let status = several.status(name);
            let all = status["processes"].as_array().expect("a list").clone();
            let is_measured = |one: &Value| one["memory"]["pss_bytes"].as_u64().unwrap_or(0) > 1000;
            let worker = all.iter().find(|one| one["role"] == "worker");
            let first = worker.is_some_and(|one| one["first_memory_bytes"].is_u64());
            all.len() >= 2 && all.iter().all(is_measured) && first
        });
    }
}

#[test]
fn a_user_that_cannot_be_had_is_refused_with_application_and_remedy() {
    let application = Application::new("raise 'never run'");
    let folder = Application::new("raise 'never run'");
    let check = |user: &str, wrapper: &[&str], expect: &str| {
        let table = format!("user = \"{user}\"");
        let applications = [Application::new("raise 'never run'")];
        let file = settings_file(&applications, &[("shop", &table)]);
        folder.dir().write("highball.toml", file);
        let mut words = wrapper
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>();
        words.extend([
            binary().display().to_string(),
            "serve".to_owned(),
            folder.path().display().to_string(),
            "--listen".to_owned(),
            "127.0.0.1:0".to_owned(),
        ]);
        let ran = Program::new(&words[0]).args(&words[1..]).run();
        assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
        assert!(ran.output().contains(expect), "{}", ran.output());
    };
    drop(application);
    check(
        "root",
        &[],
        "application shop: its user is root, which an application must not be",
    );
    check(
        "nowhere",
        &[],
        "application shop: there is no user \"nowhere\" (setting user)",
    );
    let copy = folder.path().join("program");
    fs::copy(binary(), &copy).expect("a folder of our own");
    let id = uid(FRONT);
    let reuid = format!("--reuid={id}");
    check(
        SHOP,
        &["setpriv", &reuid, "--clear-groups", "env"],
        &format!(
            "this server was started as uid {id}; only root can start processes of another user: start it as root, or remove \
             user from its table"
        ),
    );
}

#[test]
fn applications_of_the_servers_user_have_no_launcher() {
    let applications =
        ["shop", "wiki"].map(|_| Application::new(r##"run lambda { |env| Test.text("x") }"##));
    applications.iter().for_each(|one| give(one.path(), FRONT));
    let same = format!("hosts = [\"shop.test\"]\nuser = \"{FRONT}\"");
    let tables = [("shop", &*same), ("wiki", "hosts = [\"wiki.test\"]")];
    let several = prepared(applications.into(), &tables, |builder| {
        builder.setting("user", FRONT)
    });
    several.until_all_serve();
    let children = several.server.process().children();
    let is_launcher = |one: &&Process| fact(**one, "Name:").contains("launch");
    assert_eq!(children.iter().filter(is_launcher).count(), 0);
    assert_eq!(children.len(), 2, "templates");
}

#[test]
fn a_check_loads_applications_as_their_users() {
    let source = "Test.tell(Process.uid)\nrun lambda { |env| Test.text('x') }";
    let applications = [Application::new(source)];
    let mut events = applications[0].events();
    give(applications[0].path(), SHOP);
    let folder = Application::new("raise 'never run'");
    let table = format!("user = \"{SHOP}\"");
    let file = settings_file(&applications, &[("shop", &table)]);
    folder.dir().write("highball.toml", file);
    let ran = Program::new(binary())
        .args(["check"])
        .arg(folder.path())
        .run();
    assert!(ran.status.success(), "{}", ran.output());
    assert!(
        ran.output().contains(&format!("user  {SHOP}")),
        "{}",
        ran.output()
    );
    assert_eq!(events.wait(), uid(SHOP).to_string());
}

#[test]
fn a_mixed_server_warns_of_applications_without_a_user() {
    let applications =
        ["shop", "wiki"].map(|_| Application::new(r##"run lambda { |env| Test.text("x") }"##));
    give(applications[0].path(), SHOP);
    let own = format!("hosts = [\"shop.test\"]\nuser = \"{SHOP}\"");
    let tables = [("shop", &*own), ("wiki", "hosts = [\"wiki.test\"]")];
    let several = prepared(applications.into(), &tables, |builder| {
        builder.setting("user", FRONT)
    });
    several
        .server
        .log()
        .wait(|line| line.contains("application wiki has the user of the front"));
    let server: Server = several.server;
    server.stop();
}

#[test]
fn no_application_is_run_by_what_another_one_can_change() {
    let applications = [EVALUATES, EVALUATES].map(Application::without_lint);
    let ruby = applications[0].path().join("ruby");
    symlink("/usr/bin/ruby", &ruby).expect("a folder of our own");
    give(applications[0].path(), SHOP);
    give(applications[1].path(), WIKI);
    let own = |name: &str, user: &str| {
        let ruby = ruby.display();
        format!("hosts = [\"{name}.test\"]\nuser = \"{user}\"\nruby = \"{ruby}\"")
    };
    let (shop, wiki) = (own("shop", SHOP), own("wiki", WIKI));
    let tables = [("shop", &*shop), ("wiki", &*wiki)];
    let several = prepared(applications.into(), &tables, |builder| {
        builder.setting("user", FRONT)
    });
    let line = several
        .server
        .log()
        .wait(|line| line.contains("application=wiki") && line.contains("cannot run"));
    let text = format!(
        "belongs to uid {}, the user of another application",
        uid(SHOP)
    );
    assert!(line.contains(&text), "{line}");
    several.get("shop.test", "/").expect(200);
    assert_eq!(several.get("wiki.test", "/").status(), 503);
}

/// Sends a descriptor that a message of a worker does not have.
const SENDS_A_FILE: &str = r##"
require "json"
socket = Dir.children("/proc/self/fd").filter_map do |number|
  one = Socket.for_fd(Integer(number))
  one.autoclose = false
  one if one.getsockopt(:SOCKET, :TYPE).int == Socket::SOCK_SEQPACKET
rescue SystemCallError
  nil
end.first
file = IO.for_fd(IO.sysopen("/proc/self/status"))
text = JSON.generate({ Hijack: { worker: 0, thread: 0, slot: 0, sequence: 0 } })
socket.sendmsg(text, 0, nil, Socket::AncillaryData.unix_rights(file))
sleep
"##;

#[test]
fn a_worker_that_sends_another_kind_of_descriptor_is_killed() {
    let several = both("");
    let mut client = several.server.connect();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: {}\r\n\r\n{SENDS_A_FILE}",
        SENDS_A_FILE.len()
    ));
    assert_eq!(client.response().status(), 502);
    several
        .server
        .log()
        .wait(|line| line.contains("a descriptor that is neither a pidfd nor a UNIX socket"));
    until("another worker serves", || {
        several.get("shop.test", "/").status() == 200
    });
    assert_eq!(evaluate(&several, "wiki", "1"), "1");
}
