//! A headless Chromium that a test drives, and programs that it needs beside. Reads no page itself: tests name elements.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fantoccini::elements::Element;
use fantoccini::wd::{Capabilities, TimeoutConfiguration};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use rustix::process::Signal;
use serde_json::json;
use test_support::{Family, Process, workspace};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::authority::Authority;

/// Enough for the slowest step (a boot of Redmine on two busy cores), little enough to be noticed.
const TEST_TIMEOUT: Duration = Duration::from_secs(90);

/// A desktop's width and a phone's, in pixels.
const WIDTHS: [u32; 2] = [1280, 390];
/// Longer pages are cut off in pictures, in pixels.
const MAX_PICTURE_HEIGHT: u32 = 4000;

/// A browser, and the driver that it is commanded by.
#[derive(Debug)]
pub struct Browser {
    client: Client,
    driver: Service,
}

impl Browser {
    /// Opens one, whose files are in `folder`.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub async fn open(folder: &Path) -> Result<Self> {
        let mut command = Command::new("chromedriver");
        // What it trusts is in its home: there, and not in that of the tests.
        command
            .arg("--port=0")
            .env("TMPDIR", folder)
            .env("HOME", folder);
        let driver = Service::start(command, "started successfully on port ").await?;
        let client = connect(&driver.address, &folder.join("profile")).await?;
        Ok(Self { client, driver })
    }

    /// The same for one that trusts this authority, and checks certificates otherwise as ever.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub async fn open_trusting(folder: &Path, authority: &Authority) -> Result<Self> {
        let database = folder.join(".pki/nssdb");
        std::fs::create_dir_all(&database)?;
        let certificate = folder.join("authority.pem");
        std::fs::write(&certificate, &authority.pem)?;
        let database = format!("sql:{}", database.display());
        let path = certificate.display().to_string();
        let add = [
            "-A", "-d", &database, "-n", "test", "-t", "C,,", "-i", &path,
        ];
        for arguments in [&["-N", "-d", &database, "--empty-password"][..], &add] {
            let ran = Command::new("certutil").args(arguments).output().await?;
            let error = String::from_utf8_lossy(&ran.stderr);
            ensure!(ran.status.success(), "certutil {arguments:?}: {error}");
        }
        Self::open(folder).await
    }

    /// Goes to an address.
    ///
    /// # Errors
    /// It cannot be loaded.
    pub async fn go(&self, address: &str) -> Result<()> {
        Ok(self.client.goto(address).await?)
    }

    /// Waits for an element.
    ///
    /// # Errors
    /// It does not appear in time.
    pub async fn see(&self, css: &str) -> Result<Element> {
        let wait = self.client.wait().at_most(TEST_TIMEOUT);
        let found = wait.for_element(Locator::Css(css)).await;
        found.with_context(|| format!("no {css} on the page"))
    }

    /// Types into an element, once it is there.
    ///
    /// # Errors
    /// It does not appear in time, or takes no text.
    pub async fn fill(&self, css: &str, text: &str) -> Result<()> {
        Ok(self.see(css).await?.send_keys(text).await?)
    }

    /// Clicks on an element, once it is there.
    ///
    /// # Errors
    /// It does not appear in time, or something covers it.
    pub async fn click(&self, css: &str) -> Result<()> {
        Ok(self.see(css).await?.click().await?)
    }

    /// Runs JavaScript in the page, and returns what it hands to its last argument.
    ///
    /// # Errors
    /// It raises, or does not end in time.
    pub async fn execute(
        &self,
        script: &str,
        arguments: Vec<serde_json::Value>,
    ) -> Result<serde_json::Value> {
        Ok(self.client.execute_async(script, arguments).await?)
    }

    /// Keeps a picture of the whole page, so many pixels wide, as `target/artifacts/NAME-WIDTH.png`.
    ///
    /// # Errors
    /// The picture cannot be taken or written.
    pub async fn keep_picture(&self, name: &str, width: u32) -> Result<()> {
        self.client.set_window_size(width, 900).await?;
        // With what the window has beside the page.
        let height = "return document.documentElement.scrollHeight + outerHeight - innerHeight";
        let height = self.client.execute(height, Vec::new()).await?;
        let height = height.as_u64().context("a number of pixels")?;
        let height = u32::try_from(height)?.clamp(200, MAX_PICTURE_HEIGHT);
        self.client.set_window_size(width, height).await?;
        keep(&format!("{name}-{width}"), &self.client.screenshot().await?)
    }

    /// Keeps a picture of the page as `target/artifacts/NAME.png`, or `NAME-failed.png`, and closes the browser.
    ///
    /// # Errors
    /// The picture cannot be taken or written.
    pub async fn close(mut self, name: &str, passed: bool) -> Result<()> {
        let picture = self.client.screenshot().await;
        self.client.close().await?;
        let suffix = if passed { "" } else { "-failed" };
        keep(&format!("{name}{suffix}"), &picture?)?;
        self.driver.stop_now().await
    }
}

/// Keeps pictures of a page at the widths of a desktop and of a phone, as `target/artifacts/NAME-WIDTH.png`. The browser's
/// files are in `folder`.
///
/// # Panics
/// When the page does not show the element that `css` names, or the pictures cannot be taken.
pub fn keep_pictures(address: &str, css: &str, name: &str, folder: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let pictures = async {
        let mut browser = Browser::open(folder).await?;
        browser.go(address).await?;
        browser.see(css).await?;
        for width in WIDTHS {
            browser.keep_picture(name, width).await?;
        }
        browser.client.close().await?;
        browser.driver.stop_now().await
    };
    runtime.block_on(pictures).expect("pictures of the page");
}

fn keep(name: &str, picture: &[u8]) -> Result<()> {
    let artifacts = workspace().join("target/artifacts");
    std::fs::create_dir_all(&artifacts)?;
    Ok(std::fs::write(
        artifacts.join(format!("{name}.png")),
        picture,
    )?)
}

async fn connect(port: &str, profile: &Path) -> Result<Client> {
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
#[derive(Debug)]
pub struct Service {
    child: Child,
    /// What followed the marker in its line: an address or a port.
    pub address: String,
    /// Written by the task that reads stdout, read for the failure report.
    lines: Lines,
}

impl Service {
    /// Starts `command` and waits for a line of its stdout that holds `marker`.
    ///
    /// # Errors
    /// It cannot be started, or writes no such line in time.
    pub async fn start(mut command: Command, marker: &'static str) -> Result<Self> {
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

    /// The last lines that it wrote.
    ///
    /// # Panics
    /// When its reader has panicked.
    pub fn output(&self) -> String {
        let lines = self.lines.lock().expect("no reader panics");
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Asks it to end, as a process monitor does, and waits until nothing of it is left.
    ///
    /// # Errors
    /// It does not end in time, or leaves a process behind.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        let root = Process(self.child.id().context("it has ended already")?);
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
