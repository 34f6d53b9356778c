//! Framing: three bytes of length, one of sequence, the payload.

use crate::Error;

/// Bytes before each payload.
pub const HEADER: usize = 4;

/// Longest payload that one packet can carry; one more byte means that another follows.
pub const MAX_PAYLOAD: usize = 0xFF_FFFE;

/// Length of a packet whose payload continues in the next packet.
const FULL: usize = MAX_PAYLOAD + 1;

/// Longest payload of several packets: the largest `max_allowed_packet` that a server takes.
pub const LARGEST: usize = 1 << 30;

const INITIAL_CAPACITY: usize = 16 << 10;

/// An empty inbox that has grown beyond this size shrinks before the next bytes arrive.
const KEPT_CAPACITY: usize = 1 << 20;

/// One packet as it arrived.
pub type Payload<'a> = &'a [u8];

/// Bytes as they arrive, handed out as whole payloads in their order.
///
/// It holds at most one payload of `limit` bytes and what was read behind it, and grows only as
/// bytes arrive. A payload of 16 MiB or more arrives in several packets and is handed out in one piece.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    limit: usize,
    sequence: u8,
    /// Bytes of a payload that full packets brought; their headers are cut out, except for the first.
    joined: usize,
    /// Packets of that payload.
    packets: u8,
    /// Its last packet is there.
    whole: bool,
}

impl Inbox {
    /// An empty inbox for payloads up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            bytes: vec![0; INITIAL_CAPACITY],
            start: 0,
            end: 0,
            limit,
            sequence: 0,
            joined: 0,
            packets: 0,
            whole: false,
        }
    }

    /// Takes payloads up to `limit` bytes from now on.
    pub fn allow(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Sequence number that the next packet of the conversation, from either side, must carry.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Tells that a packet was sent under `sequence`; the peer's next one must follow it.
    pub fn sent(&mut self, sequence: u8) {
        self.sequence = sequence.wrapping_add(1);
    }

    /// Where the next bytes from the peer go; never empty. Call [`Inbox::filled`] afterwards.
    pub fn spare(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > KEPT_CAPACITY {
                self.bytes = vec![0; INITIAL_CAPACITY];
            }
        }
        if self.end == self.bytes.len() {
            if self.start > 0 {
                self.bytes.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            } else {
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    /// Tells that `count` bytes were put where [`Inbox::spare`] said.
    pub fn filled(&mut self, count: usize) {
        assert!(
            count <= self.bytes.len() - self.end,
            "more bytes than there was room for"
        );
        self.end += count;
    }

    /// Whether everything that arrived was taken.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether a whole payload is here.
    #[inline]
    pub fn ready(&mut self) -> Result<bool, Error> {
        if self.joined > 0 {
            return self.join();
        }
        let held = &self.bytes[self.start..self.end];
        let Some((header, payload)) = held.split_first_chunk::<HEADER>() else {
            return Ok(false);
        };
        let length = length_of(header);
        if length > self.limit {
            return Err(self.too_long(length));
        }
        if payload.len() < length {
            return Ok(false);
        }
        if length < FULL {
            return Ok(true);
        }
        (self.joined, self.packets, self.whole) = (length, 1, false);
        self.join()
    }

    /// Joins packets to the full one before them; whether the last one is there.
    #[cold]
    fn join(&mut self) -> Result<bool, Error> {
        while !self.whole {
            let at = self.start + HEADER + self.joined;
            let Some((header, payload)) = self.bytes[at..self.end].split_first_chunk::<HEADER>() else {
                return Ok(false);
            };
            let (length, sequence) = (length_of(header), header[3]);
            let due = self.bytes[self.start + 3].wrapping_add(self.packets);
            if sequence != due {
                return Err(unordered(sequence, due));
            }
            if self.joined + length > self.limit {
                return Err(self.too_long(self.joined + length));
            }
            if payload.len() < length {
                return Ok(false);
            }
            self.bytes.copy_within(at + HEADER..self.end, at);
            self.end -= HEADER;
            self.joined += length;
            self.packets = self.packets.wrapping_add(1);
            self.whole = length < FULL;
        }
        Ok(true)
    }

    fn too_long(&self, length: usize) -> Error {
        Error::protocol(format!(
            "the server announces a packet of {length} bytes or more; the limit is {}",
            self.limit
        ))
    }

    /// The next payload. An ERR packet is accepted under any sequence number: a server that is shutting down
    /// sends one unasked.
    ///
    /// # Panics
    /// If [`Inbox::ready`] did not say that there is one.
    #[inline]
    pub fn take(&mut self) -> Result<Payload<'_>, Error> {
        let held = &self.bytes[self.start..self.end];
        let header = held
            .first_chunk::<HEADER>()
            .expect("take() is called when ready() said so");
        let (length, packets) = match self.joined {
            0 => (length_of(header), 1),
            joined => (joined, self.packets),
        };
        assert!(
            self.joined == 0 || self.whole,
            "take() is called when ready() said so"
        );
        let payload = &held[HEADER..HEADER + length];
        let sequence = header[3];
        self.start += HEADER + length;
        self.joined = 0;
        if sequence != self.sequence && payload.first() != Some(&0xFF) {
            return Err(unordered(sequence, self.sequence));
        }
        self.sequence = sequence.wrapping_add(packets);
        Ok(payload)
    }
}

fn unordered(sequence: u8, due: u8) -> Error {
    Error::protocol(format!("a packet has sequence number {sequence}; {due} was due"))
}

fn length_of(header: &[u8; HEADER]) -> usize {
    u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize
}

/// Appends a packet whose payload `write` appends; several, if the payload is 16 MiB or longer.
///
/// # Errors
/// The payload is longer than [`LARGEST`]; `out` is as it was.
#[inline]
pub fn frame(out: &mut Vec<u8>, sequence: u8, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    write(out);
    let length = out.len() - start - HEADER;
    if length >= FULL {
        return split(out, start, sequence, LARGEST);
    }
    out[start..start + HEADER].copy_from_slice(&header(length, sequence));
    Ok(())
}

/// Cuts the payload that lies behind a header's room at `start` into packets.
#[cold]
fn split(out: &mut Vec<u8>, start: usize, sequence: u8, limit: usize) -> Result<(), Error> {
    let length = out.len() - start - HEADER;
    if length > limit {
        out.truncate(start);
        return Err(Error::protocol(format!(
            "a packet of {length} bytes cannot be sent; the limit is {limit}"
        )));
    }
    // A payload whose last packet is full ends with an empty one.
    let more = length / FULL;
    out.resize(out.len() + more * HEADER, 0);
    for number in (0..=more).rev() {
        let from = start + HEADER + number * FULL;
        let to = from + number * HEADER;
        let piece = (length - number * FULL).min(FULL);
        out.copy_within(from..from + piece, to);
        let sequence = sequence.wrapping_add(number as u8);
        out[to - HEADER..to].copy_from_slice(&header(piece, sequence));
    }
    Ok(())
}

#[inline]
fn header(length: usize, sequence: u8) -> [u8; HEADER] {
    let [a, b, c, _] = (length as u32).to_le_bytes();
    [a, b, c, sequence]
}

/// Sequence number of the last packet that carries the payload at the beginning of `out`.
#[inline]
pub fn last_sequence(out: &[u8]) -> u8 {
    let mut rest = out;
    while let Some((header, payload)) = rest.split_first_chunk::<HEADER>() {
        let length = length_of(header);
        if length < FULL {
            return header[3];
        }
        rest = payload.get(length..).unwrap_or_default();
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fill(inbox: &mut Inbox, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let spare = inbox.spare();
            let count = spare.len().min(bytes.len());
            spare[..count].copy_from_slice(&bytes[..count]);
            inbox.filled(count);
            bytes = &bytes[count..];
        }
    }

    #[test]
    fn a_packet_is_not_ready_before_its_last_byte() {
        let mut inbox = Inbox::new(100);
        for byte in b"\x02\x00\x00\x00a" {
            fill(&mut inbox, &[*byte]);
            assert_eq!(inbox.ready(), Ok(false));
        }
        fill(&mut inbox, b"b");
        assert_eq!(inbox.ready(), Ok(true));
        assert_eq!(inbox.take(), Ok(&b"ab"[..]));
    }

    #[test]
    fn an_announced_length_above_the_limit_is_refused_before_anything_is_allocated() {
        let mut inbox = Inbox::new(1000);
        fill(&mut inbox, b"\xe9\x03\x00\x00");
        assert!(matches!(inbox.ready(), Err(Error::Protocol(_))));
        assert_eq!(inbox.bytes.len(), INITIAL_CAPACITY);
    }

    #[test]
    fn a_payload_of_several_packets_is_handed_out_in_one_piece() {
        // The last packet of the second one is empty.
        for length in [MAX_PAYLOAD, FULL, FULL + 1, 2 * FULL, 2 * FULL + 5] {
            let mut payload = b"seventeen letters".repeat(length / 17 + 1);
            payload.truncate(length);
            let mut stream = Vec::new();
            frame(&mut stream, 0, |out| out.extend_from_slice(&payload)).unwrap();
            let packets = length / FULL + 1;
            assert_eq!(stream.len(), length + packets * HEADER);
            assert_eq!(usize::from(last_sequence(&stream)), packets - 1);
            frame(&mut stream, packets as u8, |out| out.push(b'x')).unwrap();
            let mut inbox = Inbox::new(LARGEST);
            for piece in stream.chunks(1_000_003) {
                fill(&mut inbox, piece);
            }
            assert_eq!((inbox.ready(), inbox.ready()), (Ok(true), Ok(true)));
            assert!(inbox.take().unwrap() == payload, "{length}");
            assert_eq!(inbox.ready(), Ok(true));
            assert_eq!(inbox.take(), Ok(&b"x"[..]));
        }
    }

    #[test]
    fn a_long_payload_is_as_bounded_as_a_short_one() {
        let mut inbox = Inbox::new(FULL + 9);
        let mut full = vec![0; HEADER + FULL];
        full[..3].fill(0xFF);
        fill(&mut inbox, &full);
        assert_eq!(inbox.ready(), Ok(false));
        fill(&mut inbox, b"\x0a\0\0\x01");
        assert!(inbox.ready().is_err());
    }

    #[test]
    fn a_packet_that_continues_under_a_wrong_number_is_a_protocol_error() {
        let mut inbox = Inbox::new(LARGEST);
        let mut full = vec![0; HEADER + FULL];
        full[..3].fill(0xFF);
        fill(&mut inbox, &full);
        fill(&mut inbox, b"\x01\0\0\x02a");
        assert_eq!(
            inbox.ready(),
            Err(Error::protocol("a packet has sequence number 2; 1 was due"))
        );
    }

    #[test]
    fn an_inbox_gives_back_the_memory_of_a_long_payload() {
        let mut inbox = Inbox::new(LARGEST);
        let mut stream = Vec::new();
        frame(&mut stream, 0, |out| out.resize(out.len() + FULL, 0)).unwrap();
        fill(&mut inbox, &stream);
        assert_eq!(inbox.ready(), Ok(true));
        inbox.take().unwrap();
        assert_eq!(inbox.spare().len(), INITIAL_CAPACITY);
    }

    #[test]
    fn a_wrong_sequence_number_is_a_protocol_error() {
        let mut inbox = Inbox::new(100);
        fill(&mut inbox, b"\x01\x00\x00\x05a");
        assert_eq!(inbox.ready(), Ok(true));
        assert_eq!(
            inbox.take(),
            Err(Error::protocol("a packet has sequence number 5; 0 was due"))
        );
    }

    #[test]
    fn an_unasked_error_is_accepted_under_any_sequence_number() {
        let mut inbox = Inbox::new(100);
        fill(&mut inbox, b"\x03\x00\x00\x09\xff\x1d\x04");
        assert_eq!(inbox.ready(), Ok(true));
        assert_eq!(inbox.take(), Ok(&b"\xff\x1d\x04"[..]));
    }

    #[test]
    fn a_payload_that_no_server_takes_is_not_sent() {
        let mut out = b"before".to_vec();
        let start = out.len();
        out.resize(start + HEADER + FULL + 1, 0);
        assert!(split(&mut out, start, 0, FULL).is_err());
        assert_eq!(out, b"before");
    }

    proptest! {
        #[test]
        fn packets_round_trip_however_the_bytes_are_cut(
            payloads in proptest::collection::vec(
                proptest::collection::vec(0u8..0xFF, 0..40_000), 1..6),
            cut in 1usize..30_000,
        ) {
            let mut stream = Vec::new();
            for (sequence, payload) in payloads.iter().enumerate() {
                frame(&mut stream, sequence as u8, |out| out.extend_from_slice(payload)).unwrap();
            }
            let mut inbox = Inbox::new(MAX_PAYLOAD);
            let mut arrived = Vec::new();
            for piece in stream.chunks(cut) {
                fill(&mut inbox, piece);
                while inbox.ready().unwrap() {
                    arrived.push(inbox.take().unwrap().to_vec());
                }
            }
            prop_assert_eq!(arrived, payloads);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let mut inbox = Inbox::new(1 << 20);
            fill(&mut inbox, &bytes);
            while let Ok(true) = inbox.ready() {
                if inbox.take().is_err() {
                    break;
                }
            }
        }
    }
}
