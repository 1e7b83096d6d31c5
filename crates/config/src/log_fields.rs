//! The fields of the access log that can be left out. Knows no line of it.

/// A field of the access log that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogField {
    /// The client's address, as `REMOTE_ADDR`.
    Client,
    /// The field Host.
    Host,
    /// The version of HTTP.
    Protocol,
    /// The field User-Agent.
    UserAgent,
    /// The field Referer.
    Referer,
    /// The request's id.
    RequestId,
    /// The trace of the request.
    TraceId,
    /// Its span there.
    SpanId,
    /// Bytes of the request's body.
    BytesIn,
    /// Bytes of the response's body that were sent.
    Bytes,
    /// The time in the queue.
    QueueMs,
    /// The time in the application.
    AppMs,
    /// How the response was compressed.
    Encoding,
    /// The route, as the application's framework names it.
    Route,
    /// The time in the database.
    DbMs,
    /// The time in views.
    ViewMs,
    /// The time of garbage collection.
    GcMs,
    /// The CPU time of the worker's thread.
    CpuMs,
    /// The time in which the worker's thread waited for Ruby's lock.
    LockMs,
    /// Objects that were allocated.
    Allocations,
    /// Queries of the database.
    Queries,
}

/// The names, in the order of the variants.
pub(crate) const NAMES: &[&str] = &[
    "client",
    "host",
    "protocol",
    "user_agent",
    "referer",
    "request_id",
    "trace_id",
    "span_id",
    "bytes_in",
    "bytes",
    "queue_ms",
    "app_ms",
    "encoding",
    "route",
    "db_ms",
    "view_ms",
    "gc_ms",
    "cpu_ms",
    "lock_ms",
    "allocations",
    "queries",
];

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFields(u32);

impl LogFields {
    /// No field.
    pub const NONE: Self = Self(0);

    /// Returns these fields and one more.
    pub const fn with(self, field: LogField) -> Self {
        Self(self.0 | 1 << field as u32)
    }

    /// Whether the set has this field.
    pub const fn contains(self, field: LogField) -> bool {
        self.0 & 1 << field as u32 != 0
    }

    /// The fields with these names, or `none` alone.
    ///
    /// # Errors
    /// What is wrong with the first wrong one and what is allowed.
    pub(crate) fn parse(items: &[String]) -> Result<Self, String> {
        if items.len() > 1 && items.iter().any(|item| item == "none") {
            return Err("\"none\" must stand alone in the list".to_owned());
        }
        items
            .iter()
            .try_fold(Self::default(), |set, item| Ok(Self(set.0 | bit(item)?)))
    }

    /// The names.
    pub(crate) fn items(self) -> Vec<String> {
        let names = NAMES.iter().enumerate();
        let names = names.filter(|(at, _)| self.0 & 1 << at != 0);
        let names: Vec<_> = names.map(|(_, name)| (*name).to_owned()).collect();
        match names.is_empty() {
            true => vec!["none".to_owned()],
            false => names,
        }
    }
}

/// What is allowed, in words that follow "a list of".
pub(crate) fn allowed() -> String {
    format!("{}, or \"none\" alone", NAMES.join(", "))
}

/// # Errors
/// What is wrong with it and what is allowed.
pub(crate) fn check_item(text: &str) -> Result<(), String> {
    bit(text).map(drop)
}

fn bit(name: &str) -> Result<u32, String> {
    if name == "none" {
        return Ok(0);
    }
    let at = NAMES.iter().position(|known| *known == name);
    at.map(|at| 1 << at)
        .ok_or_else(|| format!("{name:?} is not allowed; expected a list of {}", allowed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(items: &[&str]) -> Result<LogFields, String> {
        let items: Vec<_> = items.iter().map(|item| (*item).to_owned()).collect();
        LogFields::parse(&items)
    }

    #[test]
    fn a_set_has_the_fields_that_were_named() {
        let fields = parse(&["client", "app_ms"]).unwrap();
        assert_eq!(
            fields,
            LogFields::NONE.with(LogField::Client).with(LogField::AppMs)
        );
        assert!(fields.contains(LogField::Client) && !fields.contains(LogField::Host));
        assert_eq!(fields.items(), ["client", "app_ms"]);
        assert_eq!(parse(&["none"]).unwrap().items(), ["none"]);
    }

    #[test]
    fn names_and_variants_have_one_order() {
        assert_eq!(NAMES[LogField::RequestId as usize], "request_id");
        assert_eq!(NAMES[LogField::AppMs as usize], "app_ms");
        assert_eq!(NAMES.len(), LogField::Queries as usize + 1);
    }

    #[test]
    fn unknown_names_and_a_none_among_others_are_errors() {
        assert!(parse(&["cookie"]).unwrap_err().contains("\"cookie\""));
        assert!(parse(&["none", "client"]).is_err());
    }
}
