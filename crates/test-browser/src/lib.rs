//! A headless Chromium, driven through chromedriver, for every crate's tests: sets width and colour scheme, presses keys,
//! runs scripts, takes pictures, reads the console. It knows no page: tests do.

use std::path::Path;
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

/// Time for chromedriver to start, for a page to load, and for what is waited for on it: enough for a boot of Redmine on
/// two busy cores, little enough to be noticed.
pub const BROWSER_TIMEOUT: Duration = Duration::from_secs(90);

/// A browser with a profile of its own; killed when dropped.
#[derive(Debug)]
pub struct Browser {
    client: Client,
    driver: Child,
    /// Where its files are, unless the test has a place for them.
    _files: Option<Directory>,
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
    /// Opens one.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub async fn open() -> Result<Self> {
        let files = Directory::new();
        let mut browser = Self::open_in(files.path()).await?;
        browser._files = Some(files);
        Ok(browser)
    }

    /// The same for one whose files are in `folder`, which is its home as well: what it trusts is there.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub async fn open_in(folder: &Path) -> Result<Self> {
        let (driver, port) = start(folder).await.context("chromedriver")?;
        let options = json!({ "args": [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
            "--window-size=1280,900", format!("--user-data-dir={}", folder.join("profile").display()),
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
            driver,
            _files: None,
        })
    }

    /// What WebDriver can do beyond this.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sets, for the next page, the width in pixels and the preferred colour scheme, `light` or `dark`, or the medium
    /// `print`.
    ///
    /// # Errors
    /// The browser does not take it.
    pub async fn emulate(&self, width: u32, scheme: &str) -> Result<()> {
        self.resize(width, 900).await?;
        let (media, scheme) = match scheme {
            "print" => ("print", "light"),
            _ => ("screen", scheme),
        };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let parameters = json!({"media": media, "features": features});
        self.devtools("Emulation.setEmulatedMedia", parameters)
            .await
    }

    async fn resize(&self, width: u32, height: u64) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", size)
            .await
    }

    /// Goes to an address.
    ///
    /// # Errors
    /// It cannot be loaded.
    pub async fn go(&self, address: &str) -> Result<()> {
        Ok(self.client.goto(address).await?)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// The path is not absolute, or the file cannot be loaded.
    pub async fn visit(&self, file: &Path) -> Result<()> {
        let address = Url::from_file_path(file)
            .ok()
            .context("the path is absolute")?;
        self.go(address.as_str()).await
    }

    /// Runs a function's body in the page.
    ///
    /// # Errors
    /// It raises.
    pub async fn run(&self, script: &str) -> Result<Value> {
        Ok(self.client.execute(script, Vec::new()).await?)
    }

    /// Waits until an expression is true. It is looked at whenever the page changes.
    ///
    /// # Errors
    /// It does not become true in time.
    pub async fn until(&self, condition: &str) -> Result<()> {
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
    ///
    /// # Errors
    /// The browser does not take it.
    pub async fn press(&self, key: &str, code: u32) -> Result<()> {
        for kind in ["rawKeyDown", "keyUp"] {
            let text =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.devtools("Input.dispatchKeyEvent", text).await?;
        }
        Ok(())
    }

    /// Presses Enter.
    ///
    /// # Errors
    /// The browser does not take it.
    pub async fn enter(&self) -> Result<()> {
        let down = json!({"type": "keyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"});
        self.devtools("Input.dispatchKeyEvent", down).await?;
        let up =
            json!({"type": "keyUp", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13});
        self.devtools("Input.dispatchKeyEvent", up).await
    }

    /// Messages of the console since the last call.
    ///
    /// # Errors
    /// The browser does not tell.
    pub async fn console(&self) -> Result<Value> {
        let command = ChromeCommand("se/log", json!({"type": "browser"}));
        Ok(self.client.issue_cmd(command).await?)
    }

    /// Keeps a picture of the whole page, so many pixels wide, as `target/artifacts/NAME.png`.
    ///
    /// # Errors
    /// It cannot be taken or written.
    pub async fn keep_picture(&self, name: &str, width: u32) -> Result<()> {
        let height = self
            .run("return document.documentElement.scrollHeight")
            .await?;
        let height = height.as_u64().context("a height")?;
        self.keep_top(name, (width, height)).await
    }

    /// Keeps a picture of the top of the page, so many pixels wide and high, as `target/artifacts/NAME.png`.
    ///
    /// # Errors
    /// It cannot be taken or written.
    pub async fn keep_top(&self, name: &str, (width, height): (u32, u64)) -> Result<()> {
        self.resize(width, height).await?;
        self.keep(name).await?;
        self.resize(width, 900).await
    }

    /// Keeps a picture of what the window shows as `target/artifacts/NAME.png`.
    ///
    /// # Errors
    /// It cannot be taken or written.
    pub async fn keep(&self, name: &str) -> Result<()> {
        let picture = self.client.screenshot().await?;
        let artifacts = workspace().join("target/artifacts");
        std::fs::create_dir_all(&artifacts)?;
        Ok(std::fs::write(
            artifacts.join(format!("{name}.png")),
            picture,
        )?)
    }

    async fn devtools(&self, method: &str, parameters: Value) -> Result<()> {
        let body = json!({"cmd": method, "params": parameters});
        self.client
            .issue_cmd(ChromeCommand("goog/cdp/execute", body))
            .await?;
        Ok(())
    }

    /// Ends the browser and its driver.
    ///
    /// # Errors
    /// They do not end.
    pub async fn close(mut self) -> Result<()> {
        self.client.close().await?;
        Ok(self.driver.kill().await?)
    }
}

/// Starts chromedriver on a free port and waits until it names it.
async fn start(folder: &Path) -> Result<(Child, String)> {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .env("TMPDIR", folder)
        .env("HOME", folder)
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
