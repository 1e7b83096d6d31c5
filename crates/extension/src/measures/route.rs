//! The route of a request, as the application's framework has left it in the env. It makes none up.

use exchange::measures::MAX_ROUTE_BYTES;
use rb_sys::{ID, rb_funcallv, rb_hash_lookup2, rb_intern2, rb_sym2str, ruby_value_type};

use crate::messages::symbol;
use crate::ruby::{NIL, Value, bytes, interned, is, keep};

/// What finding routes needs: objects and names, which live for ever.
pub(super) struct Routes {
    /// Who knows the patterns of Rails' routes: `Highball::Measures`.
    measures: Value,
    pattern: ID,
    rails_pattern: Value,
    rails_route: Value,
    rails_parameters: Value,
    sinatra_route: Value,
    controller: Value,
    action: Value,
}

impl Routes {
    /// Makes what finding routes needs. `measures` is `Highball::Measures`.
    ///
    /// # Safety
    /// The rules of [`crate::ruby`]. May raise.
    pub(super) unsafe fn new(measures: Value) -> Self {
        // SAFETY: the caller keeps the rules; what is stored is kept alive.
        unsafe {
            let key = |name: &str| keep(interned(name.as_bytes()));
            Self {
                measures: keep(measures),
                pattern: rb_intern2(c"pattern".as_ptr(), 7),
                rails_pattern: key("action_dispatch.route_uri_pattern"),
                rails_route: key("action_dispatch.route"),
                rails_parameters: key("action_dispatch.request.path_parameters"),
                sinatra_route: key("sinatra.route"),
                controller: symbol("controller"),
                action: symbol("action"),
            }
        }
    }

    /// Writes the route of the request of `env`, a Hash, as its framework names it, and returns its length; 0 where none does.
    ///
    /// # Safety
    /// The rules of [`crate::ruby`]. Raises what is thrown at this thread.
    pub(super) unsafe fn write(&self, env: Value, into: &mut [u8; MAX_ROUTE_BYTES]) -> usize {
        // SAFETY: the caller keeps the rules; each value's type is checked before it is used.
        unsafe {
            let value = |key: Value| rb_hash_lookup2(env, key, NIL);
            let pattern = value(self.rails_pattern);
            if is(pattern, ruby_value_type::RUBY_T_STRING) {
                return copy(into, &[without_format(bytes(pattern))]);
            }
            let route = value(self.rails_route);
            if route != NIL {
                let pattern = rb_funcallv(self.measures, self.pattern, 1, &raw const route);
                if is(pattern, ruby_value_type::RUBY_T_STRING) {
                    return copy(into, &[without_format(bytes(pattern))]);
                }
            }
            let parameters = value(self.rails_parameters);
            if is(parameters, ruby_value_type::RUBY_T_HASH) {
                let word = |key: Value| name(rb_hash_lookup2(parameters, key, NIL));
                if let (Some(controller), Some(action)) = (word(self.controller), word(self.action))
                {
                    return copy(into, &[controller, b"#", action]);
                }
            }
            let route = value(self.sinatra_route);
            if is(route, ruby_value_type::RUBY_T_STRING) {
                return copy(into, &[without_method(bytes(route))]);
            }
        }
        0
    }
}

/// The bytes of a string or a symbol.
///
/// # Safety
/// The rules of [`crate::ruby`].
unsafe fn name<'a>(value: Value) -> Option<&'a [u8]> {
    // SAFETY: the caller keeps the rules; the types are checked. A symbol's string lives as long as the symbol.
    unsafe {
        if is(value, ruby_value_type::RUBY_T_STRING) {
            Some(bytes(value))
        } else if is(value, ruby_value_type::RUBY_T_SYMBOL) {
            Some(bytes(rb_sym2str(value)))
        } else {
            None
        }
    }
}

/// A pattern of Rails without its optional format, which nearly each has.
fn without_format(pattern: &[u8]) -> &[u8] {
    pattern.strip_suffix(b"(.:format)").unwrap_or(pattern)
}

/// A route of Sinatra, `GET /books/:id`, without its method: the front knows that.
fn without_method(route: &[u8]) -> &[u8] {
    match route.iter().position(|&byte| byte == b' ') {
        Some(space) => &route[space + 1..],
        None => route,
    }
}

/// Copies as much of these parts as there is room for, and returns how much that was.
fn copy(into: &mut [u8; MAX_ROUTE_BYTES], parts: &[&[u8]]) -> usize {
    let mut length = 0;
    for part in parts {
        let taken = part.len().min(into.len() - length);
        into[length..length + taken].copy_from_slice(&part[..taken]);
        length += taken;
    }
    length
}
