//! The ordered section: which place comes next, decided by one atomic addition.
//!
//! One word holds how many places were given since it was opened and where the next one begins. Who adds
//! to it gets both at once. Beyond a limit the section is closed: additions are void until somebody opens
//! it anew. The one whose place crosses the limit knows that it is the last, and so do the others not
//! need to be counted.

use crate::sync::{AtomicU64, Ordering, Padded};

/// Bits that hold where the next place begins, at least; the rest count places.
const OFFSET_BITS: u32 = 40;

/// Largest limit: more than a day's 800 MB/s. Counts are left for as many places as a redo log's buffer holds.
pub(crate) const MAX_LIMIT: u64 = 1 << 46;

/// What was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given {
    /// Places given before since the section was opened, [`wrapped`](Section::wrapped).
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
    offset_bits: u32,
}

impl Section {
    /// A closed section; a place that reaches `limit` closes it again.
    pub(crate) fn closed(limit: u64) -> Self {
        assert!(limit <= MAX_LIMIT, "the limit leaves room for a count");
        // As much again behind the limit: void additions do not spill into the count.
        let needed = limit.next_power_of_two().trailing_zeros() + 1;
        Self {
            word: Padded(AtomicU64::new(limit)),
            limit,
            offset_bits: needed.max(OFFSET_BITS),
        }
    }

    /// Gives `count` places of `size` bytes together, or nothing while the section is closed.
    #[inline]
    pub(crate) fn take(&self, count: u64, size: u64) -> Option<Given> {
        // Acquire: what stood before the opening is seen; who got a place keeps the section from
        // being opened anew until that place is filled.
        let word = self
            .word
            .fetch_add(count << self.offset_bits | size, Ordering::Acquire);
        let (before, start) = self.parts(word);
        (start < self.limit).then_some(Given {
            before,
            start,
            last: start + size >= self.limit,
        })
    }

    /// Where the next place begins; not below the limit while the section is closed.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.parts(self.word.load(Ordering::Acquire)).1
    }

    /// Whether nothing is given now.
    pub(crate) fn is_closed(&self) -> bool {
        self.next() >= self.limit
    }

    /// Closes the section: places given since it was opened and where the next would begin. `None`
    /// if it is closed, or about to be opened anew by the owner of the last place.
    pub(crate) fn close(&self) -> Option<(u64, u64)> {
        let word = self.word.swap(self.limit, Ordering::AcqRel);
        let (count, next) = self.parts(word);
        (next < self.limit).then_some((count, next))
    }

    /// Opens a closed section at `start`, with nothing given yet. Void additions are forgotten.
    pub(crate) fn open(&self, start: u64) {
        debug_assert!(self.is_closed());
        assert!(start < self.limit, "a section is opened below its limit");
        self.word.store(start, Ordering::Release);
    }

    /// A count of places as it is kept: modulo as many as may be given before numbers repeat.
    #[inline]
    pub(crate) fn wrapped(&self, count: u64) -> u64 {
        count & (u64::MAX >> self.offset_bits)
    }

    /// The count and the offset that the word holds.
    fn parts(&self, word: u64) -> (u64, u64) {
        (word >> self.offset_bits, word & ((1 << self.offset_bits) - 1))
    }
}
