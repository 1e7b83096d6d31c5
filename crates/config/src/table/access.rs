//! The last part of the table of settings: who may send requests, how many, and what they get otherwise. `table.rs` has the
//! imports; this file holds no more than rows.

/// Adds these rows to those before them, and passes all on to the macro `settings`.
macro_rules! access_settings {
    ($($rest:tt)*) => { settings! {
        $($rest)*

        "Access" {
            /// The folder with the pages for errors that the server itself answers with.
            ///
            /// Relative to the application's folder. `500.html`, `502.html`, `503.html`, `504.html` and so on
            /// (400, 401, 403, 404, 405, 408, 413, 414, 421, 429, 431) are sent with the status in their name to
            /// clients that accept HTML; other clients get one line of text. They are read at the start and when they change, so
            /// they are there while no worker serves. Responses of the application are never replaced. A page may
            /// have 256 KiB. `none` sends text to everyone.
            error_pages: Option<String> = Kind::Maybe(&Kind::Text), default "public", reload AtOnce;

            /// The file that turns maintenance on while it exists, without its extension: `.html`, `.json` or `.txt`.
            ///
            /// Relative to the application's folder, checked every second. While one of the three files exists,
            /// requests get 503 with `Retry-After: 60` and the content of the file that fits what the client
            /// accepts. If that file is empty, they get the page `503.html` of `error_pages`. `highball maintenance on`
            /// writes the files and `highball maintenance off` removes them. If each release has its own `tmp`, name a
            /// path that all share. With `none` there is no maintenance.
            maintenance_file: Option<String> = Kind::Maybe(&Kind::Text), default "tmp/maintenance", reload AtOnce;

            /// The clients that are served during maintenance.
            ///
            /// Addresses and networks, as in `trusted_proxies`. Behind trusted proxies the client's address is the
            /// last one in X-Forwarded-For that is not itself one of `trusted_proxies`.
            maintenance_allow: AddressList = Kind::Addresses, default "none", reload AtOnce;

            /// The paths that are served during maintenance, in addition to `priority_paths`.
            maintenance_except: PathRules<()> = Kind::Paths(None), default "none", reload AtOnce;

            /// The clients that may request a path; all others get 403.
            ///
            /// With `/admin=10.0.0.0/8 192.0.2.7`, only they may request `/admin` and what is below it. The longest
            /// path that matches applies. Paths without a rule are open to everyone. A client in `deny` gets 403 in
            /// any case.
            allow: PathRules<AddressList> = Kind::Paths(Some(&Kind::AddressesOfPath)), default "none", reload AtOnce;

            /// The clients that may not request a path; they get 403.
            ///
            /// With `/=198.51.100.0/24` that network gets nothing. All rules whose path matches apply, not only the
            /// longest one, and `deny` is stronger than `allow`.
            deny: PathRules<AddressList> = Kind::Paths(Some(&Kind::AddressesOfPath)), default "none", reload AtOnce;

            /// How many requests a client may send in which time; further ones get 429 with Retry-After.
            ///
            /// `/login=5/m` allows five requests for `/login` a minute from one address: five at once, then one every
            /// 12 seconds. The unit is `s`, `m` or `h`. `burst 20` after it allows 20 at once. `by x-api-key` counts for
            /// each value of that header, and by address where a request has none: clients choose their headers, so
            /// name one that a proxy sets. The longest path that matches applies alone. An IPv6 network of 64 bits is one
            /// address.
            ///
            /// The 65,536 clients that were last seen are counted: another client takes the place of one of them
            /// and is never refused for that. The counts stay when settings are reloaded; an upgrade begins at zero.
            rate_limits: PathRules<RateLimit> = Kind::Paths(Some(&Kind::RateLimit)), default "none", reload AtOnce;

            /// The WebSockets that the application may have open at once; further requests for one get 503.
            ///
            /// Each costs the application memory for as long as it is open, and the limits for requests do not concern it. A
            /// request for one counts as well, from before the queue; so does one for another protocol but `h2c`. Other
            /// connections that the application takes over do not. Those of a server that is being replaced count apart.
            max_websockets: Option<usize> = Kind::Maybe(&Kind::Integer { min: 1, max: 1_048_576 }), default "none", reload AtOnce;

            /// The paths that need a user name and a password, with the file of these.
            ///
            /// `/admin=config/htpasswd` asks for a user of that file, relative to the application's folder; requests
            /// without one get 401. `/admin/public=none` opens a path below it. The longest path that matches applies. The
            /// file is that of Apache and nginx, with bcrypt only: `htpasswd -B config/htpasswd alice`. It is read again
            /// when it changes; one that is wrong or missing leaves the last one in force, and the log says so. The
            /// application gets the name as `REMOTE_USER`.
            basic_auth: PathRules<Option<String>> = Kind::Paths(Some(&Kind::Maybe(&Kind::Text))), default "none", reload AtOnce;
        }
    } };
}

pub(crate) use access_settings;
