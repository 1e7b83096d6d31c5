//! The worker's loop in native code: a Ruby extension between the exchange and the Rack application.
//!
//! It builds envs, writes responses, and passes control messages; the rest of a worker is Ruby code
//! (`gem/lib/highball`). It is the only crate that knows Ruby. It never parses HTTP, and it decides nothing
//! about processes.
//!
//! A panic ends the process, with a message: every function that Ruby calls is `extern "C"`, out of which
//! Rust does not unwind. The supervisor replaces the worker.

use rb_sys::{
    rb_cObject, rb_const_get, rb_define_class_under, rb_define_module, rb_define_module_under,
    rb_intern2, rb_undef_alloc_func,
};
use ruby::Function::{A0, A1, A2, A3, A4, A7, A9};
use worker_thread::methods;

mod arguments;
mod children;
mod env;
mod errors;
mod lock_wait;
mod malloc;
mod measures;
mod messages;
mod native_thread;
mod process;
mod rack_release;
mod respond;
mod ruby;
mod sampler;
mod worker;
mod worker_thread;

/// Defines `Highball::Native`, `Highball::WorkerThread` and `Highball::Sampler`. Ruby calls it when it loads the extension.
#[unsafe(no_mangle)]
pub extern "C" fn Init_highball() {
    // SAFETY: Ruby calls with the GVL; all names are literals.
    unsafe {
        let highball = rb_define_module(c"Highball".as_ptr());
        let error = |name: &str| {
            ruby::keep(rb_const_get(
                highball,
                rb_intern2(name.as_ptr().cast(), name.len() as _),
            ))
        };
        errors::set_classes(
            error("InvalidResponse"),
            error("ClientGone"),
            error("ResponseOver"),
        );
        children::set_error_class(error("NotTheWorker"));
        let native = rb_define_module_under(highball, c"Native".as_ptr());
        ruby::define_functions(
            native,
            &[
                (c"attach", A2(worker::attach)),
                (c"prepare", A7(worker::prepare)),
                (c"enter", A2(worker::enter)),
                (c"become_template", A0(worker::template::become_template)),
                (c"child?", A0(children::child)),
                (c"close_in_children", A1(children::native_close_in_children)),
                (c"fork_is_worker", A1(children::native_fork_is_worker)),
                (c"ready", A0(worker::ready)),
                (c"report", A1(worker::report)),
                (c"next_message", A1(worker::next_message)),
                (c"end_idle_work", A0(worker::end_idle_work)),
                (c"purge", A3(worker::purge)),
                (c"count", A1(worker::count)),
                (c"measure", A3(measures::measure)),
                (c"query_began", A0(measures::query_began)),
                (c"query_ended", A1(measures::query_ended)),
                (c"action_ended", A2(measures::action_ended)),
                (c"backtrace", A3(worker::backtrace)),
                (c"inspected", A3(worker::inspected)),
                (c"stop", A0(worker::stop)),
                (c"keep_native_thread", A0(native_thread::keep)),
                (c"own_arena", A0(malloc::own_arena)),
                (c"join_arena", A0(malloc::join_arena)),
                (c"release_memory", A0(malloc::release_memory)),
                (c"end_with_parent", A0(process::methods::end_with_parent)),
                (c"lower_priority", A0(process::methods::lower_priority)),
                (c"merge_pages", A0(process::methods::merge_pages)),
                (c"merges_pages?", A0(process::methods::merges_pages)),
                (c"pidfd", A1(process::methods::pidfd)),
                (c"kill", A1(process::methods::kill)),
                (c"hung_up?", A1(process::methods::hung_up)),
                (c"receive", A1(messages::receive)),
                (c"booted", A9(messages::booted)),
                (c"boot_failed", A4(messages::boot_failed)),
                (c"donor", A2(messages::donor)),
                (c"forked", A4(messages::forked)),
                (c"not_forked", A3(messages::not_forked)),
                (c"exited", A4(messages::exited)),
                (c"count_in_template", A2(messages::count)),
            ],
        );
        define_worker_thread(highball);
        define_sampler(highball);
    }
}

/// Defines `Highball::Sampler`.
///
/// # Safety
/// Called by `Init_highball` with the GVL; `highball` is the module.
unsafe fn define_sampler(highball: ruby::Value) {
    // SAFETY: the caller keeps the rules; all names are literals.
    unsafe {
        let class = rb_define_class_under(highball, c"Sampler".as_ptr(), rb_cObject);
        rb_undef_alloc_func(class);
        ruby::define_singleton(class, c"new", A1(sampler::new));
        ruby::define_methods(
            class,
            &[
                (c"add", A2(sampler::add)),
                (c"start", A0(sampler::start)),
                (c"stop", A0(sampler::stop)),
                (c"watch", A3(sampler::watch)),
                (c"overdue", A1(sampler::overdue)),
                (c"node", A1(sampler::node)),
                (c"figures", A0(sampler::figures)),
            ],
        );
    }
}

/// Defines `Highball::WorkerThread`.
///
/// # Safety
/// Called by `Init_highball` with the GVL; `highball` is the module.
unsafe fn define_worker_thread(highball: ruby::Value) {
    // SAFETY: the caller keeps the rules; all names are literals.
    unsafe {
        let class = rb_define_class_under(highball, c"WorkerThread".as_ptr(), rb_cObject);
        rb_undef_alloc_func(class);
        ruby::define_singleton(class, c"new", A1(worker_thread::new));
        ruby::define_methods(
            class,
            &[
                (c"number", A0(methods::own_number)),
                (c"take", A0(worker_thread::take)),
                (c"claim_of", A1(methods::claim_of)),
                (c"holds?", A2(methods::holds)),
                (c"answered?", A0(methods::answered)),
                (c"hijacked?", A0(methods::hijacked)),
                (c"env", A0(methods::env)),
                (c"input_path", A0(methods::input_path)),
                (c"ask_for_body", A0(methods::ask_for_body)),
                (c"respond", A4(respond::respond)),
                (c"head", A3(respond::head)),
                (c"hints", A2(respond::hints)),
                (c"chunk", A2(respond::chunk)),
                (c"file", A2(respond::file)),
                (c"flush", A0(methods::flush)),
                (c"finish", A1(methods::finish)),
                (c"fail", A1(methods::fail)),
                (c"finish_with_error", A2(methods::finish_with_error)),
                (c"report", A1(methods::report)),
                (c"report_exception", A1(methods::report_exception)),
                (c"leave_request", A0(methods::leave_request)),
                (c"begin_io", A0(methods::begin_io)),
                (c"count", A1(methods::count)),
                (c"begin_out_of_band", A0(methods::begin_out_of_band)),
                (c"end_out_of_band", A0(methods::end_out_of_band)),
                (c"hijack", A2(methods::hijack)),
            ],
        );
    }
}
