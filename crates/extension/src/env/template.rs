//! What every env has in common, made once in the template process and inherited by its workers. It knows
//! no request.

use std::sync::OnceLock;

use exchange::request::ENV_KEYS;
use rb_sys::{
    LONG2FIX, rb_ary_new_from_values, rb_cObject, rb_const_get, rb_hash_aset, rb_hash_clear,
    rb_hash_new, rb_intern2, rb_obj_freeze, rb_require,
};

use crate::rack_release::RackRelease;
use crate::ruby::{NIL, Value, boolean, fixnum, interned, keep};

/// The prototype of envs, and what else each of them is made with.
pub(crate) struct EnvTemplate {
    /// The front's process, in whose file table large bodies lie.
    pub(crate) front: i32,
    pub(crate) rack_release: RackRelease,
    pub(super) prototype: Value,
    pub(super) keys: Keys,
    pub(super) known: [Value; ENV_KEYS.len()],
    pub(super) string_io: Value,
    pub(super) connection: Value,
    pub(super) worker_thread_variable: rb_sys::ID,
    pub(super) env_variable: rb_sys::ID,
}

/// Env keys.
pub(super) struct Keys {
    pub(super) method: Value,
    pub(super) path: Value,
    pub(super) request_path: Value,
    pub(super) query: Value,
    pub(super) uri: Value,
    pub(super) server_name: Value,
    pub(super) server_port: Value,
    pub(super) remote_address: Value,
    pub(super) protocol: Value,
    /// Absent where it is a header of the client.
    pub(super) version: Option<Value>,
    pub(super) upgrade: Value,
    /// `rack.protocol`, absent where the SPEC has none.
    pub(super) offered_protocols: Option<Value>,
    pub(super) scheme: Value,
    pub(super) input: Value,
    pub(super) start: Value,
    pub(super) deadline: Value,
    pub(super) hijack: Value,
    /// Absent where it is not offered.
    pub(super) early_hints: Option<Value>,
    pub(super) finished: Value,
    pub(super) after_reply: Value,
}

/// Classes and objects of the Ruby side that envs refer to.
pub(crate) struct Parts {
    /// `rack.errors`
    pub(crate) errors: Value,
    /// `rack.input` of requests without a body, where there must be one
    pub(crate) empty_input: Value,
    /// Class of `rack.hijack` and `rack.early_hints`
    pub(crate) connection: Value,
    /// `rack.multithread`
    pub(crate) multithread: bool,
    /// Whether there is `rack.early_hints`
    pub(crate) early_hints: bool,
    /// Whose SPEC holds
    pub(crate) rack_release: RackRelease,
}

/// Entries that a copy of the prototype has room for: more than nearly every request needs.
const ROOM: i32 = 64;

/// The env keys of the table alone.
const KNOWN: [&str; ENV_KEYS.len()] = {
    let mut names = [""; ENV_KEYS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = ENV_KEYS[index].1;
        index += 1;
    }
    names
};

static TEMPLATE: OnceLock<EnvTemplate> = OnceLock::new();

/// The template of envs; `None` before [`prepare`].
pub(crate) fn template() -> Option<&'static EnvTemplate> {
    TEMPLATE.get()
}

/// Makes the template of envs, for processes whose front is `front`. Only the first call counts.
///
/// # Safety
/// The rules of [`crate::ruby`]. May raise.
pub(crate) unsafe fn prepare(front: i32, parts: &Parts) {
    // SAFETY: the caller keeps the rules; what is stored in the static is kept alive by `keep`.
    let template = unsafe {
        rb_require(c"stringio".as_ptr());
        let key = |name: &str| keep(interned(name.as_bytes()));
        let is_newer = parts.rack_release >= RackRelease::OPTIONAL_INPUT;
        let keys = Keys {
            method: key("REQUEST_METHOD"),
            path: key("PATH_INFO"),
            request_path: key("REQUEST_PATH"),
            query: key("QUERY_STRING"),
            uri: key("REQUEST_URI"),
            server_name: key("SERVER_NAME"),
            server_port: key("SERVER_PORT"),
            remote_address: key("REMOTE_ADDR"),
            protocol: key("SERVER_PROTOCOL"),
            version: (!is_newer).then(|| key("HTTP_VERSION")),
            upgrade: key("HTTP_UPGRADE"),
            offered_protocols: is_newer.then(|| key("rack.protocol")),
            scheme: key("rack.url_scheme"),
            input: key("rack.input"),
            start: key("HTTP_X_REQUEST_START"),
            deadline: key("highball.deadline"),
            hijack: key("rack.hijack"),
            early_hints: parts.early_hints.then(|| key("rack.early_hints")),
            finished: key("rack.response_finished"),
            after_reply: key("rack.after_reply"),
        };
        EnvTemplate {
            front,
            rack_release: parts.rack_release,
            prototype: prototype(&keys, parts),
            known: KNOWN.map(key),
            keys,
            string_io: keep(rb_const_get(rb_cObject, intern("StringIO"))),
            connection: keep(parts.connection),
            worker_thread_variable: intern("@worker_thread"),
            env_variable: intern("@env"),
        }
    };
    let _ = TEMPLATE.set(template);
}

/// # Safety
/// The rules. May raise.
unsafe fn intern(name: &str) -> rb_sys::ID {
    // SAFETY: the caller keeps the rules; Ruby copies the name.
    unsafe { rb_intern2(name.as_ptr().cast(), name.len() as _) }
}

/// Gives an empty hash room for [`ROOM`] entries. Copies have it too, so that filling one does not move it.
///
/// # Safety
/// The rules. May raise.
unsafe fn reserve(hash: Value) {
    // SAFETY: the caller keeps the rules; small integers are no references.
    unsafe {
        for index in 0..ROOM {
            rb_hash_aset(hash, fixnum(index), NIL);
        }
        // Keeps the memory.
        rb_hash_clear(hash);
    }
}

/// # Safety
/// The rules. May raise.
unsafe fn prototype(keys: &Keys, parts: &Parts) -> Value {
    // SAFETY: the caller keeps the rules; the new hash is kept alive before anything else is allocated.
    unsafe {
        let hash = keep(rb_hash_new());
        reserve(hash);
        let set = |key: Value, value: Value| rb_hash_aset(hash, key, value);
        let word = |text: &str| interned(text.as_bytes());
        set(keys.method, word("GET"));
        set(word("SCRIPT_NAME"), word(""));
        set(keys.query, word(""));
        set(keys.protocol, word("HTTP/1.1"));
        if let Some(version) = keys.version {
            set(version, word("HTTP/1.1"));
        }
        set(word("GATEWAY_INTERFACE"), word("CGI/1.2"));
        set(
            word("SERVER_SOFTWARE"),
            word(concat!("highball/", env!("CARGO_PKG_VERSION"))),
        );
        set(
            word("rack.version"),
            rb_obj_freeze(rb_ary_new_from_values(
                2,
                [LONG2FIX(1), LONG2FIX(6)].as_ptr(),
            )),
        );
        set(keys.scheme, word("http"));
        if parts.rack_release < RackRelease::OPTIONAL_INPUT {
            set(keys.input, parts.empty_input);
        }
        set(word("rack.errors"), parts.errors);
        set(word("rack.multithread"), boolean(parts.multithread));
        set(word("rack.multiprocess"), boolean(true));
        set(word("rack.run_once"), boolean(false));
        set(word("rack.hijack?"), boolean(true));
        let io_bound = rb_const_get(
            rb_const_get(rb_cObject, intern("Highball")),
            intern("IoBound"),
        );
        set(word("highball.io_bound"), io_bound);
        set(word("puma.mark_as_io_bound"), io_bound);
        hash
    }
}
