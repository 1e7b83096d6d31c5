//! Profiles and slow requests of a generated Rails application: the method that takes the time is named, with a controller,
//! middlewares and a hundred frames around it.

use highball_tests::rails::{RailsApplication, get};
use highball_tests::stacks::share;
use serde_json::Value;
use test_support::Program;

/// `/page` computes for that many seconds in a model.
const PAGE: &str = "render plain: Planted.new.hot(params[:seconds].to_f)";
const MODEL: &str = r#"
class Planted
  def hot(seconds)
    until_then = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    turns = 0
    turns += 1 until Process.clock_gettime(Process::CLOCK_MONOTONIC) > until_then
    turns.to_s
  end
end
"#;

/// What a command in the application's folder prints, as JSON.
#[track_caller]
fn json(application: &RailsApplication, arguments: &[&str]) -> Value {
    let ran = Program::highball(arguments)
        .arg("--json")
        .current_dir(application.path())
        .run();
    assert!(ran.status.success(), "{}", ran.output());
    serde_json::from_str(&ran.stdout).expect("JSON")
}

#[test]
fn the_hot_method_of_a_rails_application_is_named() {
    let application = RailsApplication::generate(&[]);
    application.write("app/models/planted.rb", MODEL);
    application.write("highball.toml", "slow_request = \"300ms\"\n");
    application.write_page(PAGE);
    let terminal = application.server("-p 0", &[]);
    let address = terminal.wait_serving();
    // Rails has loaded what it needs.
    assert_eq!(get(&address, "/page?seconds=0").status(), 200);

    let (profile, statuses) = std::thread::scope(|scope| {
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let client = scope.spawn(move || {
            let mut statuses = Vec::new();
            while is_done.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                statuses.push(get(&address, "/page?seconds=2").status());
            }
            statuses
        });
        let profile = json(&application, &["profile", "--seconds", "3"]);
        drop(done);
        (profile, client.join().expect("a client"))
    });
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    assert!(share(&profile["stacks"], "hot") >= 0.9, "{profile}");
    let figure = |name: &str| profile[name].as_f64().expect("a number");
    let a_second = figure("stacks_read") / figure("cpu_seconds");
    assert!(
        a_second >= 70.0,
        "{a_second} stacks for a second of CPU time"
    );
    assert!(figure("overhead") <= 0.1, "{profile}");

    let slow = json(&application, &["slow", "1"]);
    assert!(slow[0]["samples"].as_u64() >= Some(3), "{slow}");
    assert!(share(&slow[0]["stacks"], "hot") >= 0.9, "{slow}");
    terminal.interrupt();
}
