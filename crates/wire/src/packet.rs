//! Framing: three bytes of length, one of sequence, the payload.

use crate::Error;

/// Bytes before each payload.
pub const HEADER: usize = 4;

/// Longest payload that one packet can carry; one more byte means that another follows.
pub const MAX_PAYLOAD: usize = 0xFF_FFFE;

const INITIAL_CAPACITY: usize = 16 << 10;

/// One packet as it arrived.
pub type Payload<'a> = &'a [u8];

/// Bytes as they arrive, handed out as whole packets in their order.
///
/// It holds at most one packet of `limit` bytes and what was read behind it, and grows only as
/// bytes arrive. Packets that continue in another one (16 MiB and more) are refused: nothing that
/// flushlab asks is answered by one.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    limit: usize,
    sequence: u8,
}

impl Inbox {
    /// An empty inbox for payloads up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            bytes: vec![0; INITIAL_CAPACITY],
            start: 0,
            end: 0,
            limit: limit.min(MAX_PAYLOAD),
            sequence: 0,
        }
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

    /// Whether a whole packet is here.
    pub fn ready(&self) -> Result<bool, Error> {
        let held = &self.bytes[self.start..self.end];
        let Some((header, payload)) = held.split_first_chunk::<HEADER>() else {
            return Ok(false);
        };
        let length = length_of(header);
        if length > self.limit {
            return Err(Error::protocol(format!(
                "the server announces a packet of {length} bytes or more; the limit is {}",
                self.limit
            )));
        }
        Ok(payload.len() >= length)
    }

    /// The next packet's payload. An ERR packet is accepted under any sequence number: a server
    /// that is shutting down sends one unasked.
    ///
    /// # Panics
    /// If [`Inbox::ready`] did not say that there is one.
    pub fn take(&mut self) -> Result<Payload<'_>, Error> {
        let held = &self.bytes[self.start..self.end];
        let header = held
            .first_chunk::<HEADER>()
            .expect("take() is called when ready() said so");
        let payload = &held[HEADER..HEADER + length_of(header)];
        let sequence = header[3];
        self.start += HEADER + payload.len();
        if sequence != self.sequence && payload.first() != Some(&0xFF) {
            return Err(Error::protocol(format!(
                "a packet has sequence number {sequence}; {} was due",
                self.sequence
            )));
        }
        self.sequence = sequence.wrapping_add(1);
        Ok(payload)
    }
}

fn length_of(header: &[u8; HEADER]) -> usize {
    u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize
}

/// Appends a packet whose payload `write` appends.
///
/// # Errors
/// The payload is longer than [`MAX_PAYLOAD`]; `out` is as it was.
#[inline]
pub fn frame(out: &mut Vec<u8>, sequence: u8, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    write(out);
    let length = out.len() - start - HEADER;
    if length > MAX_PAYLOAD {
        out.truncate(start);
        return Err(Error::protocol(format!(
            "a packet of {length} bytes cannot be sent; the limit is {MAX_PAYLOAD}"
        )));
    }
    let [a, b, c, _] = (length as u32).to_le_bytes();
    out[start..start + HEADER].copy_from_slice(&[a, b, c, sequence]);
    Ok(())
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
    fn a_packet_that_continues_in_another_one_is_refused() {
        let mut inbox = Inbox::new(usize::MAX);
        fill(&mut inbox, b"\xff\xff\xff\x00");
        assert!(inbox.ready().is_err());
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
    fn a_payload_too_long_for_one_packet_is_not_sent() {
        let mut out = b"before".to_vec();
        let long = vec![0; MAX_PAYLOAD + 1];
        assert!(frame(&mut out, 0, |out| out.extend_from_slice(&long)).is_err());
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
