//! The part of the table of settings for exceptions of the application. Like the rest of the table it is data: `table.rs`
//! makes settings of it.

/// Adds these rows to those before them, and passes all on.
macro_rules! exception_settings {
    ($($rest:tt)*) => { traces_settings! {
        $($rest)*

        "Exceptions" {
            /// Whether exceptions of the application are collected, in groups, for `highball exceptions`.
            ///
            /// Those that the application raises and those that Rails or Sinatra answer themselves. A group is a class,
            /// raised in one method of the application's own code, with the same cause. The last 200 groups are kept in
            /// memory, five samples of each. Costs nothing where nothing is raised. The log has each exception anyway.
            exceptions: bool = Kind::Bool, default "true";

            /// The classes of exceptions that are not collected; those below them are not either.
            ///
            /// `default` in the list stands for 20 classes that clients cause, such as `ActionController::RoutingError`; see
            /// `docs/exceptions.md`. The log has all exceptions anyway.
            exception_ignore: Vec<String> = Kind::Texts("classes such as \"ActiveRecord::RecordNotFound\""), default "default";

            /// The release of the application, which samples of exceptions name: a version or a commit.
            ///
            /// `none` is the first line of the file `REVISION` in the application's folder, which Capistrano writes. An
            /// exception that comes back in another release is told again.
            release: Option<String> = Kind::Maybe(&Kind::Text), default "none";

            /// The address that is told of exceptions, by a POST of JSON: `https://` or `http://`.
            ///
            /// When the first of a group is seen, when one comes back in another release, and when it is ten times as
            /// frequent as before: at most once an hour for a group, 20 times an hour for all. Its field `text` is what
            /// Slack and Mattermost show. No parameter, path or field of a request is told.
            exception_webhook: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The mail address that is told of exceptions, as `exception_webhook` is.
            exception_mail_to: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The mail address that these mails come from.
            ///
            /// `none` is `highball@` and the name of the machine.
            exception_mail_from: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The mail server that sends these mails.
            ///
            /// `smtp://HOST:PORT` uses TLS where the server offers it, `smtps://USER:PASSWORD@HOST` always. Set it by the
            /// variable `HIGHBALL_SMTP_URL` to keep a password out of files.
            smtp_url: String = Kind::Text, default "smtp://127.0.0.1:25", reload Start, scope Server;
        }
    } };
}
pub(crate) use exception_settings;
