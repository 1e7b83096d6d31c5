//! Major collections of garbage between requests, on a Ruby that can leave them out of requests (3.4); on older ones
//! Ruby decides, and this test says so.

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
