//! A log buffer that many threads fill at once and one empties: places, a ring of bytes, a ready prefix.
//!
//! A place is reserved by one atomic addition ([`Section`]), filled by its owner alone, and published. The
//! bytes up to the first place that is not published are ready; the one who holds the [`Drain`] reads them
//! and releases them. Positions in the ring grow without end; a place's position in its file is
//! told apart, because a file ends and the ring does not.

use std::cell::UnsafeCell;
use std::ops::Range;

use crate::section::Section;
use crate::sync::{AtomicU64, Ordering, Padded};

/// Bytes in a circle. Who touches which of them is the [`LogBuffer`]'s matter.
struct Ring {
    bytes: Box<[UnsafeCell<u8>]>,
    /// One for each byte: loom sees by them who touches the byte when.
    #[cfg(feature = "loom")]
    watched: Box<[loom::cell::UnsafeCell<()>]>,
}

// SAFETY: a byte is written by the owner of the one unreleased place that covers it, and read by the
// owner of the drain between that place's publication (Release, then Acquire) and its release.
#[allow(unsafe_code)]
unsafe impl Sync for Ring {}

impl Ring {
    fn new(size: usize) -> Self {
        Self {
            // Written once, so that filling a place later takes no page fault.
            bytes: (0..size).map(|_| UnsafeCell::new(0)).collect(),
            #[cfg(feature = "loom")]
            watched: (0..size).map(|_| loom::cell::UnsafeCell::new(())).collect(),
        }
    }

    /// `size` bytes from position `from` on, in two pieces where the ring ends between them.
    fn pieces(&self, from: u64, size: u64) -> [Range<usize>; 2] {
        let (start, size) = (from as usize & (self.bytes.len() - 1), size as usize);
        let front = size.min(self.bytes.len() - start);
        [start..start + front, 0..size - front]
    }

    /// # Safety
    /// Nobody else touches these bytes while the slice lives.
    #[allow(unsafe_code, clippy::mut_from_ref)]
    unsafe fn write(&self, range: Range<usize>) -> &mut [u8] {
        #[cfg(feature = "loom")]
        self.watched[range.clone()]
            .iter()
            .for_each(|byte| byte.with_mut(|_| ()));
        let cells = &self.bytes[range];
        // SAFETY: an UnsafeCell<u8> is a byte; the caller promises that it is ours alone.
        unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(cells.as_ptr()), cells.len()) }
    }

    /// # Safety
    /// Nobody writes these bytes while the slice lives.
    #[allow(unsafe_code)]
    unsafe fn read(&self, range: Range<usize>) -> &[u8] {
        #[cfg(feature = "loom")]
        self.watched[range.clone()]
            .iter()
            .for_each(|byte| byte.with(|_| ()));
        let cells = &self.bytes[range];
        // SAFETY: an UnsafeCell<u8> is a byte; the caller promises that it does not change.
        unsafe { std::slice::from_raw_parts(UnsafeCell::raw_get(cells.as_ptr()), cells.len()) }
    }
}

/// What a place's owner tells to the one who empties: where it ends, and a tag of his own.
#[derive(Debug)]
struct Slot {
    /// End of the place in the ring; larger than that of any earlier use of the slot once it is ready.
    end: AtomicU64,
    tag: AtomicU64,
}

/// The buffer.
pub(crate) struct LogBuffer {
    section: Section,
    ring: Ring,
    slots: Box<[Slot]>,
    /// Ring position minus position in the file, and the number of places before the section was opened:
    /// written while it is closed and nobody has a place.
    ring_base: AtomicU64,
    count_base: AtomicU64,
    /// Up to here in the ring bytes may be used again, and up to here slots.
    released: Padded<AtomicU64>,
    drained: Padded<AtomicU64>,
    /// Up to here the drain has found ready bytes.
    found: AtomicU64,
}

/// A place, until it is published: nobody else touches its bytes.
#[derive(Debug)]
pub(crate) struct Place {
    count: u64,
    ring: u64,
    /// Where it begins in the file.
    pub(crate) start: u64,
    /// Its number since the section was opened, from 0.
    pub(crate) number: u64,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// Its owner opens the section again.
    pub(crate) last: bool,
}

impl Place {
    /// Cuts `size` bytes, one place of a reserved group, off the front.
    pub(crate) fn split(&mut self, size: u64) -> Self {
        assert!(size < self.size, "a group has room for its places");
        let front = Self {
            size,
            last: false,
            ..*self
        };
        self.count += 1;
        self.number += 1;
        self.ring += size;
        self.start += size;
        self.size -= size;
        front
    }

    /// Where it ends in the ring.
    pub(crate) fn end(&self) -> u64 {
        self.ring + self.size
    }
}

/// The right to empty the buffer; there is one.
#[derive(Debug)]
pub(crate) struct Drain {
    /// Places found ready, and where the last of them ends.
    count: u64,
    ready: u64,
    released: u64,
}

impl Drain {
    /// Where the bytes that were found ready end.
    pub(crate) fn ready(&self) -> u64 {
        self.ready
    }
}

impl LogBuffer {
    /// A closed buffer of `bytes` (rounded up to a power of two) and room for `places` (likewise)
    /// that were published but not found ready; its section closes at `limit`.
    pub(crate) fn new(bytes: usize, places: usize, limit: u64) -> (Self, Drain) {
        let places = places.next_power_of_two();
        let section = Section::closed(limit);
        assert!(
            section.wrapped(2 * places as u64 - 1) >= places as u64,
            "places that are given and not found ready have different numbers"
        );
        let ring = Ring::new(bytes.next_power_of_two());
        let slot = || Slot {
            end: AtomicU64::new(0),
            tag: AtomicU64::new(0),
        };
        let buffer = Self {
            section,
            ring,
            slots: (0..places).map(|_| slot()).collect(),
            ring_base: AtomicU64::new(0),
            count_base: AtomicU64::new(0),
            released: Padded::default(),
            drained: Padded::default(),
            found: AtomicU64::new(0),
        };
        let drain = Drain {
            count: 0,
            ready: 0,
            released: 0,
        };
        (buffer, drain)
    }

    /// Lets positions in the ring begin at `position`; nothing was ever reserved.
    pub(crate) fn begin_at(&self, drain: &mut Drain, position: u64) {
        debug_assert!(self.is_closed() && drain.ready == 0);
        drain.ready = position;
        drain.released = position;
        self.released.store(position, Ordering::Relaxed);
    }

    /// Bytes of the ring.
    pub(crate) fn capacity(&self) -> u64 {
        self.ring.bytes.len() as u64
    }

    /// Reserves `count` places of `size` bytes together, or nothing while the section is closed.
    ///
    /// `size` is at least 1 and at most the ring's capacity.
    #[inline]
    pub(crate) fn reserve(&self, count: u64, size: u64) -> Option<Place> {
        debug_assert!(size > 0 && size <= self.capacity());
        let given = self.section.take(count, size)?;
        // These were written before the section was opened, which `take` has seen.
        let ring_base = self.ring_base.load(Ordering::Relaxed);
        let count_base = self.count_base.load(Ordering::Relaxed);
        Some(Place {
            count: count_base.wrapping_add(given.before),
            ring: ring_base.wrapping_add(given.start),
            start: given.start,
            number: given.before,
            size,
            last: given.last,
        })
    }

    /// Whether the place's bytes and its slot are free to be filled. Once they are they stay so.
    #[inline]
    pub(crate) fn has_room(&self, place: &Place) -> bool {
        // Counts wrap at a multiple of the slots' number.
        let drained = self.drained.load(Ordering::Acquire);
        let ahead = self.section.wrapped(place.count.wrapping_sub(drained));
        let room = self.released.load(Ordering::Acquire) + self.capacity();
        place.end() <= room && ahead < self.slots.len() as u64
    }

    /// The place's bytes, in two pieces where the ring ends inside it.
    ///
    /// # Panics
    /// There is no room yet: a mistake here.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn bytes<'a>(&'a self, place: &'a mut Place) -> (&'a mut [u8], &'a mut [u8]) {
        assert!(self.has_room(place), "a place is filled once there is room");
        let [front, back] = self.ring.pieces(place.ring, place.size);
        // SAFETY: places are disjoint, this one is borrowed exclusively and unpublished; `has_room` has
        // seen (Acquire) that what stood here before was released, so that the drain reads it no more.
        unsafe { (self.ring.write(front), self.ring.write(back)) }
    }

    /// Says that the place is filled.
    #[inline]
    pub(crate) fn publish(&self, place: Place, tag: u64) {
        let slot = &self.slots[self.index(place.count)];
        slot.tag.store(tag, Ordering::Relaxed);
        slot.end.store(place.end(), Ordering::Release);
    }

    /// The tag of the first published place behind those that the drain has found, for those without the
    /// drain; while somebody scans it may also be that of one that has just been found.
    pub(crate) fn first_ready(&self) -> Option<u64> {
        let count = self.drained.load(Ordering::Relaxed);
        let slot = &self.slots[self.index(count)];
        let end = slot.end.load(Ordering::Acquire);
        (end > self.found.load(Ordering::Relaxed)).then(|| slot.tag.load(Ordering::Relaxed))
    }

    /// Looks for further ready places, hands each one's end and tag to `found`, and says where they end.
    pub(crate) fn scan(&self, drain: &mut Drain, mut found: impl FnMut(u64, u64)) -> u64 {
        let before = drain.count;
        loop {
            let slot = &self.slots[self.index(drain.count)];
            let end = slot.end.load(Ordering::Acquire);
            if end <= drain.ready {
                break;
            }
            found(end, slot.tag.load(Ordering::Relaxed));
            drain.ready = end;
            drain.count = self.section.wrapped(drain.count + 1);
        }
        if drain.count != before {
            self.found.store(drain.ready, Ordering::Relaxed);
            self.drained.store(drain.count, Ordering::Release);
        }
        drain.ready
    }

    /// The ready bytes from `from` to `to` in the ring, in two pieces where the ring ends between them.
    #[allow(unsafe_code)]
    pub(crate) fn filled<'a>(&'a self, drain: &'a Drain, from: u64, to: u64) -> (&'a [u8], &'a [u8]) {
        assert!(
            drain.released <= from && from <= to && to <= drain.ready,
            "only ready bytes are read"
        );
        let [front, back] = self.ring.pieces(from, to - from);
        // SAFETY: these bytes were published (`scan` has seen it by Acquire), their owners touch them
        // no more, and nobody gets them again before `release`, which needs the drain exclusively.
        unsafe { (self.ring.read(front), self.ring.read(back)) }
    }

    /// Lets the bytes before `to` in the ring be used again.
    pub(crate) fn release(&self, drain: &mut Drain, to: u64) {
        assert!(
            drain.released <= to && to <= drain.ready,
            "only what was ready is released"
        );
        drain.released = to;
        self.released.store(to, Ordering::Release);
    }

    /// Whether nothing is reserved now.
    pub(crate) fn is_closed(&self) -> bool {
        self.section.is_closed()
    }

    /// Where the next place would begin in the file.
    pub(crate) fn next(&self) -> u64 {
        self.section.next()
    }

    /// Closes the section: how many places were given since it was opened, and where in the file the last
    /// ends. `None` if it is closed, or if the owner of its last place is about to open it again.
    pub(crate) fn close(&self) -> Option<(u64, u64)> {
        self.section.close()
    }

    /// Where in the ring a position of the file stands while the section that it was given in lasts.
    pub(crate) fn ring_position(&self, position: u64) -> u64 {
        self.ring_base.load(Ordering::Relaxed).wrapping_add(position)
    }

    /// Opens the closed section at `start` of the file.
    ///
    /// # Panics
    /// Places of the section before are not all found ready: a mistake here.
    pub(crate) fn open(&self, drain: &Drain, start: u64) {
        self.ring_base
            .store(drain.ready.wrapping_sub(start), Ordering::Relaxed);
        self.count_base.store(drain.count, Ordering::Relaxed);
        self.section.open(start);
    }

    fn index(&self, count: u64) -> usize {
        count as usize & (self.slots.len() - 1)
    }
}
