//! Who is told, as the settings say it: checked before anything starts. Connects to nothing.

use http::Uri;
use lettre::message::Mailbox;
use lettre::transport::smtp::SmtpTransportBuilder;
use lettre::{Address, SmtpTransport};

/// A setting that cannot be used. A password of it is not shown.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The address of the webhook.
    #[error(
        "exception_webhook: write an address such as \"https://hooks.example.com/T0\", with its host"
    )]
    Webhook,
    /// A mail address, and the setting that it is of.
    #[error("{0}: write a mail address such as \"ops@example.com\", not {1:?}")]
    Mailbox(&'static str, String),
    /// The mail server.
    #[error("smtp_url: write \"smtp://HOST:PORT\" or \"smtps://USER:PASSWORD@HOST\": {0}")]
    Server(String),
}

/// Who is told.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(crate) webhook: Option<Uri>,
    pub(crate) mail: Option<MailPlan>,
}

/// A mail, but for its text.
#[derive(Clone, Debug)]
pub(crate) struct MailPlan {
    pub(crate) from: Mailbox,
    pub(crate) to: Mailbox,
    url: String,
    /// What this machine calls itself.
    pub(crate) host: String,
}

impl Plan {
    /// Reads the settings `exception_webhook`, `exception_mail_to`, `exception_mail_from` and `smtp_url`.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn new(
        webhook: Option<&str>,
        mail_to: Option<&str>,
        mail_from: Option<&str>,
        smtp_url: &str,
    ) -> Result<Self, PlanError> {
        let webhook = webhook.map(webhook_address).transpose()?;
        let mail = match mail_to {
            None => None,
            Some(to) => {
                let host = proc::machine::host_name();
                let from = match mail_from {
                    Some(from) => mailbox("exception_mail_from", from)?,
                    None => default_sender(&host)?,
                };
                let to = mailbox("exception_mail_to", to)?;
                let plan = MailPlan {
                    from,
                    to,
                    url: with_tls(smtp_url),
                    host,
                };
                plan.transport()?;
                Some(plan)
            }
        };
        Ok(Self { webhook, mail })
    }

    /// Whether nobody is told.
    pub fn is_empty(&self) -> bool {
        self.webhook.is_none() && self.mail.is_none()
    }
}

impl MailPlan {
    /// What sends mails, one connection each.
    pub(crate) fn transport(&self) -> Result<SmtpTransportBuilder, PlanError> {
        // The error may quote the address with its password.
        let unusable = |_| PlanError::Server("the address cannot be read".to_owned());
        SmtpTransport::from_url(&self.url).map_err(unusable)
    }
}

fn webhook_address(text: &str) -> Result<Uri, PlanError> {
    let uri: Uri = text.parse().map_err(|_| PlanError::Webhook)?;
    let scheme = uri.scheme_str().unwrap_or_default();
    let usable =
        matches!(scheme, "http" | "https") && uri.host().is_some_and(|host| !host.is_empty());
    usable.then_some(uri).ok_or(PlanError::Webhook)
}

fn mailbox(setting: &'static str, text: &str) -> Result<Mailbox, PlanError> {
    text.parse()
        .map_err(|_| PlanError::Mailbox(setting, text.to_owned()))
}

/// Without a name to be found by, a mail server that is not local may refuse the mail: the setting is there for that.
fn default_sender(host: &str) -> Result<Mailbox, PlanError> {
    let address = Address::new("highball", host).or_else(|_| Address::new("highball", "localhost"));
    let unusable = |_| PlanError::Mailbox("exception_mail_from", format!("highball@{host}"));
    Ok(Mailbox::new(None, address.map_err(unusable)?))
}

/// The address with TLS where the server offers it, and always where a password would be sent, unless it says otherwise
/// itself.
fn with_tls(url: &str) -> String {
    if !url.starts_with("smtp://") || url.contains("tls=") {
        return url.to_owned();
    }
    // Somebody on the way may remove the server's offer.
    let mode = match url.contains('@') {
        true => "required",
        false => "opportunistic",
    };
    let mark = match url.contains('?') {
        true => '&',
        false => '?',
    };
    format!("{url}{mark}tls={mode}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(webhook: Option<&str>, to: Option<&str>, from: Option<&str>, url: &str) -> String {
        let plan = Plan::new(webhook, to, from, url);
        plan.expect_err("a setting that cannot be used").to_string()
    }

    #[test]
    fn settings_that_cannot_be_used_are_named() {
        for webhook in ["ftp://h/", "hooks.example.com", "https://", "/path", ""] {
            let text = error(Some(webhook), None, None, "");
            assert!(text.starts_with("exception_webhook: write"), "{text}");
        }
        let smtp = "smtp://127.0.0.1:25";
        assert!(error(None, Some("ops"), None, smtp).starts_with("exception_mail_to: write"));
        let from = error(None, Some("ops@h.example"), Some("a b"), smtp);
        assert!(from.starts_with("exception_mail_from: write"), "{from}");
        let url = error(None, Some("ops@h.example"), None, "http://user:hidden@h");
        assert!(
            url.starts_with("smtp_url: write") && !url.contains("hidden"),
            "{url}"
        );
    }

    #[test]
    fn nobody_is_told_without_an_address() {
        let plan = Plan::new(None, None, None, "smtp://127.0.0.1:25").expect("a plan");
        assert!(plan.is_empty());
        let plan = Plan::new(
            Some("http://h/x"),
            Some("ops@h.example"),
            None,
            "smtps://u:p@h",
        );
        assert!(!plan.expect("a plan").is_empty());
    }

    #[test]
    fn tls_is_used_where_it_is_offered() {
        for (url, expected) in [
            ("smtp://h:25", "smtp://h:25?tls=opportunistic"),
            ("smtp://h?a=b", "smtp://h?a=b&tls=opportunistic"),
            ("smtp://h?tls=required", "smtp://h?tls=required"),
            ("smtps://h", "smtps://h"),
        ] {
            assert_eq!(with_tls(url), expected);
        }
    }
}
