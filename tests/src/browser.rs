//! A headless Chromium that a test drives, and programs that it needs beside. Reads no page itself: tests name elements.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fantoccini::Locator;
use fantoccini::elements::Element;
use rustix::process::Signal;
use test_browser::BROWSER_TIMEOUT;
use test_support::{Family, Process};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::authority::Authority;

/// A desktop's width and a phone's, in pixels.
const WIDTHS: [u32; 2] = [1280, 390];
/// Longer pages are cut off in pictures, in pixels.
const MAX_PICTURE_HEIGHT: u32 = 4000;

/// A browser that fills in forms.
#[derive(Debug)]
pub struct Browser(test_browser::Browser);

impl Browser {
    /// Opens one, whose files are in `folder`.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub async fn open(folder: &Path) -> Result<Self> {
        test_browser::Browser::open_in(folder).await.map(Self)
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
        self.0.go(address).await
    }

    /// Waits for an element.
    ///
    /// # Errors
    /// It does not appear in time.
    pub async fn see(&self, css: &str) -> Result<Element> {
        let wait = self.0.client().wait().at_most(BROWSER_TIMEOUT);
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
        Ok(self.0.client().execute_async(script, arguments).await?)
    }

    /// Keeps a picture of the whole page, so many pixels wide, as `target/artifacts/NAME-WIDTH.png`.
    ///
    /// # Errors
    /// The picture cannot be taken or written.
    pub async fn keep_picture(&self, name: &str, width: u32) -> Result<()> {
        let client = self.0.client();
        client.set_window_size(width, 900).await?;
        // With what the window has beside the page.
        let height = "return document.documentElement.scrollHeight + outerHeight - innerHeight";
        let height = self.0.run(height).await?;
        let height = height.as_u64().context("a number of pixels")?;
        let height = u32::try_from(height)?.clamp(200, MAX_PICTURE_HEIGHT);
        client.set_window_size(width, height).await?;
        self.0.keep(&format!("{name}-{width}")).await
    }

    /// Keeps a picture of the page as `target/artifacts/NAME.png`, or `NAME-failed.png`, and closes the browser.
    ///
    /// # Errors
    /// The picture cannot be taken or written.
    pub async fn close(self, name: &str, passed: bool) -> Result<()> {
        let suffix = if passed { "" } else { "-failed" };
        let kept = self.0.keep(&format!("{name}{suffix}")).await;
        self.0.close().await?;
        kept
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
        let browser = Browser::open(folder).await?;
        browser.go(address).await?;
        browser.see(css).await?;
        for width in WIDTHS {
            browser.keep_picture(name, width).await?;
        }
        browser.0.close().await
    };
    runtime.block_on(pictures).expect("pictures of the page");
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
        let address = match timeout(BROWSER_TIMEOUT, address).await {
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
        let ended = timeout(BROWSER_TIMEOUT, self.child.wait()).await;
        let status = ended.context("it does not end")??;
        let left = family.wait_gone(Duration::from_secs(5));
        ensure!(left.is_empty(), "processes left behind: {left:?}");
        Ok(status)
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
