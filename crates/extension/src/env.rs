//! The Rack env: from a request record to a Hash (Rack 2.2 and Rack 3 SPEC, "The Environment").
//!
//! What is the same for every request stands in a prototype that is copied, so that little is left to do
//! for each. It never looks at what a header means.

mod template;

use std::cell::Cell;

pub(crate) use template::{EnvTemplate, Parts, prepare, template};

use exchange::request::{BodyLocation, Malformed, Record, Text};
use rb_sys::{
    DBL2NUM, rb_ary_new, rb_ary_push, rb_class_new_instance, rb_hash_bulk_insert, rb_hash_dup,
    rb_ivar_set, rb_obj_alloc, rb_obj_freeze,
};

use crate::ruby::{NIL, Value, binary, bytes, interned};

/// Values that a thread's requests tend to have in common, kept to be used again: frozen strings.
pub(crate) struct CachedStrings {
    server_name: Cell<Value>,
    server_port: Cell<Value>,
    remote_address: Cell<Value>,
}

impl Default for CachedStrings {
    fn default() -> Self {
        let nothing = || Cell::new(NIL);
        Self {
            server_name: nothing(),
            server_port: nothing(),
            remote_address: nothing(),
        }
    }
}

impl CachedStrings {
    /// What Ruby's collector must keep.
    pub(crate) fn values(&self) -> [Value; 3] {
        [&self.server_name, &self.server_port, &self.remote_address].map(Cell::get)
    }
}

/// The frozen string with these bytes: the one in `cell` where it has them.
///
/// # Safety
/// The rules. May raise.
unsafe fn cached(cell: &Cell<Value>, text: &[u8]) -> Value {
    // SAFETY: the caller keeps the rules; what is not nil is a string.
    unsafe {
        if cell.get() == NIL || bytes(cell.get()) != text {
            cell.set(rb_obj_freeze(binary(text)));
        }
        cell.get()
    }
}

/// Pairs on their way into a hash, in an array on the stack, where Ruby's collector sees them.
struct Pairs {
    hash: Value,
    count: usize,
    values: [Value; 96],
}

impl Pairs {
    /// # Safety
    /// The rules. May raise.
    unsafe fn put(&mut self, key: Value, value: Value) {
        self.values[self.count] = key;
        self.values[self.count + 1] = value;
        self.count += 2;
        if self.count == self.values.len() {
            // SAFETY: the caller keeps the rules.
            unsafe { self.flush() };
        }
    }

    /// # Safety
    /// The rules. May raise.
    unsafe fn flush(&mut self) {
        // SAFETY: the caller keeps the rules; `count` values are there.
        unsafe { rb_hash_bulk_insert(self.count as _, self.values.as_ptr(), self.hash) };
        self.count = 0;
    }
}

impl EnvTemplate {
    /// Builds the env of the request in `record`, which `worker_thread` has claimed.
    ///
    /// `rack.input` is `nil` where the body is a file: opening it is left to Ruby code. Where there is no body and the
    /// SPEC allows it, there is no `rack.input`.
    ///
    /// # Errors
    /// [`Malformed`]
    ///
    /// # Safety
    /// The rules of [`crate::ruby`]. May raise.
    pub(crate) unsafe fn build(
        &self,
        record: &[u8],
        worker_thread: Value,
        cached_strings: &CachedStrings,
    ) -> Result<Value, Malformed> {
        let record = Record::parse(record)?;
        // SAFETY: the caller keeps the rules. Every new object goes into `pairs` or onto the stack.
        unsafe {
            let env = rb_hash_dup(self.prototype);
            let mut pairs = Pairs {
                hash: env,
                count: 0,
                values: [NIL; 96],
            };
            self.put_texts(&mut pairs, &record, cached_strings);
            self.put_times(&mut pairs, &record);
            self.put_connection(&mut pairs, worker_thread, env);
            self.put_fields(&mut pairs, &record);
            pairs.flush();
            Ok(env)
        }
    }

    /// The request line, and the names and addresses of server and client.
    ///
    /// # Safety
    /// The rules. May raise.
    #[inline]
    unsafe fn put_texts(
        &self,
        pairs: &mut Pairs,
        record: &Record<'_>,
        cached_strings: &CachedStrings,
    ) {
        let keys = &self.keys;
        let (path, query) = (record.text(Text::Path), record.text(Text::Query));
        // SAFETY: the caller keeps the rules.
        unsafe {
            // One string, as Puma has it.
            let path_info = binary(path);
            pairs.put(keys.path, path_info);
            pairs.put(keys.request_path, path_info);
            let name = cached(&cached_strings.server_name, record.text(Text::ServerName));
            pairs.put(keys.server_name, name);
            let mut port = [0; 5];
            let digits = put_digits(&mut port, record.fixed.server_port.into());
            let port = cached(&cached_strings.server_port, &port[5 - digits..]);
            pairs.put(keys.server_port, port);
            let address = cached(
                &cached_strings.remote_address,
                record.text(Text::RemoteAddress),
            );
            pairs.put(keys.remote_address, address);
            pairs.put(keys.uri, uri(path, query));
            if !query.is_empty() {
                pairs.put(keys.query, binary(query));
            }
            // The prototype has the usual ones.
            for (text, key, usual) in [
                (Text::Method, keys.method, &b"GET"[..]),
                (Text::Scheme, keys.scheme, &b"http"[..]),
            ] {
                if record.text(text) != usual {
                    pairs.put(key, interned(record.text(text)));
                }
            }
        }
    }

    /// When the request arrived, and when it must be done.
    ///
    /// # Safety
    /// The rules. May raise.
    #[inline]
    unsafe fn put_times(&self, pairs: &mut Pairs, record: &Record<'_>) {
        let deadline_ns = record.fixed.deadline_ns;
        // SAFETY: the caller keeps the rules.
        unsafe {
            pairs.put(self.keys.start, request_start(record.fixed.arrived_us));
            if deadline_ns != 0 {
                pairs.put(self.keys.deadline, DBL2NUM(deadline_ns as f64 / 1e9));
            }
        }
    }

    /// What the application calls back by: the connection, and what runs after the response.
    ///
    /// # Safety
    /// The rules. May raise.
    #[inline]
    unsafe fn put_connection(&self, pairs: &mut Pairs, worker_thread: Value, env: Value) {
        let keys = &self.keys;
        // SAFETY: the caller keeps the rules.
        unsafe {
            let connection = self.connection(worker_thread, env);
            pairs.put(keys.hijack, connection);
            if let Some(early_hints) = keys.early_hints {
                pairs.put(early_hints, connection);
            }
            pairs.put(keys.finished, rb_ary_new());
            pairs.put(keys.after_reply, rb_ary_new());
        }
    }

    /// The header fields, the protocol that they came by, and the body.
    ///
    /// # Safety
    /// The rules. May raise.
    #[inline]
    unsafe fn put_fields(&self, pairs: &mut Pairs, record: &Record<'_>) {
        let keys = &self.keys;
        let mut fields = record.fields();
        // SAFETY: the caller keeps the rules.
        unsafe {
            for (number, name, value) in fields.by_ref() {
                let key = match self.known.get(usize::from(number).wrapping_sub(1)) {
                    Some(&key) => key,
                    None => interned(name),
                };
                // A client's header named Version must not pass for the protocol's (SPEC of Rack 3.0).
                if Some(key) != keys.version {
                    pairs.put(key, binary(value));
                }
                if key == keys.upgrade
                    && let Some(offered_protocols) = keys.offered_protocols
                {
                    pairs.put(offered_protocols, protocols(value));
                }
            }
            let protocol = record.text(Text::Protocol);
            if protocol != b"HTTP/1.1" {
                let protocol = interned(protocol);
                pairs.put(keys.protocol, protocol);
                if let Some(version) = keys.version {
                    pairs.put(version, protocol);
                }
            }
            match record.fixed.body {
                BodyLocation::File { .. } => pairs.put(keys.input, NIL),
                BodyLocation::Inline => {
                    let body = fields.body();
                    if !body.is_empty() {
                        let body = binary(body);
                        let input = rb_class_new_instance(1, &raw const body, self.string_io);
                        pairs.put(keys.input, input);
                    }
                }
            }
        }
    }

    /// `rack.hijack` and `rack.early_hints` of a request.
    ///
    /// # Safety
    /// The rules. May raise.
    unsafe fn connection(&self, worker_thread: Value, env: Value) -> Value {
        // SAFETY: the caller keeps the rules.
        unsafe {
            let object = rb_obj_alloc(self.connection);
            rb_ivar_set(object, self.worker_thread_variable, worker_thread);
            rb_ivar_set(object, self.env_variable, env);
            object
        }
    }
}

/// `rack.protocol`: the protocols that an Upgrade field offers (RFC 9110, section 7.8).
///
/// # Safety
/// The rules. May raise.
unsafe fn protocols(value: &[u8]) -> Value {
    // SAFETY: the caller keeps the rules; the array is on the stack while it is filled.
    unsafe {
        let list = rb_ary_new();
        for protocol in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            if !protocol.is_empty() {
                rb_ary_push(list, binary(protocol));
            }
        }
        list
    }
}

/// `REQUEST_URI`
///
/// # Safety
/// The rules. May raise.
unsafe fn uri(path: &[u8], query: &[u8]) -> Value {
    // SAFETY: the caller keeps the rules; the pieces are not in Ruby's memory.
    unsafe {
        let uri = binary(path);
        if !query.is_empty() {
            rb_sys::rb_str_cat(uri, c"?".as_ptr(), 1);
            rb_sys::rb_str_cat(uri, query.as_ptr().cast(), query.len() as _);
        }
        uri
    }
}

/// `t=` and seconds since 1970, as nginx writes it and monitoring reads it.
///
/// # Safety
/// The rules. May raise.
unsafe fn request_start(arrived_us: u64) -> Value {
    let mut text = *b"t=00000000000000000000.000000";
    let whole = put_digits(&mut text[2..22], arrived_us / 1_000_000);
    put_digits(&mut text[23..29], arrived_us % 1_000_000);
    // To the digits in front, without their leading zeros.
    let start = 22 - whole;
    text[start - 2..start].copy_from_slice(b"t=");
    // SAFETY: the caller keeps the rules.
    unsafe { binary(&text[start - 2..]) }
}

/// Writes a number to the right end of `into` and returns how many digits it has, at least one.
fn put_digits(into: &mut [u8], mut number: u64) -> usize {
    let mut count = 0;
    for digit in into.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        count += 1;
        if number == 0 {
            break;
        }
    }
    count
}
