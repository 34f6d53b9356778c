//! What real servers said: the cases of the `.txt` files beside this one (made by `scripts/capture_protocol.py`).

use std::path::Path;

/// Who sent a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// One conversation, or a piece of one.
#[derive(Debug, Clone)]
pub struct Case {
    /// `mysql-8.0`, …
    pub server: String,
    pub name: String,
    /// Whole packets with their headers, in their order.
    pub packets: Vec<(Side, Vec<u8>)>,
}

impl Case {
    /// Payloads of one side.
    pub fn payloads(&self, side: Side) -> impl Iterator<Item = &[u8]> {
        self.packets
            .iter()
            .filter(move |(from, _)| *from == side)
            .map(|(_, packet)| &packet[4..])
    }
}

/// Every case of every server.
pub fn all() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files.iter().flat_map(|path| read(path)).collect()
}

fn read(path: &Path) -> Vec<Case> {
    let server = path.file_stem().unwrap().to_str().unwrap();
    let mut cases: Vec<Case> = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        if let Some(name) = line.strip_prefix('[') {
            cases.push(Case {
                server: server.to_owned(),
                name: name.trim_end_matches(']').to_owned(),
                packets: Vec::new(),
            });
        } else if let Some((side, hex)) = line.split_once(' ').filter(|_| !line.starts_with('#')) {
            let side = if side == "C" { Side::Client } else { Side::Server };
            cases.last_mut().unwrap().packets.push((side, bytes(hex)));
        }
    }
    cases
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .map(|digit| digit.to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
