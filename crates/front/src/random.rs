//! Random bytes of the kernel, asked for in bulk: most requests need some. It never waits for them.

use std::cell::RefCell;

use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes that are asked of the kernel at once: those of 256 requests' ids.
const POOL_BYTES: usize = 2560;

thread_local! {
    /// Random bytes of the kernel that nothing has used yet.
    static POOL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Takes random bytes out of the pool, and fills it where it is empty. On a kernel that has none yet they are zeros.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    POOL.with_borrow_mut(|pool| {
        let mut taken = [0; N];
        if pool.len() < N {
            pool.resize(POOL_BYTES, 0);
            let filled = getrandom(&mut *pool, GetRandomFlags::NONBLOCK).unwrap_or(0);
            pool.truncate(filled);
        }
        let left = pool.len().saturating_sub(N);
        let last = &pool[left..];
        taken[..last.len()].copy_from_slice(last);
        pool.truncate(left);
        taken
    })
}
