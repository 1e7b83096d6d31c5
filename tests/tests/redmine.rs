//! Redmine end to end: a person's path through a headless Chromium, against `highball` on a fresh instance.
//!
//! Needs the packages of `scripts/install test`; a missing one fails the test. The page that the person ends on is kept
//! as `target/artifacts/redmine.png`. Never talks to Redmine behind the browser's back.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use highball_tests::browser::{Browser, Service};
use serde_json::json;
use sha2::{Digest, Sha256};
use test_support::{Directory, binary, ruby_library, workspace};
use tokio::process::Command;

const ATTACHMENT_BYTES: u64 = 20 << 20;

#[test]
fn a_person_files_an_issue_with_20_mb_and_downloads_it_unchanged() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = Directory::new();
    if let Err(error) = runtime.block_on(run(folder.path())) {
        panic!("{error:?}");
    }
}

async fn run(folder: &Path) -> Result<()> {
    let instance = folder.join("redmine");
    make_instance(&instance).await?;
    let mut server = start_server(&instance).await?;
    let browser = Browser::open(folder).await?;
    let outcome = walk(&browser, &server.address, folder).await;
    browser.close("redmine", outcome.is_ok()).await?;
    let status = server.terminate().await?;
    outcome.with_context(|| format!("the server said:\n{}", server.output()))?;
    ensure!(status.success(), "the server ended with {status}");
    Ok(())
}

/// What the person does, page by page.
async fn walk(browser: &Browser, server: &str, folder: &Path) -> Result<()> {
    browser.go(&format!("{server}/login")).await?;
    browser.fill("#username", "admin").await?;
    browser.fill("#password", "admin").await?;
    browser.click("#login-submit").await?;
    browser.see("#loggedas").await.context("log in")?;

    browser.go(&format!("{server}/projects/new")).await?;
    browser.fill("#project_name", "Night mail").await?;
    browser.see("#project_identifier").await?.clear().await?;
    browser.fill("#project_identifier", "night-mail").await?;
    browser.click("#new_project input[name=commit]").await?;
    browser
        .see("#flash_notice")
        .await
        .context("create a project")?;

    let attachment = folder.join("consist.bin");
    let digest = write_random(&attachment)?;
    browser
        .go(&format!("{server}/projects/night-mail/issues/new"))
        .await?;
    browser
        .fill("#issue_subject", "Couple the postal van")
        .await?;
    let description = "The list of wagons is attached.";
    browser.fill("#issue_description", description).await?;
    let path = attachment.to_str().context("the path is UTF-8")?;
    browser.fill("input.file_selector", path).await?;
    // Redmine's script uploads at once and makes the removal link remote when the server has answered with a token.
    browser
        .see(".attachments_fields a.remove-upload[data-remote]")
        .await
        .context("upload the file")?;
    browser
        .see("#issue-form input[name=commit]:enabled")
        .await?
        .click()
        .await?;
    browser
        .see("#flash_notice")
        .await
        .context("create an issue")?;

    let link = browser.see("div.attachments a.icon-download").await?;
    let href = link.prop("href").await?.context("the link has a target")?;
    let received = download_digest(browser, &href)
        .await
        .context("download the file")?;
    ensure!(
        received == json!([ATTACHMENT_BYTES, digest]),
        "sent {ATTACHMENT_BYTES} bytes {digest}, received {received}"
    );
    Ok(())
}

/// Fetches `href` with the browser's session and gives the length and the SHA-256 of what came.
async fn download_digest(browser: &Browser, href: &str) -> Result<serde_json::Value> {
    const SCRIPT: &str = r"
        const [href, done] = arguments;
        (async () => {
            const response = await fetch(href);
            if (!response.ok) throw new Error(`status ${response.status}`);
            const bytes = await response.arrayBuffer();
            const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
            return [bytes.byteLength, Array.from(digest, b => b.toString(16).padStart(2, '0')).join('')];
        })().then(done, error => done(String(error)));
    ";
    browser.execute(SCRIPT, vec![json!(href)]).await
}

/// Writes 20 MB that nothing can compress, and gives their SHA-256 in hex.
fn write_random(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open("/dev/urandom")?
        .take(ATTACHMENT_BYTES)
        .read_to_end(&mut bytes)?;
    std::fs::File::create(path)?.write_all(&bytes)?;
    Ok(Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

async fn make_instance(folder: &Path) -> Result<()> {
    let status = Command::new(workspace().join("scripts/redmine"))
        .arg(folder)
        .status()
        .await
        .context("scripts/redmine")?;
    ensure!(status.success(), "scripts/redmine ended with {status}");
    Ok(())
}

async fn start_server(instance: &Path) -> Result<Service> {
    let mut command = Command::new(binary());
    command
        .env_remove("HIGHBALL_BIN")
        .env("HIGHBALL_RUBY_LIB", ruby_library())
        .arg("serve")
        .arg(instance)
        .args(["--listen", "127.0.0.1:0"])
        .args(["--workers", "2", "--environment", "production"]);
    Service::start(command, "listening on ").await
}
