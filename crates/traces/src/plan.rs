//! Where traces are sent, as settings and variables say it: checked before anything starts. Connects to nothing, and shows no
//! secret.

use http::Uri;
use http::header::HeaderMap;

use crate::headers;
use crate::variables::Variables;

/// The address of the receiver, of all signals and of traces alone.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// The fields of requests to it.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const TRACES_HEADERS: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
/// How the receiver is spoken to.
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const TRACES_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
/// Which exporter is meant.
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
/// Whether nothing is exported.
const DISABLED: &str = "OTEL_SDK_DISABLED";
/// The path of traces at a receiver of all signals.
const PATH: &str = "v1/traces";

/// A setting or a variable that cannot be used. What may be secret is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The address of the receiver, and where it was said.
    #[error(
        "{0}: write the address of a receiver of OTLP over HTTP, such as \"http://127.0.0.1:4318\", without user and password"
    )]
    Endpoint(&'static str),
    /// A field, where it was said, and its number there.
    #[error("{0}: line or item {1} is no field: write {2}")]
    Header(&'static str, usize, &'static str),
    /// The variables want another protocol.
    #[error(
        "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, which Highball does not speak: set otlp_endpoint to the receiver's address for HTTP \
         (port 4318), or to \"none\""
    )]
    Protocol,
}

/// Where traces are sent.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) address: Uri,
    pub(crate) headers: HeaderMap,
}

impl Plan {
    /// Reads the setting `otlp_endpoint`: an address, `none`, or `auto` for what the variables say. `headers_file` is the text
    /// of `otlp_headers_file`, whose fields win over those of the variables. Returns none where nothing is to be sent.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn new(
        endpoint: &str,
        headers_file: Option<&str>,
        variables: &Variables<'_>,
    ) -> Result<Option<Self>, PlanError> {
        let address = match endpoint {
            "none" => return Ok(None),
            "auto" => match of_variables(variables)? {
                None => return Ok(None),
                Some(address) => address,
            },
            endpoint => address("otlp_endpoint", endpoint, true)?,
        };
        let mut fields = HeaderMap::new();
        for name in [HEADERS, TRACES_HEADERS] {
            let Some(text) = variables(name) else {
                continue;
            };
            let read = headers::of_variable(&text);
            let form = "name=value, and %2C for a comma in a value";
            fields.extend(read.map_err(|wrong| PlanError::Header(name, wrong.0, form))?);
        }
        if let Some(text) = headers_file {
            let read = headers::of_file(text);
            let error = |wrong: headers::Malformed| {
                PlanError::Header("otlp_headers_file", wrong.0, "Name: value")
            };
            fields.extend(read.map_err(error)?);
        }
        Ok(Some(Self {
            address,
            headers: fields,
        }))
    }

    /// The receiver in words, without secrets.
    pub fn receiver(&self) -> String {
        let authority = self.address.authority();
        authority.map_or_else(String::new, ToString::to_string)
    }
}

/// The address that the variables name, if they want anything sent.
fn of_variables(variables: &Variables<'_>) -> Result<Option<Uri>, PlanError> {
    let is_off = variables(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let exporters = variables(EXPORTER).unwrap_or_else(|| "otlp".to_owned());
    let sends = exporters.split(',').any(|one| one.trim() == "otlp");
    if is_off || !sends {
        return Ok(None);
    }
    let found = match (variables(TRACES_ENDPOINT), variables(ENDPOINT)) {
        (Some(text), _) => address(TRACES_ENDPOINT, &text, false)?,
        (None, Some(text)) => address(ENDPOINT, &text, true)?,
        (None, None) => return Ok(None),
    };
    let protocol = variables(TRACES_PROTOCOL).or_else(|| variables(PROTOCOL));
    match protocol.as_deref() {
        Some("grpc") => Err(PlanError::Protocol),
        // A receiver of JSON takes protobuf on the same address.
        _ => Ok(Some(found)),
    }
}

/// An address; `base`: that of all signals.
fn address(of: &'static str, text: &str, base: bool) -> Result<Uri, PlanError> {
    let wrong = || PlanError::Endpoint(of);
    let uri: Uri = text.trim().parse().map_err(|_| wrong())?;
    let scheme = uri.scheme_str().unwrap_or_default();
    let has_host = uri.host().is_some_and(|host| !host.is_empty());
    let has_user = uri
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'));
    if !matches!(scheme, "http" | "https") || !has_host || has_user {
        return Err(wrong());
    }
    if !base {
        return Ok(uri);
    }
    if uri.query().is_some() {
        return Err(wrong());
    }
    let base = uri.to_string();
    let base = base.trim_end_matches('/');
    format!("{base}/{PATH}").parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(
        endpoint: &str,
        file: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<Option<Plan>, PlanError> {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Plan::new(endpoint, file, &find)
    }

    fn sent_to(endpoint: &str, variables: &[(&str, &str)]) -> Option<String> {
        let plan = plan(endpoint, None, variables).unwrap();
        plan.map(|plan| plan.address.to_string())
    }

    #[test]
    fn the_setting_wins_over_the_variables() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b:4318/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/x?y");
        assert_eq!(sent_to("auto", &[]), None);
        assert_eq!(sent_to("none", &[base, traces]), None);
        let expect = |expected: &str| Some(expected.to_owned());
        assert_eq!(sent_to("auto", &[base]), expect("http://b:4318/v1/traces"));
        assert_eq!(sent_to("auto", &[base, traces]), expect("https://t/x?y"));
        let set = sent_to("https://s/otlp", &[base, traces]);
        assert_eq!(set, expect("https://s/otlp/v1/traces"));
    }

    #[test]
    fn variables_may_switch_it_off() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b");
        for (name, value, on) in [
            ("OTEL_SDK_DISABLED", "true", false),
            ("OTEL_SDK_DISABLED", "false", true),
            ("OTEL_TRACES_EXPORTER", "none", false),
            ("OTEL_TRACES_EXPORTER", "console,otlp", true),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", true),
        ] {
            let sent = sent_to("auto", &[base, (name, value)]);
            assert_eq!(sent.is_some(), on, "{name}={value}");
        }
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        assert_eq!(
            plan("auto", None, &[base, grpc]).unwrap_err(),
            PlanError::Protocol
        );
        assert!(plan("auto", None, &[grpc]).unwrap().is_none());
    }

    #[test]
    fn addresses_that_cannot_be_used_are_errors() {
        for text in [
            "",
            "collector:4318",
            "ftp://h",
            "http://",
            "http://user:hidden@h",
            "http://h/?a=b",
        ] {
            let error = plan(text, None, &[]).unwrap_err();
            assert_eq!(error, PlanError::Endpoint("otlp_endpoint"), "{text}");
            assert!(!error.to_string().contains("hidden"));
        }
    }

    #[test]
    fn fields_of_the_file_win_and_are_not_shown() {
        let variable = ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=variable,x=1");
        let plan = plan("http://h:1", Some("Api-Key: secret-file"), &[variable]);
        let plan = plan.unwrap().unwrap();
        assert_eq!(plan.headers["api-key"], "secret-file");
        assert_eq!(plan.headers["x"], "1");
        assert_eq!(plan.receiver(), "h:1");
        assert!(!format!("{plan:?}").contains("secret"));
        let wrong = super::tests::plan("http://h", Some("secret"), &[]).unwrap_err();
        assert!(!wrong.to_string().contains("secret"), "{wrong}");
    }
}
