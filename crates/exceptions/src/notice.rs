//! What people are told of a group, as JSON and as a mail. It names no parameter, no field of a request, no path and no
//! context: what a receiver outside of the server gets has no secret of a client.

use serde::{Deserialize, Serialize};

use crate::text::clean;

/// The most bytes of an exception's message that are told.
const MAX_TOLD_BYTES: usize = 500;
/// The most bytes of a mail's subject.
const MAX_SUBJECT_BYTES: usize = 160;

/// Why people are told of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// It is the first of its group.
    New,
    /// It is the first of its group in another release.
    Back,
    /// There are ten times as many as in the hours before.
    Frequent,
}

/// What people are told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Notice {
    /// A sentence, which is what chats show.
    pub text: String,
    /// Why.
    pub reason: Reason,
    /// The application's name, where the server has several.
    pub application: String,
    /// The id of the group.
    pub group: String,
    /// The exception's class.
    pub class: String,
    /// Its message, shortened.
    pub message: String,
    /// Where it was raised, `file:method`.
    pub frame: String,
    /// The class of its cause; empty if it has none.
    pub cause: String,
    /// The route of the request.
    pub route: String,
    /// The request's id.
    pub request_id: String,
    /// How many there were so far.
    pub count: u64,
    /// How many there were in this hour.
    pub count_this_hour: u32,
    /// When the first was seen, in seconds since 1970.
    pub first_at: u64,
    /// When the latest was seen, in seconds since 1970.
    pub last_at: u64,
    /// The release of the application.
    pub release: String,
}

impl Notice {
    /// Fills in the sentence, and shortens the message.
    pub(crate) fn worded(mut self) -> Self {
        self.message = clean(&self.message, MAX_TOLD_BYTES);
        let what = match self.reason {
            Reason::New => "new exception".to_owned(),
            Reason::Back => format!("exception is back after release {}", self.release),
            Reason::Frequent => format!(
                "exception is ten times as frequent as before ({} in this hour)",
                self.count_this_hour
            ),
        };
        let application = match self.application.as_str() {
            "" => String::new(),
            name => format!("{name}: "),
        };
        let place = match self.frame.as_str() {
            "" => String::new(),
            frame => format!(" in {frame}"),
        };
        self.text = format!(
            "{application}{what}: {}{place}: {}",
            self.class, self.message
        );
        self
    }

    /// The same with the name of the application, where the server has several.
    #[must_use]
    pub fn of_application(mut self, name: &str) -> Self {
        name.clone_into(&mut self.application);
        self.worded()
    }

    /// The subject of a mail.
    pub fn subject(&self) -> String {
        clean(&format!("[highball] {}", self.text), MAX_SUBJECT_BYTES)
    }

    /// The text of a mail.
    pub fn body(&self) -> String {
        let rows = [
            ("class", self.class.clone()),
            ("message", self.message.clone()),
            ("in", self.frame.clone()),
            ("cause", self.cause.clone()),
            ("route", self.route.clone()),
            ("release", self.release.clone()),
            ("request", self.request_id.clone()),
            ("count", self.count.to_string()),
            ("this hour", self.count_this_hour.to_string()),
            ("group", self.group.clone()),
        ];
        let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
        let rows: String = rows
            .map(|(name, value)| format!("{name:<10} {value}\n"))
            .collect();
        format!(
            "{}\n\n{rows}\nOn the server, `highball exceptions --group {}` shows samples with their backtraces.\n",
            self.text, self.group
        )
    }
}
