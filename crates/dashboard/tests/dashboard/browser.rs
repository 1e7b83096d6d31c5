//! A headless Chromium, driven through chromedriver: sets width and colour scheme, presses keys, takes pictures.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fantoccini::wd::{Capabilities, TimeoutConfiguration, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use test_support::{Directory, workspace};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use url::Url;

/// Time for chromedriver to start, for a page to load, and for what is waited for on it.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(90);

/// A browser with a profile of its own; killed when dropped.
pub(crate) struct Browser {
    client: Client,
    _driver: Child,
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
    /// Starts chromedriver and Chromium.
    pub(crate) async fn open() -> Result<Self> {
        let profile = Directory::new();
        let (driver, port) = start(&profile).await.context("chromedriver")?;
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

    /// Sets the width of the window in pixels and the preferred colour scheme, `light` or `dark`.
    pub(crate) async fn emulate(&self, width: u32, scheme: &str) -> Result<()> {
        self.resize(width, 900).await?;
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let parameters = json!({"media": "screen", "features": features});
        self.devtools("Emulation.setEmulatedMedia", parameters)
            .await
    }

    async fn resize(&self, width: u32, height: u64) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", size)
            .await
    }

    /// Goes to an address.
    pub(crate) async fn go(&self, address: &str) -> Result<()> {
        Ok(self.client.goto(address).await?)
    }

    /// Runs a function's body in the page.
    pub(crate) async fn run(&self, script: &str) -> Result<Value> {
        Ok(self.client.execute(script, Vec::new()).await?)
    }

    /// Waits until an expression is true. It is looked at whenever the page changes.
    pub(crate) async fn until(&self, condition: &str) -> Result<()> {
        let script = format!(
            "const done = arguments[0]; const holds = () => {condition};
             if (holds()) {{ done(true); return; }}
             const observer = new MutationObserver(() => {{ if (holds()) {{ observer.disconnect(); done(true); }} }});
             observer.observe(document, {{subtree: true, childList: true, characterData: true, attributes: true}});"
        );
        let held = self.client.execute_async(&script, Vec::new()).await;
        ensure!(held.with_context(|| format!("never: {condition}"))? == true);
        Ok(())
    }

    /// Presses a key that writes nothing, such as `Tab`, with its code.
    pub(crate) async fn press(&self, key: &str, code: u32) -> Result<()> {
        for kind in ["rawKeyDown", "keyUp"] {
            let text =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.devtools("Input.dispatchKeyEvent", text).await?;
        }
        Ok(())
    }

    /// Presses Enter.
    pub(crate) async fn enter(&self) -> Result<()> {
        let down = json!({"type": "keyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"});
        self.devtools("Input.dispatchKeyEvent", down).await?;
        let up =
            json!({"type": "keyUp", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13});
        self.devtools("Input.dispatchKeyEvent", up).await
    }

    /// Messages of the console since the last call.
    pub(crate) async fn console(&self) -> Result<Value> {
        let command = ChromeCommand("se/log", json!({"type": "browser"}));
        Ok(self.client.issue_cmd(command).await?)
    }

    /// Keeps a picture of the whole page as `target/artifacts/NAME.png`.
    pub(crate) async fn keep_picture(&self, name: &str, width: u32) -> Result<()> {
        let height = self
            .run("return document.documentElement.scrollHeight")
            .await?;
        let height = height.as_u64().context("a height")?;
        self.keep_top(name, (width, height)).await
    }

    /// Keeps a picture of the top of the page, so many pixels high, as `target/artifacts/NAME.png`.
    pub(crate) async fn keep_top(&self, name: &str, (width, height): (u32, u64)) -> Result<()> {
        self.resize(width, height).await?;
        self.keep(name).await?;
        self.resize(width, 900).await
    }

    async fn keep(&self, name: &str) -> Result<()> {
        let picture = self.client.screenshot().await?;
        let artifacts = workspace().join("target/artifacts");
        std::fs::create_dir_all(&artifacts)?;
        let file = artifacts.join(format!("{name}.png"));
        Ok(std::fs::write(file, picture)?)
    }

    async fn devtools(&self, method: &str, parameters: Value) -> Result<()> {
        let body = json!({"cmd": method, "params": parameters});
        self.client
            .issue_cmd(ChromeCommand("goog/cdp/execute", body))
            .await?;
        Ok(())
    }

    /// Ends the browser.
    pub(crate) async fn close(&self) -> Result<()> {
        Ok(self.client.clone().close().await?)
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
