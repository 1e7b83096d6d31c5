//! Gives the kernel back memory of which somebody keeps the address. It frees nothing.

use rustix::mm::{Advice, madvise};

/// Gives the whole pages of `unused` back to the kernel. They hold zeros when they are next looked at (of memory that belongs
/// to this process alone, as that of an allocator does), and take memory again once they are written. The bytes before and
/// behind them stay as they are.
pub fn release(unused: &mut [u8]) {
    // SAFETY: sysconf reads a constant of the system.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(0);
    if page == 0 {
        return;
    }
    let before = unused.as_ptr().addr().wrapping_neg() % page;
    let Some(pages) = unused.get_mut(before..) else {
        return;
    };
    let bytes = pages.len() / page * page;
    if bytes > 0 {
        // SAFETY: the range consists of whole pages of a slice that nobody else can look at. Whatever the kernel makes of
        // them, each byte can be read and written afterwards. Where it refuses they stay as they are.
        let _ = unsafe { madvise(pages.as_mut_ptr().cast(), bytes, Advice::LinuxDontNeed) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than what an allocator takes from memory that it shares between several.
    const LENGTH: usize = 1 << 20;

    #[test]
    fn whole_pages_are_given_back_and_can_be_written_again() {
        let mut bytes = vec![7; LENGTH];
        release(&mut bytes[100..LENGTH - 100]);
        let released = bytes.iter().filter(|&&byte| byte == 0).count();
        assert!(released > LENGTH - 3 * (64 << 10), "{released}");
        assert_eq!(&bytes[..100], [7; 100]);
        assert_eq!(&bytes[LENGTH - 100..], [7; 100]);
        bytes.fill(8);
        assert!(bytes.iter().all(|&byte| byte == 8));
    }

    #[test]
    fn less_than_a_page_stays_as_it_is() {
        let mut bytes = vec![7; LENGTH];
        release(&mut bytes[1..1000]);
        release(&mut []);
        assert!(bytes.iter().all(|&byte| byte == 7));
    }
}
