//! A headless Chromium, driven through chromedriver: sets width and colour scheme, takes pictures, reads the console.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fantoccini::wd::{Capabilities, TimeoutConfiguration, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use test_support::Directory;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use url::Url;

/// Time for chromedriver to start, and for a page to load.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(90);

/// A browser with a profile of its own; killed when dropped.
pub(crate) struct Browser {
    client: Client,
    _driver: Child,
    /// Its profile and what chromedriver leaves, outside of the folder with the report.
    _profile: Directory,
}

/// A command that chromedriver has in addition to WebDriver: the path below the session, and the body.
#[derive(Debug)]
struct ChromeCommand(&'static str, Value);

impl WebDriverCompatibleCommand for ChromeCommand {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, url::ParseError> {
        base.join(&format!(
            "session/{}/{}",
            session.unwrap_or_default(),
            self.0
        ))
    }

    fn method_and_body(&self, _: &Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.1.to_string()))
    }
}

impl Browser {
    /// Starts chromedriver and Chromium; `folder` holds the report and is named in errors.
    pub(crate) async fn open(folder: &Path) -> Result<Self> {
        let profile = Directory::new();
        let (driver, port) = start(&profile)
            .await
            .with_context(|| format!("chromedriver, to look at {}", folder.display()))?;
        let options = json!({ "args": [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
            "--window-size=1280,900", format!("--user-data-dir={}", profile.join("profile").display()),
        ]});
        let capabilities = Capabilities::from_iter([
            ("goog:chromeOptions".to_owned(), options),
            ("goog:loggingPrefs".to_owned(), json!({"browser": "ALL"})),
        ]);
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await?;
        let limits = TimeoutConfiguration::new(Some(BROWSER_TIMEOUT), Some(BROWSER_TIMEOUT), None);
        client.update_timeouts(limits).await?;
        Ok(Self {
            client,
            _driver: driver,
            _profile: profile,
        })
    }

    /// Sets, for the next page, the window's width in pixels and the preferred colour scheme, `light` or `dark`, or the
    /// medium `print`.
    pub(crate) async fn emulate(&self, width: u32, scheme: &str) -> Result<()> {
        self.resize(width, 900).await?;
        let media = if scheme == "print" { "print" } else { "screen" };
        let features =
            json!([{"name": "prefers-color-scheme", "value": scheme.replace("print", "light")}]);
        let parameters = json!({"media": media, "features": features});
        self.devtools("Emulation.setEmulatedMedia", parameters)
            .await?;
        Ok(())
    }

    async fn resize(&self, width: u32, height: u64) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", size)
            .await?;
        Ok(())
    }

    /// Opens a file.
    pub(crate) async fn visit(&self, file: &Path) -> Result<()> {
        let address = Url::from_file_path(file)
            .ok()
            .context("the path is absolute")?;
        Ok(self.client.goto(address.as_str()).await?)
    }

    /// Runs a function's body in the page.
    pub(crate) async fn run(&self, script: &str) -> Result<Value> {
        Ok(self.client.execute(script, Vec::new()).await?)
    }

    /// Messages of the console since the last call.
    pub(crate) async fn console(&self) -> Result<Value> {
        let command = ChromeCommand("se/log", json!({"type": "browser"}));
        Ok(self.client.issue_cmd(command).await?)
    }

    /// The whole page as PNG.
    pub(crate) async fn picture(&self, width: u32) -> Result<Vec<u8>> {
        let height = self
            .run("return document.documentElement.scrollHeight")
            .await?;
        self.resize(width, height.as_u64().context("a height")?)
            .await?;
        Ok(self.client.screenshot().await?)
    }

    async fn devtools(&self, method: &str, parameters: Value) -> Result<Value> {
        let body = json!({"cmd": method, "params": parameters});
        Ok(self
            .client
            .issue_cmd(ChromeCommand("goog/cdp/execute", body))
            .await?)
    }

    /// Ends the browser.
    pub(crate) async fn close(self) -> Result<()> {
        Ok(self.client.close().await?)
    }
}

/// Starts chromedriver on a free port and waits until it names it.
async fn start(folder: &Directory) -> Result<(Child, String)> {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("start it")?;
    let stdout = driver.stdout.take().context("stdout is piped")?;
    let mut lines = BufReader::new(stdout).lines();
    let port = timeout(BROWSER_TIMEOUT, async {
        while let Some(line) = lines.next_line().await? {
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                return Ok(port.trim_end_matches('.').to_owned());
            }
        }
        bail!("it ended without a port")
    });
    let port = port.await.context("it names no port")??;
    Ok((driver, port))
}
