//! `Highball.purge` in a worker, with a real response cache behind it.

use test_support::{Application, Server, ServerBuilder};

/// Pages that count how often they were made; `/purge` purges what the query names.
const PAGES: &str = r##"
    made = Hash.new(0)
    run lambda { |env|
      path, query = env.values_at("PATH_INFO", "QUERY_STRING")
      next Test.text(Highball.purge(**eval(Rack::Utils.unescape(query))).inspect) if path == "/purge"
      next Test.text(Array.new(query.to_i) { |at| Highball.purge(url: "/none/#{at}") }.inspect) if path == "/many"
      fields = { "cache-control" => "public, max-age=3600", "cache-tag" => "all #{path.delete_prefix("/")}" }
      Test.text((made[path] += 1).to_s, headers: fields)
    }
"##;

fn builder() -> ServerBuilder {
    Server::application_of(Application::new(PAGES)).workers(1)
}

#[test]
fn a_purge_from_ruby_is_done_when_it_returns() {
    let server = builder().setting("cache_bytes", "1MiB").start();
    let mut client = server.connect();
    let mut get = |target: &str| client.get(target).expect(200).text();
    let mut made = 0;
    for (purge, urls) in [
        ("url:'/a'", "1"),
        ("prefix:'/a'", "1"),
        ("tag:'all'", "2"),
        ("tag:'a'", "1"),
    ] {
        made += 1;
        get("/b");
        assert_eq!(get("/a"), made.to_string());
        assert_eq!(get("/a"), made.to_string());
        assert_eq!(get(&format!("/purge?%7B{purge}%7D")), urls, "{purge}");
    }
    assert_eq!(get("/purge?%7Burl:'/none'%7D"), "0");
    get("/a");
    assert_eq!(get("/purge?%7Burl:'http://other.example/a'%7D"), "0");
    assert_eq!(get("/purge?%7Burl:'http://test/a'%7D"), "1");
    // Each is carried out, however many there are.
    assert_eq!(get("/many?100").matches('0').count(), 100);
}

#[test]
fn without_a_cache_a_purge_from_ruby_is_nil() {
    let server = builder().start();
    assert_eq!(server.get("/purge?%7Burl:'/a'%7D").text(), "nil");
}
