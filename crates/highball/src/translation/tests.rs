//! Entries and what they mean.

use serde_json::json;

use super::*;

fn entries(calls: &[(&str, Value)]) -> Vec<Entry> {
    let entry = |(name, arguments): &(&str, Value)| Entry {
        name: (*name).to_owned(),
        arguments: arguments.as_array().cloned().unwrap_or_default(),
        line: Some(7),
        block: false,
    };
    calls.iter().map(entry).collect()
}

/// The settings, as `name=items`, and the lines.
fn puma(calls: &[(&str, Value)]) -> (String, String) {
    let translation = puma::translate(&entries(calls), Path::new("/srv/shop"));
    let settings = translation.settings.iter();
    let settings = settings.map(|(name, items)| format!("{name}={}", items.join(",")));
    (
        settings.collect::<Vec<_>>().join(" "),
        translation.lines.join("\n"),
    )
}

#[test]
fn calls_of_puma_become_settings() {
    let check = |name: &str, arguments: Value, expect: &str| {
        let (settings, lines) = puma(&[(name, arguments)]);
        assert_eq!(settings, expect, "{lines}");
    };
    check("threads", json!([0, 16]), "threads=16");
    check("threads", json!([5]), "threads=5");
    check("workers", json!(["auto"]), "workers=auto");
    check("workers", json!([0]), "workers=1");
    check("port", json!(["3000"]), "listen=3000");
    check("port", json!([80, "127.0.0.1"]), "listen=127.0.0.1:80");
    check("port", json!([80, "::"]), "listen=[::]:80");
    check("bind", json!(["tcp://0.0.0.0:80"]), "listen=0.0.0.0:80");
    check(
        "bind",
        json!(["unix:///run/a.sock"]),
        "listen=unix:/run/a.sock unix_socket_mode=0777",
    );
    check(
        "bind",
        json!(["unix:///a?umask=0117&backlog=64"]),
        "listen=unix:/a unix_socket_mode=0660 backlog=64",
    );
    check(
        "bind",
        json!(["ssl://0.0.0.0:443"]),
        "listen=tls://0.0.0.0:443",
    );
    check(
        "bind",
        json!(["ssl://[::]:9292?cert=a.pem&key=a.key&verify_mode=force_peer&ca=ca.pem"]),
        "listen=tls://[::]:9292 tls_certificate_files=a.pem:a.key tls_client_verify=required tls_client_ca_file=ca.pem",
    );
    check(
        "pidfile",
        json!(["/srv/shop/tmp/pids/server.pid"]),
        "pid_file=tmp/pids/server.pid",
    );
    check(
        "pidfile",
        json!(["/run/shop.pid"]),
        "pid_file=/run/shop.pid",
    );
    check("persistent_timeout", json!([20]), "keep_alive_timeout=20");
    check("environment", json!(["staging"]), "environment=staging");
    check("environment", json!(["development"]), "");
    check("threads", json!([]), "");
}

#[test]
fn addresses_add_up_and_of_other_settings_the_last_counts() {
    let (settings, _) = puma(&[
        ("port", json!([3000])),
        ("bind", json!(["tcp://127.0.0.1:80"])),
        ("threads", json!([1, 2])),
        ("threads", json!([3, 4])),
    ]);
    assert_eq!(settings, "listen=3000,127.0.0.1:80 threads=4");
}

#[test]
fn every_entry_has_a_line_that_says_what_became_of_it() {
    let calls = [
        ("threads", json!([5, 5])),
        ("plugin", json!(["solid_queue"])),
        ("on_worker_boot", json!([])),
        ("no_such_call", json!(["a\u{1b}[31m\n", "x".repeat(500)])),
    ];
    let (_, lines) = puma(&calls);
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines[..2], ["line 7: threads 5, 5", "    threads = 5"]);
    assert_eq!(lines[2], "line 7: plugin \"solid_queue\"");
    assert!(lines[3].starts_with("    no counterpart: run bin/jobs"));
    assert!(lines[5].ends_with("config/highball.rb: after_fork { ... }"));
    assert!(
        lines[6].len() < 120 && !lines[6].contains('\u{1b}'),
        "{}",
        lines[6]
    );
    assert_eq!(lines[7], "    no counterpart: it is unknown to Highball");
    assert!(lines[8].starts_with("workers is not called"));
}

#[test]
fn an_application_of_unicorn_gets_one_thread() {
    let calls = [
        ("worker_processes", json!([3])),
        ("listen", json!(["/run/a.sock", { "backlog": 1024 }])),
        ("listen", json!(["127.0.0.1:8080", { "tcp_nopush": true }])),
        ("timeout", json!([60])),
        ("user", json!(["git", "www-data"])),
    ];
    let translation = unicorn::translate(&entries(&calls), Path::new("/srv/git"));
    let settings = translation.settings.iter();
    let settings: Vec<_> = settings
        .map(|(name, items)| format!("{name}={}", items.join(",")))
        .collect();
    assert_eq!(
        settings.join(" "),
        "workers=3 listen=unix:/run/a.sock,127.0.0.1:8080 unix_socket_mode=0777 backlog=1024 request_timeout=60 user=git \
         group=www-data threads=1"
    );
}

#[test]
fn every_rule_names_a_setting_that_there_is() {
    let servers = [puma::RULES, unicorn::RULES, passenger::RULES];
    for (name, rule) in servers.concat() {
        if let Rule::Same(setting) | Rule::Path(setting) = rule {
            let known = config::SETTINGS.iter().any(|one| one.name == setting);
            assert!(known, "{name}: {setting}");
        }
    }
}
