//! A generated Rails application under `rails server` in development, in a headless Chromium: Action Cable, and the console
//! of an error page. The pages are kept as `target/artifacts/rails_cable.png` and `rails_console.png`. Needs the packages of
//! `scripts/install test`.

use anyhow::{Context, Result, ensure};
use fantoccini::key::Key;
use highball_tests::browser::Browser;
use highball_tests::rails::RailsApplication;
use test_support::TerminalSession;

/// How many messages are broadcast, each by a request of its own.
const BROADCASTS: usize = 11;

/// What the page of the channel does: it subscribes, has the messages broadcast, and shows each that arrives.
const CHANNEL_PAGE: &str = r##"
    if params[:say]
      ActionCable.server.broadcast("chat", params[:say])
      head :no_content
    else
      render html: <<~HTML.html_safe
        <h1>Messages</h1>
        <ul></ul>
        <script>
          #{ActionCable::Engine.root.join("app/assets/javascripts/action_cable.js").read}
          const list = document.querySelector("ul");
          ActionCable.createConsumer("/cable").subscriptions.create("ChatChannel", {
            connected() {
              for (let number = 0; number < 11; number++) fetch("/page?say=" + number);
            },
            received(message) {
              const item = document.createElement("li");
              item.id = "message-" + message;
              item.textContent = "message " + message;
              list.append(item);
            },
          });
        </script>
      HTML
    end
"##;

const CHANNEL: &str = r#"
class ChatChannel < ApplicationCable::Channel
  def subscribed
    stream_from "chat"
  end
end
"#;

/// Runs what a person does in a browser, and ends browser and server.
fn in_browser<D>(application: &RailsApplication, picture: &str, walk: D)
where
    D: AsyncFnOnce(&Browser, &str) -> Result<()>,
{
    let terminal = application.server("-p 0", &[]);
    let address = format!("http://{}", terminal.wait_serving());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let outcome = runtime.block_on(async {
        let browser = Browser::open(application.root().path()).await?;
        let outcome = walk(&browser, &address).await;
        browser.close(picture, outcome.is_ok()).await?;
        outcome
    });
    let shown = terminal.interrupt();
    TerminalSession::keep(picture, &shown);
    if let Err(error) = outcome {
        panic!("{error:?}\n{}", shown.join("\n"));
    }
}

#[test]
fn every_broadcast_of_action_cable_arrives_in_the_browser() {
    let application = RailsApplication::generate(&[]);
    application.write("app/channels/chat_channel.rb", CHANNEL);
    application.write_page(CHANNEL_PAGE);
    in_browser(&application, "rails_cable", async |browser, address| {
        browser.go(&format!("{address}/page")).await?;
        for number in 0..BROADCASTS {
            let item = browser.see(&format!("#message-{number}")).await;
            item.with_context(|| format!("message {number} of {BROADCASTS}"))?;
        }
        Ok(())
    });
}

#[test]
fn the_console_of_an_error_page_evaluates_what_is_typed() {
    let application = RailsApplication::generate(&["web-console"]);
    application.write_page("wagons = 20\n    raise \"too heavy\"");
    in_browser(&application, "rails_console", async |browser, address| {
        browser.go(&format!("{address}/page")).await?;
        let title = browser.see("header").await?.text().await?;
        ensure!(title.contains("RuntimeError"), "{title}");
        browser.click("#console .console-prompt-display").await?;
        for (line, prompts) in [("1 + 1", 2), ("wagons * 2", 3)] {
            let keys = format!("{line}{}", char::from(Key::Enter));
            browser.fill("body", &keys).await?;
            // Each line gets an answer, and a new prompt.
            let next = format!("#console .console-inner > div:nth-of-type({prompts})");
            browser.see(&next).await.context(line)?;
        }
        let text = browser.see("#console").await?.text().await?;
        ensure!(text.contains("=> 2") && text.contains("=> 40"), "{text}");
        Ok(())
    });
}
