//! Ruby's C interface, as far as this crate uses it: strings, exceptions, definitions.
//!
//! Rules for every caller, which the `# Safety` sections below mean by "the rules":
//! - The thread holds the GVL.
//! - Ruby raises by longjmp. A frame that such a jump may leave holds plain data only: nothing with `Drop`.
//! - A [`VALUE`] lives on the machine's stack, where Ruby's collector looks for it, or in something marked.

use std::ffi::{CStr, c_int, c_void};
use std::fmt::{self, Write};
use std::mem::transmute;

use rb_sys::{
    FIX2LONG, FIXNUM_P, LONG2FIX, Qnil, RARRAY_CONST_PTR, RARRAY_LEN, RSTRING_LEN, RSTRING_PTR,
    VALUE, rb_data_type_t, rb_define_method, rb_define_module_function, rb_define_singleton_method,
    rb_enc_interned_str, rb_exc_new, rb_exc_raise, rb_gc_register_mark_object, rb_str_new,
    rb_utf8_encoding, rb_utf8_str_new, ruby_value_type,
};

/// A Ruby object.
pub(crate) use rb_sys::VALUE as Value;

/// `nil`
pub(crate) const NIL: Value = Qnil as Value;

/// The type of objects of this crate, as Ruby wants it described.
pub(crate) struct DataType(pub(crate) rb_data_type_t);

// SAFETY: never written after its making.
unsafe impl Sync for DataType {}

/// A pointer that Ruby may be given for these bytes. Rust's own for an empty slice is no address, and
/// some of Ruby's functions read it all the same.
fn pointer(bytes: &[u8]) -> *const i8 {
    if bytes.is_empty() {
        c"".as_ptr()
    } else {
        bytes.as_ptr().cast()
    }
}

/// A new binary string.
///
/// # Safety
/// The rules. May raise.
pub(crate) unsafe fn binary(bytes: &[u8]) -> Value {
    // SAFETY: the caller keeps the rules; the pointer has that many bytes, which Ruby copies.
    unsafe { rb_str_new(pointer(bytes), bytes.len() as _) }
}

/// A new UTF-8 string.
///
/// # Safety
/// The rules. May raise.
pub(crate) unsafe fn text(text: &str) -> Value {
    // SAFETY: the caller keeps the rules.
    unsafe { utf8(text.as_bytes()) }
}

/// A new string that is said to be UTF-8; whether it is valid is for Ruby code to find out.
///
/// # Safety
/// The rules. May raise.
pub(crate) unsafe fn utf8(bytes: &[u8]) -> Value {
    // SAFETY: as in `binary`.
    unsafe { rb_utf8_str_new(pointer(bytes), bytes.len() as _) }
}

/// The one frozen string with these bytes: what hash literals in Ruby code have for keys.
///
/// # Safety
/// The rules. May raise.
pub(crate) unsafe fn interned(bytes: &[u8]) -> Value {
    // SAFETY: as in `binary`.
    unsafe { rb_enc_interned_str(pointer(bytes), bytes.len() as _, rb_utf8_encoding()) }
}

/// Keeps an object alive, and in its place, for ever.
///
/// # Safety
/// The rules. May raise.
pub(crate) unsafe fn keep(value: Value) -> Value {
    // SAFETY: the caller keeps the rules.
    unsafe { rb_gc_register_mark_object(value) };
    value
}

/// Whether `value` is of a built-in type.
///
/// # Safety
/// The rules.
pub(crate) unsafe fn is(value: Value, kind: ruby_value_type) -> bool {
    // SAFETY: the caller keeps the rules, so `value` is an object or a special constant.
    unsafe { rb_sys::RB_TYPE_P(value, kind) }
}

/// The bytes of a string. They are valid until Ruby code runs or the GVL is released.
///
/// # Safety
/// The rules; `string` is a String.
pub(crate) unsafe fn bytes<'a>(string: Value) -> &'a [u8] {
    // SAFETY: the caller keeps the rules; Ruby's pointer of a string is never null and has that many bytes.
    unsafe { std::slice::from_raw_parts(RSTRING_PTR(string).cast(), RSTRING_LEN(string) as usize) }
}

/// A copy of a string as UTF-8, with replacements where it is not; empty for what is no string. Never raises.
///
/// # Safety
/// The rules.
pub(crate) unsafe fn copied(value: Value) -> String {
    // SAFETY: the caller keeps the rules; the type is checked.
    unsafe {
        match is(value, ruby_value_type::RUBY_T_STRING) {
            true => String::from_utf8_lossy(bytes(value)).into_owned(),
            false => String::new(),
        }
    }
}

/// The elements of an array. They are valid until Ruby code runs or the GVL is released.
///
/// # Safety
/// The rules; `array` is an Array.
pub(crate) unsafe fn elements<'a>(array: Value) -> &'a [Value] {
    // SAFETY: the caller keeps the rules.
    unsafe {
        match RARRAY_LEN(array) {
            0 => &[],
            length => std::slice::from_raw_parts(RARRAY_CONST_PTR(array), length as usize),
        }
    }
}

/// The elements of an array, and none of anything else.
///
/// # Safety
/// As for [`elements`].
pub(crate) unsafe fn list<'a>(value: Value) -> &'a [Value] {
    // SAFETY: the caller keeps the rules; the type is checked.
    unsafe {
        if is(value, ruby_value_type::RUBY_T_ARRAY) {
            elements(value)
        } else {
            &[]
        }
    }
}

/// A new array.
///
/// # Safety
/// The rules. May raise.
pub(crate) unsafe fn array(values: &[Value]) -> Value {
    // SAFETY: the caller keeps the rules.
    unsafe { rb_sys::rb_ary_new_from_values(values.len() as _, values.as_ptr()) }
}

/// A small integer within bounds, or `None`. Never raises.
pub(crate) fn integer<T: TryFrom<i64>>(value: Value) -> Option<T> {
    // SAFETY: it is checked to be a fixnum, which is no reference.
    let number = FIXNUM_P(value).then(|| unsafe { FIX2LONG(value) })?;
    T::try_from(number).ok()
}

/// An integer that always fits into a fixnum.
pub(crate) fn fixnum(number: impl Into<i32>) -> Value {
    // SAFETY: 32 bits fit; the result is no reference.
    unsafe { LONG2FIX(number.into().into()) }
}

/// Any integer without a sign.
///
/// # Safety
/// The rules. May raise.
pub(crate) unsafe fn unsigned(number: u32) -> Value {
    // SAFETY: the caller keeps the rules.
    unsafe { rb_sys::rb_ull2inum(number.into()) }
}

/// `true` or `false`.
pub(crate) fn boolean(value: bool) -> Value {
    if value {
        rb_sys::Qtrue as Value
    } else {
        rb_sys::Qfalse as Value
    }
}

/// Whether a value is neither `nil` nor `false`.
pub(crate) fn truthy(value: Value) -> bool {
    rb_sys::TEST(value)
}

/// A message of limited length on the stack, so that a jump may leave its frame.
pub(crate) struct Message {
    bytes: [u8; 512],
    length: usize,
}

impl Message {
    /// Formats a message; what is too long for it is cut.
    pub(crate) fn new(arguments: fmt::Arguments<'_>) -> Self {
        let mut message = Self {
            bytes: [0; 512],
            length: 0,
        };
        // The only error is "full", and then what fits is there.
        let _ = message.write_fmt(arguments);
        message
    }

    /// The text.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.length;
        let taken = text.len().min(room);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        if taken < text.len() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

/// Raises an exception of `class`.
///
/// # Safety
/// The rules; `class` is a class of exceptions.
pub(crate) unsafe fn raise(class: Value, message: &Message) -> ! {
    let text = message.as_bytes();
    // SAFETY: the caller keeps the rules; this frame and `Message` are plain data.
    unsafe {
        rb_exc_raise(rb_exc_new(class, pointer(text), text.len() as _));
    }
}

/// A function for Ruby to call, with the number of arguments that it takes besides `self`.
#[derive(Clone, Copy)]
pub(crate) enum Function {
    /// No argument.
    A0(unsafe extern "C" fn(Value) -> Value),
    /// One.
    A1(unsafe extern "C" fn(Value, Value) -> Value),
    /// Two.
    A2(unsafe extern "C" fn(Value, Value, Value) -> Value),
    /// Three.
    A3(unsafe extern "C" fn(Value, Value, Value, Value) -> Value),
    /// Four.
    A4(unsafe extern "C" fn(Value, Value, Value, Value, Value) -> Value),
    /// Five.
    #[allow(dead_code, reason = "the front of the gem's tests has one")]
    A5(unsafe extern "C" fn(Value, Value, Value, Value, Value, Value) -> Value),
    /// Seven.
    A7(unsafe extern "C" fn(Value, Value, Value, Value, Value, Value, Value, Value) -> Value),
    /// Nine.
    #[allow(dead_code, reason = "the front of the gem's tests has none")]
    A9(
        unsafe extern "C" fn(
            Value,
            Value,
            Value,
            Value,
            Value,
            Value,
            Value,
            Value,
            Value,
            Value,
        ) -> Value,
    ),
}

impl Function {
    /// As Ruby's definitions want it: without its true type, and with the number of arguments.
    fn erased(self) -> (Option<unsafe extern "C" fn() -> VALUE>, c_int) {
        let (address, arguments) = match self {
            Self::A0(function) => (function as *const c_void, 0),
            Self::A1(function) => (function as *const c_void, 1),
            Self::A2(function) => (function as *const c_void, 2),
            Self::A3(function) => (function as *const c_void, 3),
            Self::A4(function) => (function as *const c_void, 4),
            Self::A5(function) => (function as *const c_void, 5),
            Self::A7(function) => (function as *const c_void, 7),
            Self::A9(function) => (function as *const c_void, 9),
        };
        // SAFETY: it is a function's address, and Ruby calls it with the number of arguments given with it.
        (
            unsafe { transmute::<*const c_void, Option<unsafe extern "C" fn() -> VALUE>>(address) },
            arguments,
        )
    }
}

/// Defines methods of a class.
///
/// # Safety
/// The rules; `class` is a class.
pub(crate) unsafe fn define_methods(class: Value, methods: &[(&CStr, Function)]) {
    for (name, function) in methods {
        let (function, arguments) = function.erased();
        // SAFETY: the caller keeps the rules.
        unsafe { rb_define_method(class, name.as_ptr(), function, arguments) };
    }
}

/// Defines functions of a module.
///
/// # Safety
/// The rules; `module` is a module.
pub(crate) unsafe fn define_functions(module: Value, functions: &[(&CStr, Function)]) {
    for (name, function) in functions {
        let (function, arguments) = function.erased();
        // SAFETY: the caller keeps the rules.
        unsafe { rb_define_module_function(module, name.as_ptr(), function, arguments) };
    }
}

/// Defines a method of one object, such as `new` of a class.
///
/// # Safety
/// The rules.
pub(crate) unsafe fn define_singleton(object: Value, name: &CStr, function: Function) {
    let (function, arguments) = function.erased();
    // SAFETY: the caller keeps the rules.
    unsafe { rb_define_singleton_method(object, name.as_ptr(), function, arguments) };
}
