//! Redmine end to end: a person's path through a headless Chromium, against `highball` on a fresh instance.
//!
//! Needs the packages of `scripts/install test`; a missing one fails the test. The page that the person ends on is kept
//! as `target/artifacts/redmine.png`. Never talks to Redmine behind the browser's back.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fantoccini::wd::{Capabilities, TimeoutConfiguration};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use rustix::process::Signal;
use serde_json::json;
use sha2::{Digest, Sha256};
use test_support::{Directory, Family, binary, ruby_library, workspace};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Enough for the slowest step (a boot of Redmine on two busy cores), little enough to be noticed.
const TEST_TIMEOUT: Duration = Duration::from_secs(90);
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
    let mut driver = start_driver(folder).await?;

    let client = open_browser(&driver.address, &folder.join("profile")).await?;
    let outcome = walk(&client, &server.address, folder).await;
    let name = if outcome.is_ok() {
        "redmine.png"
    } else {
        "redmine-failed.png"
    };
    let picture = client.screenshot().await;
    client.close().await?;
    let artifacts = workspace().join("target/artifacts");
    std::fs::create_dir_all(&artifacts)?;
    std::fs::write(artifacts.join(name), picture?)?;

    driver.stop_now().await?;
    let status = server.terminate().await?;
    outcome.with_context(|| format!("the server said:\n{}", server.output()))?;
    ensure!(status.success(), "the server ended with {status}");
    Ok(())
}

/// What the person does, page by page.
async fn walk(client: &Client, server: &str, folder: &Path) -> Result<()> {
    client.goto(&format!("{server}/login")).await?;
    fill(client, "#username", "admin").await?;
    fill(client, "#password", "admin").await?;
    click(client, "#login-submit").await?;
    see(client, "#loggedas").await.context("log in")?;

    client.goto(&format!("{server}/projects/new")).await?;
    fill(client, "#project_name", "Night mail").await?;
    see(client, "#project_identifier").await?.clear().await?;
    fill(client, "#project_identifier", "night-mail").await?;
    click(client, "#new_project input[name=commit]").await?;
    see(client, "#flash_notice")
        .await
        .context("create a project")?;

    let attachment = folder.join("consist.bin");
    let digest = write_random(&attachment)?;
    client
        .goto(&format!("{server}/projects/night-mail/issues/new"))
        .await?;
    fill(client, "#issue_subject", "Couple the postal van").await?;
    fill(
        client,
        "#issue_description",
        "The list of wagons is attached.",
    )
    .await?;
    let path = attachment.to_str().context("the path is UTF-8")?;
    fill(client, "input.file_selector", path).await?;
    // Redmine's script uploads at once and makes the removal link remote when the server has answered with a token.
    see(client, ".attachments_fields a.remove-upload[data-remote]")
        .await
        .context("upload the file")?;
    see(client, "#issue-form input[name=commit]:enabled")
        .await?
        .click()
        .await?;
    see(client, "#flash_notice")
        .await
        .context("create an issue")?;

    let link = see(client, "div.attachments a.icon-download").await?;
    let href = link.prop("href").await?.context("the link has a target")?;
    let received = download_digest(client, &href)
        .await
        .context("download the file")?;
    ensure!(
        received == json!([ATTACHMENT_BYTES, digest]),
        "sent {ATTACHMENT_BYTES} bytes {digest}, received {received}"
    );
    Ok(())
}

/// Fetches `href` with the browser's session and gives the length and the SHA-256 of what came.
async fn download_digest(client: &Client, href: &str) -> Result<serde_json::Value> {
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
    Ok(client.execute_async(SCRIPT, vec![json!(href)]).await?)
}

async fn see(client: &Client, css: &str) -> Result<fantoccini::elements::Element> {
    client
        .wait()
        .at_most(TEST_TIMEOUT)
        .for_element(Locator::Css(css))
        .await
        .with_context(|| format!("no {css} on the page"))
}

async fn fill(client: &Client, css: &str, text: &str) -> Result<()> {
    Ok(see(client, css).await?.send_keys(text).await?)
}

async fn click(client: &Client, css: &str) -> Result<()> {
    Ok(see(client, css).await?.click().await?)
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

async fn start_driver(folder: &Path) -> Result<Service> {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").env("TMPDIR", folder);
    Service::start(command, "started successfully on port ").await
}

async fn open_browser(port: &str, profile: &Path) -> Result<Client> {
    let options = json!({ "args": [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1280,900",
        format!("--user-data-dir={}", profile.display()),
    ]});
    let capabilities = Capabilities::from_iter([("goog:chromeOptions".to_owned(), options)]);
    let client = ClientBuilder::new(HttpConnector::new())
        .capabilities(capabilities)
        .connect(&format!("http://127.0.0.1:{}", port.trim_end_matches('.')))
        .await?;
    let limits = TimeoutConfiguration::new(Some(TEST_TIMEOUT), Some(TEST_TIMEOUT), None);
    client.update_timeouts(limits).await?;
    Ok(client)
}

type Lines = Arc<Mutex<Vec<String>>>;

/// A child that names its address on stdout; what else it says is kept for the failure report. Killed when dropped.
struct Service {
    child: Child,
    /// What followed the marker in its line: an address or a port.
    address: String,
    /// Written by the task that reads stdout, read for the failure report.
    lines: Lines,
}

impl Service {
    /// Starts `command` and waits for a line of its stdout that holds `marker`.
    async fn start(mut command: Command, marker: &'static str) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let lines = Lines::default();
        let (found, address) = tokio::sync::oneshot::channel();
        tokio::spawn(read_lines(stdout, marker, found, Arc::clone(&lines)));
        let address = match timeout(TEST_TIMEOUT, address).await {
            Ok(Ok(address)) => address,
            _ => {
                let said = lines.lock().expect("no reader panics").join("\n");
                anyhow::bail!("{command:?} never said {marker:?}, but:\n{said}");
            }
        };
        Ok(Self {
            child,
            address,
            lines,
        })
    }

    /// The last lines it wrote.
    fn output(&self) -> String {
        let lines = self.lines.lock().expect("no reader panics");
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Asks it to end, as a process monitor does, and waits until nothing of it is left.
    async fn terminate(&mut self) -> Result<ExitStatus> {
        let root = test_support::Process(self.child.id().context("it has ended already")?);
        let family = Family::of(root, "no mark: its descendants are enough");
        root.signal(Signal::TERM);
        let ended = timeout(TEST_TIMEOUT, self.child.wait()).await;
        let status = ended.context("it does not end")??;
        let left = family.wait_gone(Duration::from_secs(5));
        ensure!(left.is_empty(), "processes left behind: {left:?}");
        Ok(status)
    }

    async fn stop_now(&mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}

async fn read_lines(
    stream: impl AsyncRead + Unpin,
    marker: &str,
    found: tokio::sync::oneshot::Sender<String>,
    kept: Lines,
) {
    let mut found = Some(found);
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some((_, rest)) = line.split_once(marker)
            && let Some(found) = found.take()
        {
            // Nobody waits for it any more when the start has timed out.
            let _ = found.send(rest.trim_end().to_owned());
        }
        kept.lock().expect("no reader panics").push(line);
    }
}
