//! Compressed and tagged transactions: read inside, refused where they would take too much memory.

use std::io::Write;

use flushlab_binlog::check::{Checker, FileReport, LimitKind, Rule, Verdict};
use flushlab_binlog::{
    file_head, read_transactions, Column, ColumnType, Format, Head, Identity, Previous, Table, Uuid,
    LARGEST_EVENT, LARGEST_PAYLOAD,
};

const QUERY: u8 = 2;
const XID: u8 = 16;
const TABLE_MAP: u8 = 19;
const WRITE_ROWS_V1: u8 = 23;
const WRITE_ROWS: u8 = 30;
const GTID: u8 = 33;
const PAYLOAD: u8 = 40;
const GTID_TAGGED: u8 = 42;
const MARIADB_GTID: u8 = 162;
const QUERY_COMPRESSED: u8 = 165;
const WRITE_ROWS_COMPRESSED_V1: u8 = 166;
const UPDATE_ROWS_COMPRESSED_V1: u8 = 167;

const ZSTD: u8 = 0;
const NONE: u8 = 255;

fn format(version: &str) -> Format {
    let identity = Identity {
        server_id: 1,
        uuid: Uuid([7; 16]),
        domain: 0,
    };
    Format::new(version, identity).unwrap()
}

/// An event that ends at `end`, without a checksum.
fn bare(kind: u8, end: usize, body: &[u8]) -> Vec<u8> {
    let mut event = 1_790_000_000_u32.to_le_bytes().to_vec();
    event.push(kind);
    event.extend(1_u32.to_le_bytes());
    event.extend((19 + body.len() as u32).to_le_bytes());
    event.extend((end as u32).to_le_bytes());
    event.extend([0, 0]);
    event.extend(body);
    event
}

/// A file that grows event by event.
struct Made(Vec<u8>);

impl Made {
    fn new(version: &str) -> Self {
        let format = format(version);
        let previous = Previous::nothing(format.flavor());
        let head = Head {
            timestamp: 1_790_000_000,
            first: true,
            previous: &previous,
            checkpoint: "binlog.000001",
        };
        Self(file_head(&format, &head))
    }

    fn event(&mut self, kind: u8, body: &[u8]) -> &mut Self {
        let mut event = bare(kind, self.0.len() + 19 + body.len() + 4, body);
        let size = event.len() as u32 + 4;
        event[9..13].copy_from_slice(&size.to_le_bytes());
        let crc = crc32fast::hash(&event);
        self.0.extend(event);
        self.0.extend(crc.to_le_bytes());
        self
    }

    /// A GTID event of a transaction with `rest` bytes behind it.
    fn gtid(&mut self, number: u64, rest: usize) -> &mut Self {
        let mut body = vec![0];
        body.extend([7; 16]);
        body.extend(number.to_le_bytes());
        body.push(2);
        body.extend((number - 1).to_le_bytes());
        body.extend(number.to_le_bytes());
        body.extend(&1_790_000_000_000_000_u64.to_le_bytes()[..7]);
        let length = (19 + body.len() + 9 + 4 + 4 + rest) as u64;
        body.push(0xfe);
        body.extend(length.to_le_bytes());
        body.extend(90_704_u32.to_le_bytes());
        self.event(GTID, &body)
    }

    /// A transaction in a payload.
    fn payload(&mut self, number: u64, payload: &[u8]) -> &mut Self {
        self.gtid(number, 19 + payload.len() + 4).event(PAYLOAD, payload)
    }

    fn tagged(&mut self, number: u64, sequence_number: u64) -> &mut Self {
        let mut fields = vec![0];
        fields.extend([0, 0, 2]);
        fields.extend([14; 16]);
        for (field, value) in [
            (2, 2 * number),
            (4, 2 * (sequence_number - 1)),
            (5, 2 * sequence_number),
        ] {
            if field == 4 {
                fields.extend(b"\x06\x06tag");
            }
            fields.extend([2 * field, 2 * value as u8]);
        }
        fields.extend([2 * 6, 2, 2 * 9, 2]);
        let mut body = vec![2, 2 * (2 + fields.len() as u8)];
        body.extend(fields);
        self.event(GTID_TAGGED, &body)
    }

    fn query(&mut self, text: &str) -> &mut Self {
        self.event(QUERY, &query(text.as_bytes()))
    }

    fn check(&self) -> FileReport {
        Checker::default()
            .check("binlog.000001", self.0.as_slice())
            .unwrap()
    }

    fn inserted(&self) -> Result<Vec<Vec<i64>>, String> {
        let mut rows = Vec::new();
        let reached =
            read_transactions(self.0.as_slice(), "orders", |one| rows.extend(one.inserted)).unwrap();
        assert!(!reached.torn);
        reached.unreadable.map_or(Ok(rows), Err)
    }
}

fn query(text: &[u8]) -> Vec<u8> {
    let mut body = vec![8, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
    body.extend(b"shop\0");
    body.extend(text);
    body
}

/// `orders(id BIGINT NOT NULL)`.
fn table_map(version: &str) -> Vec<u8> {
    let id = Column::new(ColumnType::Int {
        bytes: 8,
        unsigned: false,
    });
    let table = Table::new(&format(version), 70, "shop", "orders", &[id]).unwrap();
    table.map_body().to_vec()
}

const ROWS_HEAD: [u8; 8] = [70, 0, 0, 0, 0, 0, 1, 0];

fn rows(ids: &[i64]) -> Vec<u8> {
    ids.iter()
        .flat_map(|id| [&[0][..], &id.to_le_bytes()].concat())
        .collect()
}

/// The events of a transaction as a payload has them.
fn events(parts: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, body) in parts {
        let event = bare(*kind, 0, body);
        out.extend(event);
    }
    out
}

fn transaction(ids: &[i64]) -> Vec<(u8, Vec<u8>)> {
    vec![
        (QUERY, query(b"BEGIN")),
        (TABLE_MAP, table_map("9.7.4")),
        (WRITE_ROWS, [&ROWS_HEAD[..], &[2, 0, 1, 1], &rows(ids)].concat()),
        (XID, vec![9, 0, 0, 0, 0, 0, 0, 0]),
    ]
}

fn payload_of(compression: u8, uncompressed_size: u64, content: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for (field, value) in [
        (1, content.len() as u64),
        (2, u64::from(compression)),
        (3, uncompressed_size),
    ] {
        body.extend([field, 9, 0xfe]);
        body.extend(value.to_le_bytes());
    }
    body.push(0);
    body.extend(content);
    body
}

fn zstd(events: &[u8]) -> Vec<u8> {
    zstd::encode_all(events, 3).unwrap()
}

fn compressed(parts: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let events = events(parts);
    payload_of(ZSTD, events.len() as u64, &zstd(&events))
}

fn first_problem(report: &FileReport) -> (Rule, &str) {
    assert_eq!(report.verdict, Verdict::Damaged, "{report:?}");
    (report.problems[0].rule, &report.problems[0].message)
}

#[test]
fn a_compressed_transaction_is_read_inside() {
    let parts = transaction(&[1, -2, 3]);
    let plain = events(&parts);
    for payload in [compressed(&parts), payload_of(NONE, plain.len() as u64, &plain)] {
        let mut made = Made::new("9.7.4");
        made.payload(1, &payload).payload(2, &payload);
        let report = made.check();
        assert_eq!(report.verdict, Verdict::Whole, "{:?}", report.problems);
        assert_eq!(
            (report.transactions, report.rows.written, report.opaque_events),
            (2, 6, 0)
        );
        assert_eq!(report.event_types.get("WRITE_ROWS"), Some(&2));
        let expected: Vec<Vec<i64>> = [1, -2, 3, 1, -2, 3].map(|id| vec![id]).to_vec();
        assert_eq!(made.inserted(), Ok(expected));
    }
}

#[test]
fn damage_inside_a_compressed_transaction_is_found() {
    let damaged = |change: fn(&mut Vec<(u8, Vec<u8>)>)| {
        let mut parts = transaction(&[1, 2]);
        change(&mut parts);
        let mut made = Made::new("9.7.4");
        made.payload(1, &compressed(&parts));
        made.check()
    };
    let report = damaged(|parts| parts[2].1.truncate(20));
    assert_eq!(first_problem(&report).0, Rule::Rows);
    let report = damaged(|parts| drop(parts.pop()));
    let no_end = (Rule::Structure, "a compressed transaction has no end");
    assert_eq!(first_problem(&report), no_end);
    let report = damaged(|parts| parts.push((XID, vec![9, 0, 0, 0, 0, 0, 0, 0])));
    assert_eq!(
        first_problem(&report),
        (Rule::Structure, "XID is outside any transaction")
    );
    let report = damaged(|parts| parts.insert(1, (GTID, vec![0; 42])));
    assert_eq!(
        first_problem(&report),
        (Rule::Structure, "GTID is inside a compressed transaction")
    );
}

#[test]
fn a_payload_that_is_not_what_it_says_is_damaged() {
    let plain = events(&transaction(&[1, 2]));
    let size = plain.len() as u64;
    let packed = zstd(&plain);
    for (payload, words) in [
        (
            payload_of(ZSTD, size, &packed[..packed.len() - 3]),
            "cannot be decompressed",
        ),
        (payload_of(ZSTD, size, b"no zstd"), "cannot be decompressed"),
        (
            payload_of(ZSTD, size + 1, &packed),
            "ends 1 bytes before its uncompressed size",
        ),
        (
            payload_of(ZSTD, size - 1, &packed),
            "where the payload has 26 left",
        ),
        (
            payload_of(NONE, 0, &plain[..plain.len() - 1]),
            "where the payload has 26 left",
        ),
        (payload_of(ZSTD, size, &packed)[..20].to_vec(), "needs"),
    ] {
        let mut made = Made::new("9.7.4");
        made.payload(1, &payload);
        let report = made.check();
        let (rule, message) = first_problem(&report);
        assert!(rule == Rule::Body && message.contains(words), "{message}");
        assert!(made.inserted().is_err_and(|reason| reason.contains(words)));
    }
}

#[test]
fn a_decompression_bomb_is_refused_and_not_called_damaged() {
    // An event of 128 MiB of zeros, in some thousand bytes.
    let size = 2 * LARGEST_EVENT;
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    let mut head = bare(QUERY, 0, &[]);
    head[9..13].copy_from_slice(&(size as u32).to_le_bytes());
    encoder.write_all(&head).unwrap();
    encoder.write_all(&vec![0; size as usize]).unwrap();
    let bomb = encoder.finish().unwrap();
    let long = format!("an event has {size} bytes uncompressed; at most {LARGEST_EVENT} are read");
    let larger = LARGEST_PAYLOAD + 1;
    let many = format!("the payload has {larger} bytes uncompressed; at most {LARGEST_PAYLOAD} are read");
    for (payload, words) in [
        (payload_of(ZSTD, size + 19, &bomb), long),
        (payload_of(ZSTD, larger, &bomb), many),
        (
            payload_of(1, size, &bomb),
            "the payload has the compression 1, which is unknown".to_owned(),
        ),
    ] {
        let mut made = Made::new("9.7.4");
        made.payload(1, &payload)
            .payload(2, &compressed(&transaction(&[5])));
        let report = made.check();
        assert_eq!(report.verdict, Verdict::Whole, "{:?}", report.problems);
        assert_eq!(
            (report.transactions, report.rows.written, report.opaque_events),
            (2, 1, 1)
        );
        let limit = &report.limits[0];
        assert_eq!(
            (limit.kind, limit.message.as_str()),
            (LimitKind::Compression, words.as_str())
        );
        assert_eq!(made.inserted(), Err(words));
    }
}

#[test]
fn a_tag_counts_by_itself_and_gaps_are_legal() {
    fn end(made: &mut Made, text: &str) {
        made.query(text);
    }
    let mut made = Made::new("9.7.4");
    let simple = query(b"CREATE TABLE t (a INT)").len() + 23;
    made.gtid(1, simple).query("CREATE TABLE t (a INT)");
    end(made.tagged(1, 2), "DROP TABLE t");
    end(made.tagged(2, 3), "DROP TABLE t");
    let report = made.check();
    assert_eq!(report.verdict, Verdict::Whole, "{:?}", report.problems);
    let uuid = Uuid([7; 16]);
    assert_eq!(
        (report.gtids.as_str(), report.opaque_events),
        (&*format!("{uuid}:1:tag:1-2"), 0)
    );

    let before = made.0.clone();
    end(made.tagged(4, 4), "DROP TABLE t");
    let skipped = made.check();
    assert_eq!(skipped.verdict, Verdict::Whole, "{:?}", skipped.problems);
    assert_eq!(skipped.gtids, format!("{uuid}:1:tag:1-2:4"));

    made.0 = before.clone();
    end(made.tagged(2, 4), "DROP TABLE t");
    assert_eq!(
        first_problem(&made.check()),
        (Rule::Gtid, &*format!("the GTID {uuid}:tag:2 appeared before"))
    );

    made.0 = before;
    made.gtid(3, simple).query("CREATE TABLE t (a INT)");
    assert_eq!(
        first_problem(&made.check()),
        (Rule::SequenceNumber, "sequence_number 3 follows 3")
    );
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// As MariaDB compresses: width and size in front.
fn mariadb(content: &[u8]) -> Vec<u8> {
    let size = content.len() as u16;
    [&[0x82], &size.to_be_bytes()[..], &zlib(content)].concat()
}

fn mariadb_gtid(made: &mut Made, number: u64, flags: u8) {
    let mut body = number.to_le_bytes().to_vec();
    body.extend([0, 0, 0, 0, flags]);
    body.extend([0; 6]);
    made.event(MARIADB_GTID, &body);
}

fn mariadb_file(kind: u8, body: &[u8]) -> Made {
    let mut made = Made::new("10.11.19-MariaDB");
    mariadb_gtid(&mut made, 1, 1);
    made.event(
        QUERY_COMPRESSED,
        &query(&mariadb(b"CREATE TABLE orders (id BIGINT NOT NULL)")),
    );
    mariadb_gtid(&mut made, 2, 12);
    made.event(TABLE_MAP, &table_map("10.11.19-MariaDB"));
    made.event(kind, &[&ROWS_HEAD[..], body].concat());
    made.event(XID, &[9, 0, 0, 0, 0, 0, 0, 0]);
    made
}

#[test]
fn what_mariadb_compresses_is_read() {
    let content = rows(&[1, 2, 3]);
    let made = mariadb_file(
        WRITE_ROWS_COMPRESSED_V1,
        &[&[1, 1], &mariadb(&content)[..]].concat(),
    );
    let report = made.check();
    assert_eq!(report.verdict, Verdict::Whole, "{:?}", report.problems);
    assert_eq!(
        (report.transactions, report.rows.written, report.opaque_events),
        (2, 3, 0)
    );
    assert_eq!(made.inserted(), Ok(vec![vec![1], vec![2], vec![3]]));
    let plain = mariadb_file(WRITE_ROWS_V1, &[&[1, 1], &content[..]].concat());
    assert_eq!(
        (plain.check().rows, plain.inserted()),
        (report.rows, made.inserted())
    );
    let update = mariadb_file(
        UPDATE_ROWS_COMPRESSED_V1,
        &[&[1, 1, 1], &mariadb(&rows(&[1, 2]))[..]].concat(),
    );
    assert_eq!(update.check().rows.updated, 1);
}

#[test]
fn damage_and_bombs_in_what_mariadb_compresses_are_told_apart() {
    let content = rows(&[1, 2, 3]);
    let packed = zlib(&content);
    let with =
        |head: &[u8], rest: &[u8]| mariadb_file(WRITE_ROWS_COMPRESSED_V1, &[&[1, 1], head, rest].concat());
    for (made, words) in [
        (
            with(&[0x82, 0, 27], &packed[..packed.len() - 5]),
            "cannot be decompressed",
        ),
        (
            with(&[0x82, 0, 26], &packed),
            "more than 26 bytes uncompressed where 26 were given",
        ),
        (
            with(&[0x82, 0, 28], &packed),
            "27 bytes uncompressed where 28 were given",
        ),
        (
            with(&[0x82, 0, 27], &[&packed[..], b"abc"].concat()),
            "3 extra bytes",
        ),
        (with(&[0x02, 0, 27], &packed), "0x02 is no kind of compression"),
        (
            with(&[0x82, 0, 20], &zlib(&content[..20])),
            "a value needs 8 bytes",
        ),
    ] {
        let report = made.check();
        let (rule, message) = first_problem(&report);
        assert!(rule == Rule::Rows && message.contains(words), "{message}");
    }
    for head in [&[0x84, 0xff, 0xff, 0xff, 0xff][..], &[0x92, 0, 27]] {
        let report = with(head, &packed).check();
        assert_eq!(report.verdict, Verdict::Whole, "{:?}", report.problems);
        assert_eq!(
            (report.opaque_events, report.limits[0].kind),
            (1, LimitKind::Compression)
        );
    }
}
