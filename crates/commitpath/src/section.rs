//! The ordered section: which place comes next, decided by one atomic addition.
//!
//! One word holds how many places were given since it was opened and where the next one begins. Who adds
//! to it gets both at once. Beyond a limit the section is closed: additions are void until somebody opens
//! it anew. The one whose place crosses the limit knows that it is the last, and so do the others not
//! need to be counted.

use crate::sync::{AtomicU64, Ordering, Padded};

const OFFSET_BITS: u32 = 40;
const OFFSETS: u64 = 1 << OFFSET_BITS;
/// Numbers of places are kept modulo this.
const COUNTS: u64 = 1 << (64 - OFFSET_BITS);

/// Largest limit: a terabyte, so that void additions behind it do not spill into the count.
pub(crate) const MAX_LIMIT: u64 = OFFSETS / 2;

/// What was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given {
    /// Places given before since the section was opened, modulo [`COUNTS`].
    pub(crate) before: u64,
    /// Where the place begins.
    pub(crate) start: u64,
    /// It is the last: the section is closed behind it, and its owner has to open it again.
    pub(crate) last: bool,
}

/// Gives places, one after the other.
#[derive(Debug)]
pub(crate) struct Section {
    word: Padded<AtomicU64>,
    limit: u64,
}

impl Section {
    /// A closed section; a place that reaches `limit` closes it again.
    pub(crate) fn closed(limit: u64) -> Self {
        assert!(limit <= MAX_LIMIT, "the limit leaves no room for void additions");
        Self {
            word: Padded(AtomicU64::new(limit)),
            limit,
        }
    }

    /// Gives `count` places of `size` bytes together, or nothing while the section is closed.
    #[inline]
    pub(crate) fn take(&self, count: u64, size: u64) -> Option<Given> {
        // Acquire: what stood before the opening is seen; who got a place keeps the section from
        // being opened anew until that place is filled.
        let word = self
            .word
            .fetch_add(count << OFFSET_BITS | size, Ordering::Acquire);
        let (before, start) = (word >> OFFSET_BITS, word % OFFSETS);
        (start < self.limit).then_some(Given {
            before,
            start,
            last: start + size >= self.limit,
        })
    }

    /// Where the next place begins; not below the limit while the section is closed.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.word.load(Ordering::Acquire) % OFFSETS
    }

    /// Whether nothing is given now.
    pub(crate) fn is_closed(&self) -> bool {
        self.next() >= self.limit
    }

    /// Closes the section: places given since it was opened and where the next would begin. `None`
    /// if it is closed, or about to be opened anew by the owner of the last place.
    pub(crate) fn close(&self) -> Option<(u64, u64)> {
        let word = self.word.swap(self.limit, Ordering::AcqRel);
        let (count, next) = (word >> OFFSET_BITS, word % OFFSETS);
        (next < self.limit).then_some((count, next))
    }

    /// Opens a closed section at `start`, with nothing given yet. Void additions are forgotten.
    pub(crate) fn open(&self, start: u64) {
        debug_assert!(self.is_closed());
        assert!(start < self.limit, "a section is opened below its limit");
        self.word.store(start, Ordering::Release);
    }

    /// How many places a section may give without its numbers repeating.
    pub(crate) const COUNTS: u64 = COUNTS;
}
