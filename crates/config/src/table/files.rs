//! The part of the table of settings for files. Like the rest of the table it is data: `table.rs` makes settings of it.

/// Adds these rows to those before them, and passes all on.
macro_rules! files_settings {
    ($($rest:tt)*) => { exception_settings! {
        $($rest)*

        "Files" {
            /// The folder whose files the server answers itself, without Ruby.
            ///
            /// `auto` is the public folder of a Rails application, unless middleware that the server does not know (for
            /// authentication, say) comes before its files. Another application publishes a folder by naming it here,
            /// relative to its own: then everybody gets the files in it, whatever the application's middleware says. With
            /// `none` the application answers. See `docs/files.md`.
            public_files: PublicFiles = Kind::Text, default "auto";

            /// The folders of files that the application may send by the field `X-Sendfile` of its response.
            ///
            /// Relative to the application's folder. The application then gets `sendfile.type` in its env, and
            /// Rack::Sendfile sends each file with a path so. A file outside of these folders, also by a link, is not
            /// sent: the client gets 500, and the log says why. With `none` the field goes to the client as it is.
            sendfile_roots: Vec<String> = Kind::Texts("folders such as \"storage\""), default "none", reload AtOnce;

            /// The folders of files that the application may send by the field `X-Accel-Redirect` of its response, each
            /// with the path that stands for it there.
            ///
            /// With `/protected=storage` the response `X-Accel-Redirect: /protected/a%20b.pdf` sends `storage/a b.pdf`.
            /// Clients cannot ask for these paths. Folders are relative to the application's, and a file
            /// outside of them is not sent, as with `sendfile_roots`. With `none` the field goes to the client as it is.
            accel_redirects: PathRules<String> = Kind::Paths(Some(&Kind::Text)), default "none", reload AtOnce;
        }
    } };
}

pub(crate) use files_settings;
