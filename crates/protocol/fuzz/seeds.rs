//! What fuzzing begins with: what real servers sent.

use flushlab_protocol::packet::frame;

use crate::captures::{self, Side};

/// What servers sent in each case, as one stream, behind the byte that says what the client waits for.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for case in captures::all() {
        let waits_for = match case.name.split(' ').next() {
            Some("query:" | "execute") => 2,
            Some("prepare") => 3,
            _ => u8::from(case.name.ends_with("unix")),
        };
        let mut seed = vec![waits_for];
        for (sequence, payload) in case.payloads(Side::Server).enumerate() {
            frame(&mut seed, sequence as u8, |out| out.extend_from_slice(payload)).unwrap();
        }
        seeds.push((format!("{}: {}", case.server, case.name), seed));
    }
    seeds
}
