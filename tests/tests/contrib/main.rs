//! The files of `contrib`, as they are shipped but for addresses, paths and certificates: proxies carry requests, and
//! platforms give settings that the server takes and times that fit. The unit files are for `units`, the Dockerfile for
//! `scripts/try-dockerfile`.

mod proxies;

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use test_support::{Application, Directory, Program, binary, workspace};

const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;

/// Time that the server needs beyond `drain_timeout` to end its processes, in seconds.
const EXIT_TIME: u64 = 5;

/// The text of a file of `contrib`.
#[track_caller]
fn contrib(name: &str) -> String {
    let path = workspace().join("contrib").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of a YAML file of `contrib`, as Ruby reads them.
#[track_caller]
fn yaml(name: &str) -> Vec<Value> {
    contrib(name);
    let script = "puts JSON.generate(YAML.load_stream(File.read(ARGV[0])))";
    let ran = Program::new("ruby")
        .args(["-ryaml", "-rjson", "-e", script])
        .arg(workspace().join("contrib").join(name))
        .run();
    assert!(ran.status.success(), "{name}: {}", ran.output());
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// The settings that a document gives as variables: keys of objects, and pairs of `name` and `value`.
fn variables(value: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(items) => rest.extend(items),
            Value::Object(pairs) => {
                let named = pairs.get("name").and_then(Value::as_str);
                if let (Some(name), Some(value)) = (named, pairs.get("value")) {
                    found.insert(name.to_owned(), text(value));
                }
                for (name, value) in pairs {
                    match value {
                        Value::Object(_) | Value::Array(_) => rest.push(value),
                        _ => {
                            found.insert(name.clone(), text(value));
                        }
                    }
                }
            }
            _ => {}
        }
    }
    found.retain(|name, _| name.starts_with("HIGHBALL_"));
    found
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Seconds of a value such as `30s`.
#[track_caller]
fn seconds(value: &str) -> u64 {
    let number = value.strip_suffix('s').expect("a time in seconds");
    number.parse().expect("a time in seconds")
}

/// Checks that the server takes these variables, and that there are some.
#[track_caller]
fn expect_settings(variables: &BTreeMap<String, String>) {
    assert!(!variables.is_empty());
    let application = Application::new(HELLO);
    let mut check = Program::highball(["check"]).arg(application.path());
    for (name, value) in variables {
        check = check.env(name, value);
    }
    let ran = check.run();
    assert!(ran.status.success(), "{variables:?}\n{}", ran.output());
    for name in variables.keys() {
        assert!(ran.stdout.contains(&**name), "{name}");
    }
}

#[test]
fn a_pod_has_time_to_drain_and_settings_that_exist() {
    let documents = yaml("kubernetes/highball.yaml");
    let kinds: Vec<_> = documents
        .iter()
        .map(|one| one["kind"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(
        kinds,
        ["Deployment", "Service", "PodDisruptionBudget", "Ingress"]
    );
    let pod = &documents[0]["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    let settings = variables(container);
    expect_settings(&settings);

    let pause = seconds(&settings["HIGHBALL_STOP_DELAY"]);
    let drain = seconds(&settings["HIGHBALL_DRAIN_TIMEOUT"]);
    let grace = pod["spec"]["terminationGracePeriodSeconds"].as_u64();
    assert!(grace >= Some(pause + drain + EXIT_TIME), "{grace:?}");

    // What selects pods fits the labels of the pods, and what is asked for the port that is open.
    let labels = &pod["metadata"]["labels"];
    for selector in [
        &documents[0]["spec"]["selector"]["matchLabels"],
        &documents[1]["spec"]["selector"],
        &documents[2]["spec"]["selector"]["matchLabels"],
    ] {
        assert_eq!(selector, labels);
    }
    assert_eq!(container["ports"][0]["containerPort"], 3000);
    let port = &container["ports"][0]["name"];
    assert_eq!(&documents[1]["spec"]["ports"][0]["targetPort"], port);
    let health = &container["ports"][1];
    let address = format!("0.0.0.0:{}", health["containerPort"].as_u64().unwrap());
    assert_eq!(settings["HIGHBALL_METRICS_LISTEN"], address);
    for (probe, path) in [
        ("startupProbe", "/ready"),
        ("readinessProbe", "/ready"),
        ("livenessProbe", "/live"),
    ] {
        let get = &container[probe]["httpGet"];
        assert_eq!(get["port"], health["name"]);
        assert_eq!(get["path"], path);
    }
    // The pod has left the Service before the server drains.
    let ready = &container["readinessProbe"];
    let times = [&ready["periodSeconds"], &ready["failureThreshold"]];
    let noticed: u64 = times.iter().filter_map(|time| time.as_u64()).product();
    assert!(noticed <= pause, "{noticed}");
    let startup = &container["startupProbe"];
    let times = [&startup["periodSeconds"], &startup["failureThreshold"]];
    let boot: u64 = times.iter().filter_map(|time| time.as_u64()).product();
    assert!(boot >= 90, "shorter than boot_timeout: {boot}");
}

#[test]
fn the_compose_file_waits_for_a_drain() {
    let service = &yaml("docker/compose.yml")[0]["services"]["shop"];
    expect_settings(&variables(service));
    let grace = seconds(service["stop_grace_period"].as_str().unwrap());
    assert!(grace >= 30 + EXIT_TIME, "{grace}");
}

#[test]
fn kamal_waits_longer_than_the_server_and_kills_later() {
    let deploy = &yaml("kamal/deploy.yml")[0];
    let settings = variables(&deploy["env"]);
    expect_settings(&settings);
    // Docker kills 10 s after TERM.
    assert!(seconds(&settings["HIGHBALL_DRAIN_TIMEOUT"]) < 10);
    assert!(deploy["proxy"]["response_timeout"].as_u64() > Some(60));
    assert!(deploy["deploy_timeout"].as_u64() > Some(90));
    assert_eq!(deploy["proxy"]["app_port"], 3000);
    assert_eq!(
        deploy["proxy"]["healthcheck"]["path"],
        settings["HIGHBALL_PRIORITY_PATHS"].as_str()
    );
}

#[test]
fn the_procfile_starts_the_server_with_its_settings() {
    let application = Application::new(HELLO);
    let dir = application.dir();
    dir.write("highball.toml", contrib("heroku/highball.toml"));
    let procfile = contrib("heroku/Procfile");
    let command = procfile.strip_prefix("web: ").expect("a process `web`");
    // `check` takes the same flags, and ends.
    let check = command.replacen("highball serve", "highball check", 1);
    assert_ne!(check, command);
    let programs = Directory::new();
    std::os::unix::fs::symlink(binary(), programs.join("highball")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let ran = Program::new("sh")
        .args(["-c", check.trim()])
        .current_dir(application.path())
        .env("PATH", format!("{}:{path}", programs.path().display()))
        .env("HIGHBALL_RUBY_LIB", test_support::ruby_library())
        .env("PORT", "5000")
        .run();
    assert!(ran.status.success(), "{}", ran.output());
    let setting = |name: &str| {
        let row = ran.stdout.lines().map(str::trim);
        let mut row = row.filter(|line| line.split(' ').next() == Some(name));
        row.next().unwrap_or_default().to_owned()
    };
    assert!(setting("listen").contains(":5000"), "{}", ran.stdout);
    assert!(setting("environment").contains("production"));
    assert!(setting("request_timeout").contains("25s"));
    assert!(setting("drain_timeout").contains("25s"));
}

#[test]
fn capistrano_checks_before_it_publishes_and_restarts_after() {
    let dir = Directory::new();
    let capfile = "require \"capistrano/setup\"\nrequire \"capistrano/deploy\"\n\
                   require \"capistrano/scm/plugin\"\n\
                   Dir.glob(\"lib/capistrano/tasks/*.rake\").each { |file| import file }\n";
    dir.write("Capfile", capfile);
    fs::create_dir_all(dir.join("config/deploy")).unwrap();
    fs::create_dir_all(dir.join("lib/capistrano/tasks")).unwrap();
    let deploy = "set :application, \"shop\"\nset :deploy_to, \"/srv/shop\"\nset :repo_url, \"unused\"\n\
                  set :format, :simpletext\n";
    dir.write("config/deploy.rb", deploy);
    let stage = "server \"app.example.com\", roles: %w[app], user: \"shop\"\n";
    dir.write("config/deploy/production.rb", stage);
    let tasks = contrib("capistrano/highball.rake");
    dir.write("lib/capistrano/tasks/highball.rake", tasks);
    // A dry run prints what it would run on the machine, and connects to none.
    let ran = Program::new("cap")
        .args(["production", "deploy", "--dry-run"])
        .current_dir(dir.path())
        .env("LC_ALL", "C.UTF-8")
        .run();
    let output = ran.output();
    assert!(ran.status.success(), "{output}");
    let at = |text: &str| {
        let found = output.find(text);
        found.unwrap_or_else(|| panic!("no `{text}` in\n{output}"))
    };
    let check = at("highball check /srv/shop/releases/");
    let link = at("ln -s /srv/shop/releases/");
    let restart = at("highball restart /srv/shop/current");
    assert!(check < link && link < restart, "{output}");
}
