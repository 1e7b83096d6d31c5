//! A generated Rails application in a headless Chromium over HTTP/2 and TLS, with a certificate that the browser trusts:
//! assets, Action Cable through a WebSocket of HTTP/2, and server-sent events. The last pages are kept in
//! `target/artifacts`. Needs the packages of `scripts/install test`.

use anyhow::{Context, Result, ensure};
use highball_tests::authority::Authority;
use highball_tests::browser::Browser;
use highball_tests::rails::RailsApplication;
use serde_json::json;
use test_support::{Application, Server};

/// Assets of the page that are files, and those that Rails answers.
const FILES: usize = 25;
const DYNAMIC: usize = 5;

/// The pages, the assets and the events. What is said goes to the browser by the way that the request names.
const CONTROLLER: &str = r##"
class PagesController < ActionController::Base
  # A script may be loaded by any page here.
  skip_after_action :verify_same_origin_request

  EVENTS = Queue.new
  GENERATION = File.read(Rails.root.join("generation"))

  def assets
    sources = (1..25).map { |number| "/files/#{number}.js" } + (1..5).map { |number| "/dynamic/#{number}.js" }
    scripts = sources.map { |source| %(<script src="#{source}" defer></script>) }
    render html: %(<script>loaded = 0</script>#{scripts.join}<h1>Assets</h1>).html_safe
  end

  def asset
    render plain: "loaded += 1;", content_type: "text/javascript"
  end

  def chat
    render html: <<~HTML.html_safe
      <h1>Cable</h1>
      <ul></ul>
      <script>
        #{ActionCable::Engine.root.join("app/assets/javascripts/action_cable.js").read}
        // It looks after its connection each second instead of each third one.
        ActionCable.ConnectionMonitor.pollInterval = { min: 1, max: 1, multiplier: 1 };
        const list = document.querySelector("ul");
        function show(id) {
          const item = document.createElement("li");
          item.id = item.textContent = id;
          list.append(item);
        }
        let connections = 0;
        ActionCable.createConsumer("/cable").subscriptions.create("ChatChannel", {
          connected() { show("connected-" + ++connections); },
          received(message) { show("message-" + message); },
        });
      </script>
    HTML
  end

  def say
    ActionCable.server.broadcast("chat", "#{params[:text]}-#{GENERATION}")
    EVENTS << params[:text]
    head :no_content
  end
end
"##;

const ROUTES: &str = r##"
events = lambda do |env|
  body = Enumerator.new do |to|
    to << "data: ready\n\n"
    while (text = PagesController::EVENTS.pop) != "last"
      to << "data: #{text}\n\n"
    end
  end
  # Rails computes no digest of a body with a date.
  fields = { "Content-Type" => "text/event-stream", "Cache-Control" => "no-cache", "Last-Modified" => Time.now.httpdate }
  [200, fields, body]
end
Rails.application.routes.draw do
  mount ActionCable.server => "/cable"
  get "/events", to: events
  %w[assets chat say].each { |page| get "/#{page}", to: "pages##{page}" }
  get "/dynamic/:number", to: "pages#asset"
end
"##;

const CHANNEL: &str = r#"
class ChatChannel < ApplicationCable::Channel
  def subscribed
    stream_from "chat"
  end
end
"#;

/// By which protocol the page and everything in it came.
const PROTOCOLS: &str = r#"
const done = arguments[0];
const all = performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"));
done(all.filter((entry) => entry.nextHopProtocol != "h2").map((entry) => entry.name + " " + entry.nextHopProtocol));
"#;

/// An application, a server with TLS for it, and what its certificate is signed by.
struct Fixture {
    application: RailsApplication,
    server: Server,
    authority: Authority,
}

impl Fixture {
    fn start() -> Self {
        let application = RailsApplication::generate(&[]);
        application.write("app/controllers/pages_controller.rb", CONTROLLER);
        application.write("app/channels/chat_channel.rb", CHANNEL);
        application.write("config/routes.rb", ROUTES);
        application.write("config/cable.yml", "production:\n  adapter: async\n");
        application.write("generation", "1");
        for number in 1..=FILES {
            application.write(&format!("public/files/{number}.js"), "loaded += 1;");
        }
        let authority = Authority::new();
        authority
            .sign(&["localhost"])
            .write_to(&application.path(), "localhost");
        let server = Server::application_of(Application::new(""))
            .folder(application.path())
            .environment(Some("production"))
            .env("HOME", &application.root().path().display().to_string())
            .env("SECRET_KEY_BASE", "of a test")
            .threads(2)
            .listen(["tls://127.0.0.1:0"])
            .setting("tls_certificate_files", "localhost.pem:localhost.key")
            .setting("log_fields", "protocol")
            .setting("websocket_drain_timeout", "100ms")
            .start();
        Self {
            application,
            server,
            authority,
        }
    }

    fn address(&self) -> String {
        format!("https://localhost:{}", self.server.tls_address().port())
    }

    /// Runs what a person does in a browser.
    fn in_browser(&self, picture: &str, walk: impl AsyncFnOnce(&Browser) -> Result<()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let outcome = runtime.block_on(async {
            let folder = self.application.root().path();
            let browser = Browser::open_trusting(folder, &self.authority).await?;
            let outcome = walk(&browser).await;
            browser.close(picture, outcome.is_ok()).await?;
            outcome
        });
        if let Err(error) = outcome {
            panic!("{error:?}");
        }
    }

    fn restart(&self, generation: &str) -> Result<()> {
        self.application.write("generation", generation);
        let folder = self.application.path().display().to_string();
        let ran = self.server.command(&["restart", &folder]);
        ensure!(ran.status.success(), "{}", ran.output());
        Ok(())
    }
}

/// Has the application say something, by a request of its own.
async fn say(browser: &Browser, text: &str) -> Result<()> {
    let script = "fetch('/say?text=' + arguments[0]).then((answer) => arguments[1](answer.status))";
    let status = browser.execute(script, vec![json!(text)]).await?;
    ensure!(status == json!(204), "{status}");
    Ok(())
}

async fn expect_http_2(browser: &Browser) -> Result<()> {
    let others = browser.execute(PROTOCOLS, Vec::new()).await?;
    ensure!(others == json!([]), "not over HTTP/2: {others}");
    Ok(())
}

#[test]
fn a_page_with_30_assets_comes_over_http_2() {
    let one = Fixture::start();
    one.in_browser("http_2_assets", async |browser| {
        browser.go(&format!("{}/assets", one.address())).await?;
        browser.see("h1").await?;
        let script = "addEventListener('load', () => arguments[0](loaded)); \
                      if (document.readyState == 'complete') arguments[0](loaded)";
        let loaded = browser.execute(script, Vec::new()).await?;
        ensure!(loaded == json!(FILES + DYNAMIC), "{loaded} were loaded");
        expect_http_2(browser).await
    });
}

/// Listens to the events, and hands each over once `next` asks for it.
const LISTEN: &str = r#"
const said = [];
let wanted = () => {};
const source = new EventSource("/events");
source.onmessage = (event) => { said.push(event.data); wanted(); };
window.next = (count, done) => { wanted = () => { if (said.length >= count) done(said); }; wanted(); };
window.next(1, arguments[0]);
"#;

#[test]
fn events_stream_over_http_2_and_hold_no_more_than_their_thread() {
    let one = Fixture::start();
    one.in_browser("http_2_events", async |browser| {
        browser.go(&format!("{}/assets", one.address())).await?;
        browser.execute(LISTEN, Vec::new()).await?;
        for count in 2..=4 {
            // Answered by the other thread of the only worker.
            say(browser, &format!("event {count}")).await?;
            let script = "next(arguments[0], arguments[1])";
            let said = browser.execute(script, vec![json!(count)]).await?;
            let said = said.as_array().context("events")?;
            let latest = said.last().context("an event")?;
            ensure!(*latest == json!(format!("event {count}")), "{said:?}");
        }
        expect_http_2(browser).await?;
        say(browser, "last").await
    });
    let line = one
        .server
        .log()
        .wait(|line| line.contains("path=\"/events\""));
    assert!(
        line.contains("outcome=ok") && line.contains("protocol=\"HTTP/2\""),
        "{line}"
    );
}

#[test]
fn action_cable_runs_over_http_2_and_reconnects_after_a_restart() {
    let one = Fixture::start();
    one.in_browser("http_2_cable", async |browser| {
        browser.go(&format!("{}/chat", one.address())).await?;
        for generation in ["1", "2"] {
            let connected = format!("#connected-{generation}");
            browser.see(&connected).await.context("a subscription")?;
            say(browser, "hello").await?;
            let message = format!("#message-hello-{generation}");
            browser.see(&message).await.context("a message")?;
            if generation == "1" {
                one.restart("2")?;
            }
        }
        expect_http_2(browser).await
    });
    let ended = one
        .server
        .log()
        .wait(|line| line.contains("path=\"/cable\"") && line.contains("outcome=hijacked"));
    assert!(ended.contains("protocol=\"HTTP/2\""), "{ended}");
}
