//! The part of the table of settings for traces of requests. Like the rest of the table it is data: `table.rs` makes settings
//! of it.

/// Adds these rows to those before them, and passes all on.
macro_rules! traces_settings {
    ($($rest:tt)*) => { access_settings! {
        $($rest)*

        "Traces" {
            /// The receiver of traces, by OTLP over HTTP: an address such as `http://127.0.0.1:4318`.
            ///
            /// `/v1/traces` is added to it. `auto` is what OpenTelemetry's variables say
            /// (`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT`), and nothing where they name no
            /// receiver; `none` sends nothing in any case. Requests never wait for the receiver. [docs/tracing.md](tracing.md)
            /// says what is sent.
            otlp_endpoint: String = Kind::Text, default "auto", reload Start, scope Server;

            /// The file with header fields for the receiver, such as `Authorization: Bearer TOKEN`, one a line.
            ///
            /// Relative to the application's folder. It must belong to the server's user or to root, and others must not be
            /// able to read it. Without it the fields come from `OTEL_EXPORTER_OTLP_HEADERS` alone. They are never shown.
            otlp_headers_file: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The part of all requests that are traced, from 0 to 1.
            ///
            /// Where a trusted proxy (`trusted_proxies`) sends `traceparent`, its decision counts instead, within
            /// `trace_limit`. Errors (5xx and lost responses) and slow requests (`slow_request`) are traced in any case, within
            /// the same limit.
            trace_sample: u32 = Kind::Ratio, default "0.01", reload AtOnce;

            /// The number of requests a second that are traced because a trusted proxy asks for it, and as many more because
            /// they failed or were slow.
            ///
            /// A proxy may pass on what its clients invent, and an outage makes every request an error: neither may send more
            /// traces than this. `trace_sample` is not limited.
            trace_limit: u32 = Kind::Integer { min: 0, max: 1_000_000 }, default "100", reload Start, scope Server;

            /// The name of the application in traces, `service.name`.
            ///
            /// `none` is its name in `[[application]]`, or of an only one `OTEL_SERVICE_NAME`.
            trace_service: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start;
        }
    } };
}
pub(crate) use traces_settings;
