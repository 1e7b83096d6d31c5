//! What a worker reports of an exception, and how that becomes a sample. What a worker says may be anything: it is read
//! within bounds, and cleaned. Keeps nothing.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha1::{Digest, Sha1};

use crate::text::{clean, clean_map};

/// The longest report in bytes, as a worker sends it.
pub(crate) const MAX_REPORT_BYTES: usize = 32 * 1024;
/// The most bytes of a sample.
pub(crate) const MAX_SAMPLE_BYTES: usize = 8 * 1024;
/// The most bytes of names, frames, lines and values.
const MAX_TEXT_BYTES: usize = 512;
/// The most bytes of a message.
const MAX_MESSAGE_BYTES: usize = 2048;
/// The most lines of a backtrace.
const MAX_LINES: usize = 100;
/// The most lines of a cause's backtrace, and of any where the sample would become too long.
const FEW_LINES: usize = 10;
/// The most causes.
const MAX_CAUSES: usize = 10;
/// The most bytes of a text where the sample would become too long with longer ones.
const SHORT_TEXT_BYTES: usize = 200;
/// Bytes of a group's id, as hexadecimal digits twice as many.
const ID_BYTES: usize = 6;

/// An exception, as the worker in which it was raised reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Its class.
    pub class: String,
    /// Its message.
    pub message: String,
    /// The first frame of the application's own code, `file:method`; of other code where none is the application's.
    pub frame: String,
    /// Its backtrace, innermost first.
    pub backtrace: Vec<String>,
    /// What led to it, the immediate cause first.
    pub causes: Vec<Cause>,
    /// What the application groups it by, in place of class and frames.
    pub fingerprint: Option<String>,
    /// The route of the request.
    pub route: String,
    /// The parameters of the request, filtered.
    pub parameters: Map<String, Value>,
    /// Fields of the request that hold no secret.
    pub headers: Map<String, Value>,
    /// What the application adds.
    pub context: Map<String, Value>,
    /// The release of the application.
    pub release: String,
    /// Whether the application rescued it.
    pub handled: bool,
}

/// An exception that led to another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// Its class.
    pub class: String,
    /// Its message.
    pub message: String,
    /// As [`Report::frame`].
    pub frame: String,
    /// Its backtrace, innermost first.
    pub backtrace: Vec<String>,
}

/// What the server knows of the request in which an exception was raised.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// When, in seconds since 1970.
    pub at: u64,
    /// The request's method.
    pub method: String,
    /// The request's path, without its query.
    pub path: String,
    /// The request's id.
    pub request_id: String,
    /// The number of its worker.
    pub worker: Option<u32>,
    /// The generation of its code.
    pub generation: Option<u32>,
}

/// An exception with its request, as it is kept and shown.
#[derive(Serialize)]
struct Sample<'a> {
    #[serde(flatten)]
    seen: &'a Seen,
    #[serde(flatten)]
    report: &'a Report,
}

impl Report {
    /// Reads what a worker sent. Returns nothing where it is too long or no report.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_REPORT_BYTES {
            return None;
        }
        let report: Self = serde_json::from_slice(bytes).ok()?;
        (!report.class.is_empty()).then(|| report.cleaned())
    }

    fn cleaned(self) -> Self {
        let causes = self.causes.into_iter().take(MAX_CAUSES);
        let fingerprint = self.fingerprint.filter(|text| !text.is_empty());
        Self {
            class: clean(&self.class, MAX_TEXT_BYTES),
            message: clean(&self.message, MAX_MESSAGE_BYTES),
            frame: clean(&self.frame, MAX_TEXT_BYTES),
            backtrace: clean_lines(&self.backtrace, MAX_LINES),
            causes: causes.map(Cause::cleaned).collect(),
            fingerprint: fingerprint.map(|text| clean(&text, MAX_TEXT_BYTES)),
            route: clean(&self.route, MAX_TEXT_BYTES),
            parameters: clean_map(self.parameters, MAX_TEXT_BYTES),
            headers: clean_map(self.headers, MAX_TEXT_BYTES),
            context: clean_map(self.context, MAX_TEXT_BYTES),
            release: clean(&self.release, MAX_TEXT_BYTES),
            handled: self.handled,
        }
    }

    /// The id of its group: exceptions of one class, from one place, with the same cause from the same place have the same.
    pub(crate) fn group_id(&self) -> String {
        let mut digest = Sha1::new();
        let mut part = |text: &str| {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        };
        match &self.fingerprint {
            Some(fingerprint) => part(fingerprint),
            None => {
                part(&self.class);
                part(&self.frame);
                if let Some(cause) = self.causes.first() {
                    part(&cause.class);
                    part(&cause.frame);
                }
            }
        }
        let hash = digest.finalize();
        hash[..ID_BYTES]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// The exception with its request as JSON of at most [`MAX_SAMPLE_BYTES`]. Of a long one ever more is left out.
    pub(crate) fn sample(mut self, mut seen: Seen) -> Box<str> {
        seen.method = clean(&seen.method, SHORT_TEXT_BYTES);
        seen.path = clean(&seen.path, MAX_TEXT_BYTES);
        seen.request_id = clean(&seen.request_id, SHORT_TEXT_BYTES);
        for shorten in SHORTENINGS {
            let report = &self;
            let text = serde_json::to_string(&Sample {
                seen: &seen,
                report,
            });
            match text {
                Ok(text) if text.len() <= MAX_SAMPLE_BYTES => return text.into(),
                _ => shorten(&mut self),
            }
        }
        // Its texts are too short for this, even with an escape for each byte.
        "{}".into()
    }
}

/// What is left out of a sample that is too long, one after the other.
const SHORTENINGS: [fn(&mut Report); 6] = [
    |report| {
        report
            .causes
            .iter_mut()
            .for_each(|one| one.backtrace.truncate(FEW_LINES))
    },
    |report| report.backtrace.truncate(MAX_LINES / 2),
    |report| report.context.clear(),
    |report| {
        report.backtrace.truncate(FEW_LINES);
        report.causes.truncate(1);
    },
    |report| {
        report.parameters.clear();
        report.headers.clear();
        report.causes.clear();
        report.message = clean(&report.message, MAX_TEXT_BYTES);
        let lines = report.backtrace.iter();
        report.backtrace = lines.map(|line| clean(line, SHORT_TEXT_BYTES)).collect();
    },
    |_| {},
];

impl Cause {
    fn cleaned(self) -> Self {
        Self {
            class: clean(&self.class, MAX_TEXT_BYTES),
            message: clean(&self.message, MAX_TEXT_BYTES),
            frame: clean(&self.frame, MAX_TEXT_BYTES),
            backtrace: clean_lines(&self.backtrace, FEW_LINES),
        }
    }
}

fn clean_lines(lines: &[String], most: usize) -> Vec<String> {
    let lines = lines.iter().take(most);
    lines.map(|line| clean(line, MAX_TEXT_BYTES)).collect()
}

#[cfg(test)]
mod tests;
