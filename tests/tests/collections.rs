//! Collections of garbage between requests: major ones, on a Ruby that can leave them out of requests (3.4; on older ones
//! Ruby decides, and that test says so), and those of idle workers.

use test_support::{Application, Server};

/// Answers with whether Ruby may make a major collection now. The objects that it keeps are so many that its heap is within
/// the bound.
const KEEPING: &str = r##"$kept = Array.new(200_000) { Object.new }
run lambda { |_env|
  Test.text((GC.respond_to?(:config) ? GC.config[:rgengc_allow_full_mark] : "unknown").to_s)
}"##;

#[test]
fn workers_leave_major_collections_out_of_requests_where_it_is_wanted() {
    for (setting, expected) in [("auto", "false"), ("none", "true")] {
        let application = Application::without_lint(KEEPING);
        let server = Server::application_of(application).setting("out_of_band_gc", setting);
        let server = server.start();
        for _ in 0..3 {
            let text = server.get("/").text();
            assert!(text == expected || text == "unknown", "{setting}: {text}");
        }
    }
}

/// Tells the number of collections when its garbage has been collected, which only the server does.
const TELLING: &str = r##"run lambda { |_env|
  100.times do
    ObjectSpace.define_finalizer(Object.new, proc {
      Test.tell("collected #{$told = GC.count}") unless $told == GC.count
    })
  end
  Test.text("made")
}"##;

#[test]
fn an_idle_worker_collects_once_until_it_has_had_more_requests() {
    for threads in [1, 3] {
        let application = Application::without_lint(TELLING);
        let hooks = "after_fork { GC.disable; Test.tell(\"collected #{GC.count}\") }";
        application.dir().write("config/highball.rb", hooks);
        let mut events = application.events();
        let server = Server::application_of(application).threads(threads);
        let server = server.setting("release_memory_after", "1s").start();
        let mut collections = || -> u64 {
            let event = events.wait();
            let count = event.strip_prefix("collected ").expect("a count");
            count.trim().parse().expect("a number")
        };
        let before = collections();
        for expected in [before + 1, before + 2] {
            for _ in 0..10 {
                server.get("/").expect(200);
            }
            assert_eq!(collections(), expected, "{threads} threads");
        }
    }
}
