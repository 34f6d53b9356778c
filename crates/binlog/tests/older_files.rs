//! Files of versions that are not supported, parts of files, relay logs and files that are encrypted: built
//! here as their servers write them, because none of them makes a corpus of its own.
//!
//! The shapes were read off public files of MySQL 5.0.91, 5.1.34, 5.5.27 and 5.6.35, of Aurora 5.7.12 and of
//! MariaDB 10.0.15.

use flushlab_binlog::check::{Checker, FileReport, LimitKind, Packing, TailKind, Verdict};
use flushlab_binlog::IN_USE_OFFSET;

/// Lengths of post-headers up to TABLE_MAP's predecessor, as all servers since 5.0 give them.
const FIRST_LENGTHS: [u8; 18] = [56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 0, 0, 4, 26];
const ROW_LENGTHS: [u8; 8] = [8, 0, 0, 0, 8, 8, 8, 2];

const QUERY: u8 = 2;
const STOP: u8 = 3;
const ROTATE: u8 = 4;
const INTVAR: u8 = 5;
const XID: u8 = 16;
const TABLE_MAP: u8 = 19;
const WRITE_ROWS_V1: u8 = 23;
const WRITE_ROWS: u8 = 30;
const GTID: u8 = 33;
const ANONYMOUS_GTID: u8 = 34;
const PREVIOUS_GTIDS: u8 = 35;
const PARTIAL_UPDATE_ROWS: u8 = 39;
const AURORA_PADDING: u8 = 100;

/// A file that grows event by event.
struct Made {
    content: Vec<u8>,
    checksums: bool,
}

impl Made {
    /// The head of a file; `algorithm` is `None` for servers that have no checksums.
    fn new(version: &str, lengths: &[u8], algorithm: Option<u8>) -> Self {
        let mut made = Self {
            content: vec![0xfe, b'b', b'i', b'n'],
            checksums: algorithm.is_some(),
        };
        let mut body = vec![4, 0];
        body.extend(version.bytes());
        body.resize(52, 0);
        body.extend([0, 0, 0, 0, 19]);
        body.extend(lengths);
        body[57 + 14] = (57 + lengths.len()) as u8;
        body.extend(algorithm);
        made.event(15, 0, &body);
        made.checksums = algorithm == Some(1);
        made
    }

    fn mysql(version: &str) -> Self {
        let mut lengths = FIRST_LENGTHS.to_vec();
        if !version.starts_with("5.0") {
            lengths.extend(ROW_LENGTHS);
        }
        if !version.starts_with("5.0") && !version.starts_with("5.1") {
            lengths.push(0);
        }
        let algorithm = version.starts_with("5.6").then_some(1);
        if version.starts_with("5.6") {
            lengths.extend([0, 0, 10, 10, 10, 25, 25, 0]);
        }
        Self::new(version, &lengths, algorithm)
    }

    /// MySQL 5.7's head, and Aurora's, which has a hundred lengths.
    fn aurora() -> Self {
        let mut lengths = [
            &FIRST_LENGTHS[..],
            &ROW_LENGTHS,
            &[0, 0, 0, 10, 10, 10, 42, 42, 0],
        ]
        .concat();
        lengths.resize(100, 0);
        let mut made = Self::new("5.7.12-log", &lengths, Some(1));
        made.event(PREVIOUS_GTIDS, 0x80, &[0; 8]);
        made
    }

    fn event(&mut self, kind: u8, flags: u16, body: &[u8]) -> &mut Self {
        let end = self.content.len() + 19 + body.len() + if self.checksums { 4 } else { 0 };
        self.event_of(kind, flags, end as u32, body)
    }

    fn event_of(&mut self, kind: u8, flags: u16, log_pos: u32, body: &[u8]) -> &mut Self {
        let start = self.content.len();
        let size = 19 + body.len() + if self.checksums { 4 } else { 0 };
        self.content.extend(1_322_620_252_u32.to_le_bytes());
        self.content.push(kind);
        self.content.extend(101_u32.to_le_bytes());
        self.content.extend((size as u32).to_le_bytes());
        self.content.extend(log_pos.to_le_bytes());
        self.content.extend(flags.to_le_bytes());
        self.content.extend(body);
        if self.checksums {
            let crc = crc32fast::hash(&self.content[start..]);
            self.content.extend(crc.to_le_bytes());
        }
        self
    }

    fn query(&mut self, text: &str) -> &mut Self {
        let mut body = vec![8, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
        body.extend(b"shop\0");
        body.extend(text.bytes());
        self.event(QUERY, 0, &body)
    }

    fn xid(&mut self) -> &mut Self {
        self.event(XID, 0, &[9, 0, 0, 0, 0, 0, 0, 0])
    }

    /// A row of `orders(id INT NOT NULL)`.
    fn rows(&mut self, kind: u8) -> &mut Self {
        let map = [
            &[0x46, 0, 0, 0, 0, 0, 1, 0][..],
            b"\x04shop\0\x06orders\0",
            &[1, 3, 0, 0],
        ];
        self.event(TABLE_MAP, 0, &map.concat());
        let extra: &[u8] = if kind == WRITE_ROWS { &[2, 0] } else { &[] };
        let body = [
            &[0x46, 0, 0, 0, 0, 0, 1, 0][..],
            extra,
            &[1, 0xff, 0xfe, 7, 0, 0, 0],
        ];
        self.event(kind, 0, &body.concat())
    }

    fn rotate(&mut self) -> &mut Self {
        self.event(ROTATE, 0, b"\x04\0\0\0\0\0\0\0binlog.000002")
    }

    fn clock(&mut self, kind: u8, last_committed: u64, sequence_number: u64) -> &mut Self {
        let mut body = vec![0; 25];
        body.push(2);
        body.extend(last_committed.to_le_bytes());
        body.extend(sequence_number.to_le_bytes());
        self.event(kind, 0, &body)
    }

    fn in_use(&mut self) -> &mut Self {
        self.content[IN_USE_OFFSET as usize] |= 1;
        self
    }

    fn check(&self) -> FileReport {
        check(&self.content)
    }
}

fn check(content: &[u8]) -> FileReport {
    Checker::default().check("binlog.000001", content).unwrap()
}

fn limits(report: &FileReport) -> Vec<LimitKind> {
    report.limits.iter().map(|limit| limit.kind).collect()
}

/// What a server of that version writes without GTIDs: DDL, a transaction with rows or a statement, a
/// statement of a table without transactions, the end.
fn without_gtids(version: &str) -> Made {
    let mut made = Made::mysql(version);
    made.query("CREATE TABLE orders(id INT NOT NULL)").query("BEGIN");
    match version.as_bytes()[2] {
        b'0' => made.query("INSERT INTO orders VALUES (7)"),
        b'6' => made.rows(WRITE_ROWS),
        _ => made.rows(WRITE_ROWS_V1),
    };
    made.xid().query("BEGIN").query("UPDATE visits SET n = 1");
    made.query("COMMIT");
    made.event(INTVAR, 0, &[2, 7, 0, 0, 0, 0, 0, 0, 0]);
    made.query("INSERT INTO visits VALUES (NULL)");
    made
}

const WITHOUT_GTIDS: [&str; 4] = ["5.0.91-log", "5.1.34-log", "5.5.27-log", "5.6.35-log"];

#[test]
fn whole_files_of_mysql_5_0_to_5_6_are_whole_and_named_as_unsupported() {
    for version in WITHOUT_GTIDS {
        let report = without_gtids(version).rotate().check();
        assert_eq!(report.verdict, Verdict::Whole, "{version}: {:?}", report.problems);
        assert_eq!(
            (report.transactions, report.whole_until),
            (4, report.bytes),
            "{version}"
        );
        assert_eq!(
            report.rows.written,
            u64::from(!version.starts_with("5.0")),
            "{version}"
        );
        assert_eq!(report.server_version, version);
        let wanted = match report.checksums {
            true => vec![LimitKind::Version],
            false => vec![LimitKind::Version, LimitKind::Checksums],
        };
        assert_eq!(limits(&report), wanted, "{version}");
        assert_eq!(report.checksums, version.starts_with("5.6"));
        assert!(
            report.limits[0].message.contains(version),
            "{:?}",
            report.limits[0]
        );
    }
}

#[test]
fn every_cut_of_an_older_file_is_a_torn_tail_or_a_whole_file() {
    for version in WITHOUT_GTIDS {
        let mut made = without_gtids(version);
        made.in_use();
        for end in 4..made.content.len() {
            let report = check(&made.content[..end]);
            assert_eq!(report.problems, [], "{version} cut at {end}");
            let whole = report.verdict == Verdict::Whole;
            let ends_there = end > 4 && report.whole_until == end as u64;
            assert_eq!(whole, ends_there, "{version} cut at {end}");
            let cut = match report.flavor {
                None => Verdict::Unknown,
                Some(_) => Verdict::Torn,
            };
            assert!(whole || report.verdict == cut, "{version} cut at {end}");
        }
    }
}

#[test]
fn no_changed_size_or_position_of_an_older_file_passes() {
    for version in WITHOUT_GTIDS {
        let content = without_gtids(version).rotate().content.clone();
        let mut at = 4;
        while at < content.len() {
            let size = u32::from_le_bytes(content[at + 9..at + 13].try_into().unwrap()) as usize;
            for (byte, bit) in (at + 9..at + 17).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
                let mut damaged = content.clone();
                damaged[byte] ^= 1 << bit;
                let verdict = check(&damaged).verdict;
                assert_eq!(verdict, Verdict::Damaged, "{version}: bit {bit} of byte {byte}");
            }
            at += size;
        }
    }
}

#[test]
fn gtids_of_mysql_5_6_have_no_logical_clock() {
    let mut made = Made::mysql("5.6.35-log");
    made.event(PREVIOUS_GTIDS, 0, &[0; 8]);
    for number in [1_u8, 2] {
        let mut gtid = vec![1];
        gtid.extend([7; 16]);
        gtid.extend([number, 0, 0, 0, 0, 0, 0, 0]);
        made.event(GTID, 0, &gtid).query("BEGIN").rows(WRITE_ROWS).xid();
    }
    let report = made.event(STOP, 0, &[]).check();
    assert_eq!(report.verdict, Verdict::Whole, "{:?}", report.problems);
    assert_eq!((report.transactions, report.rows.written), (2, 2));
    assert!(report.gtids.ends_with(":1-2"), "{}", report.gtids);
}

#[test]
fn mariadb_before_10_writes_no_gtids() {
    let mut lengths = [&FIRST_LENGTHS[..], &ROW_LENGTHS].concat();
    lengths.resize(160, 0);
    for algorithm in [None, Some(0), Some(1)] {
        let mut made = Made::new("5.5.68-MariaDB", &lengths, algorithm);
        made.query("BEGIN")
            .rows(WRITE_ROWS_V1)
            .xid()
            .query("DROP TABLE orders");
        let report = made.rotate().check();
        assert_eq!(
            report.verdict,
            Verdict::Whole,
            "{algorithm:?}: {:?}",
            report.problems
        );
        assert_eq!((report.transactions, report.rows.written), (2, 1));
        assert_eq!(limits(&report)[0], LimitKind::Version);
    }
}

#[test]
fn a_logical_clock_that_goes_on_from_the_file_before_is_no_damage() {
    let mut made = Made::aurora();
    for number in [27_636, 27_637] {
        made.clock(ANONYMOUS_GTID, 27_625, number);
        made.event(AURORA_PADDING, 0x80, &[b'*'; 40]);
        made.query("BEGIN").rows(WRITE_ROWS).xid();
    }
    let report = made.rotate().check();
    assert_eq!(report.verdict, Verdict::Whole, "{:?}", report.problems);
    assert_eq!(limits(&report), [LimitKind::LogicalClock]);
    assert!(report.limits[0].message.contains("27636"), "{:?}", report.limits);
    assert_eq!(report.opaque_events, 0);
    // Between two transactions of a file a leap is one that is missing.
    let mut made = Made::aurora();
    for number in [27_636, 27_638] {
        made.clock(ANONYMOUS_GTID, 27_625, number)
            .query("BEGIN")
            .rows(WRITE_ROWS)
            .xid();
    }
    assert_eq!(made.check().verdict, Verdict::Damaged);
}

#[test]
fn a_part_of_a_file_that_is_not_in_use_is_cut_not_damaged() {
    let mut made = Made::aurora();
    made.clock(ANONYMOUS_GTID, 0, 1)
        .query("BEGIN")
        .rows(WRITE_ROWS)
        .xid();
    let whole = made.content.len();
    made.clock(ANONYMOUS_GTID, 1, 2).query("BEGIN");
    for (end, kind) in [(0, TailKind::Transaction), (3, TailKind::Event)] {
        let report = check(&made.content[..made.content.len() - end]);
        assert_eq!(report.verdict, Verdict::Cut);
        assert_eq!(report.problems, []);
        let tail = report.tail.unwrap();
        assert_eq!((tail.kind, tail.offset), (kind, whole as u64));
    }
    assert_eq!(made.in_use().check().verdict, Verdict::Torn);
}

#[test]
fn a_relay_log_is_named_and_its_frames_are_checked() {
    const RELAY: u16 = 0x40;
    const ARTIFICIAL: u16 = 0x20;
    let mut made = Made::aurora();
    made.content[IN_USE_OFFSET as usize] |= RELAY as u8;
    let end = 4 + u32::from_le_bytes(made.content[13..17].try_into().unwrap()) as usize;
    let crc = crc32fast::hash(&made.content[4..end - 4]);
    made.content[end - 4..end].copy_from_slice(&crc.to_le_bytes());
    let description = made.content[23..end - 4].to_vec();
    made.event_of(ROTATE, ARTIFICIAL, 0, b"\x9a\x02\0\0\0\0\0\0source.000007");
    made.event_of(15, 0, 0, &description);
    // The source's transaction, with the source's positions.
    let xid = [9, 0, 0, 0, 0, 0, 0, 0];
    made.event_of(XID, 0, 4711, &xid).event_of(XID, 0, 4742, &xid);
    let report = made.check();
    assert_eq!(report.verdict, Verdict::Whole, "{:?}", report.problems);
    assert_eq!(limits(&report), [LimitKind::RelayLog]);
    assert_eq!((report.transactions, report.next.clone()), (0, None));
    // Torn tails are what a replica leaves: the flag IN_USE is not set in relay logs.
    assert_eq!(
        check(&made.content[..made.content.len() - 1]).verdict,
        Verdict::Torn
    );
    let last = made.content.len() - 10;
    made.content[last] ^= 1;
    assert_eq!(made.check().verdict, Verdict::Damaged);
}

#[test]
fn a_statement_of_a_relay_log_that_does_not_fit_its_event_is_found() {
    const RELAY: u8 = 0x40;
    let mut made = Made::mysql("5.6.35-log");
    made.content[IN_USE_OFFSET as usize] |= RELAY;
    made.checksums = false;
    let end = made.content.len();
    let crc = crc32fast::hash(&made.content[4..end - 4]);
    made.content[end - 4..].copy_from_slice(&crc.to_le_bytes());
    made.checksums = true;
    made.query("BEGIN").rows(WRITE_ROWS).xid();
    let sound = made.check();
    assert_eq!(
        (sound.verdict, limits(&sound)[1]),
        (Verdict::Whole, LimitKind::RelayLog)
    );
    // 20,000 bytes of variables in an event of a few.
    made.event(QUERY, 0, b"\x08\0\0\0\0\0\0\0\x04\0\0\x20\x4eshop\0BEGIN");
    let report = made.check();
    assert_eq!(report.verdict, Verdict::Unknown, "{:?}", report.problems);
    assert_eq!(report.problems[0].rule.slug(), "body");
    for (kind, body, rule) in [
        (XID, &[9_u8, 0, 0][..], "size"),
        (TABLE_MAP, &[0x46, 0, 0], "table-map"),
    ] {
        let report = made.event(kind, 0, body).check();
        assert_eq!(report.problems.last().unwrap().rule.slug(), rule);
    }
}

#[test]
fn formats_1_and_3_are_named_and_their_sizes_are_checked() {
    for (version, format, header) in [("3.23.58-log", 1_u16, 13), ("4.1.22-log", 3, 19)] {
        let mut content = vec![0xfe, b'b', b'i', b'n'];
        let mut event = |kind: u8, body: &[u8]| {
            let start = content.len() as u32;
            content.extend([0, 0, 0, 0, kind, 1, 0, 0, 0]);
            content.extend((header + body.len() as u32).to_le_bytes());
            if header == 19 {
                content.extend(start.to_le_bytes());
                content.extend([0, 0]);
            }
            content.extend(body);
        };
        let mut start = format.to_le_bytes().to_vec();
        start.extend(version.bytes());
        start.resize(56, 0);
        event(1, &start);
        event(QUERY, b"\x08\0\0\0\0\0\0\0\x04\0\0shop\0DELETE FROM orders");
        event(STOP, b"");
        let report = check(&content);
        assert_eq!(report.verdict, Verdict::Unknown, "{:?}", report.problems);
        assert_eq!((report.events, report.server_version.as_str()), (3, version));
        assert_eq!(limits(&report), [LimitKind::Format]);
        assert!(
            report.limits[0].message.contains(&format!("format {format}")),
            "{:?}",
            report.limits
        );
        assert_eq!(check(&content[..content.len() - 1]).verdict, Verdict::Unknown);
        assert!(check(&content[..content.len() - 1]).tail.is_some());
        let size_of_second = 4 + header as usize + 56 + 9;
        content[size_of_second] = 3;
        assert_eq!(
            check(&content).verdict,
            Verdict::Damaged,
            "smaller than its header"
        );
        content[size_of_second] = header as u8;
        content[4 + 9] = header as u8 + 1;
        let report = check(&content);
        assert_eq!(
            (report.verdict, report.bytes),
            (Verdict::Damaged, content.len() as u64)
        );
    }
}

#[test]
fn what_is_encrypted_is_unknown() {
    let report = check(b"\xfdbin\x01\x01\0\0\0");
    assert_eq!(
        (report.verdict, limits(&report)),
        (Verdict::Unknown, vec![LimitKind::Encrypted])
    );
    let mut lengths = [&FIRST_LENGTHS[..], &ROW_LENGTHS].concat();
    lengths.resize(171, 0);
    let mut made = Made::new("10.11.19-MariaDB-log", &lengths, Some(1));
    made.event(163, 0, &[0; 4]).event(164, 0, &[1; 17]);
    let known = made.content.len();
    made.content.extend([0x5a; 300]);
    let report = made.check();
    assert_eq!(
        (report.verdict, limits(&report)),
        (Verdict::Unknown, vec![LimitKind::Encrypted])
    );
    assert_eq!((report.limits[0].offset, report.tail), (known as u64 - 40, None));
    // A copy that the server decrypted keeps the event, marked as one to ignore.
    let mut copy = Made::new("10.11.19-MariaDB-log", &lengths, Some(1));
    copy.event(163, 0, &[0; 4])
        .event(164, 0x80, &[1; 17])
        .event(STOP, 0, &[]);
    assert_eq!(
        (copy.check().verdict, limits(&copy.check())),
        (Verdict::Whole, vec![])
    );
    for relay in [0_u8, 0x40] {
        let mut percona = Made::aurora();
        percona.content[IN_USE_OFFSET as usize] |= relay;
        let size = u32::from_le_bytes(percona.content[13..17].try_into().unwrap()) as usize;
        let crc = crc32fast::hash(&percona.content[4..size]);
        percona.content[size..4 + size].copy_from_slice(&crc.to_le_bytes());
        percona.event(159, 0, &[1; 17]);
        percona.content.extend([0x5a; 300]);
        let report = percona.check();
        assert_eq!(report.verdict, Verdict::Unknown, "{:?}", report.problems);
        assert_eq!(limits(&report).last(), Some(&LimitKind::Encrypted));
    }
}

#[test]
fn longer_headers_are_another_format_and_shorter_ones_are_damage() {
    for (size, verdict) in [(23, Verdict::Unknown), (18, Verdict::Damaged)] {
        let mut made = Made::mysql("5.1.63-log");
        made.content[4 + 19 + 56] = size;
        let report = made.check();
        assert_eq!(
            (report.verdict, report.events),
            (verdict, 1),
            "{:?}",
            report.problems
        );
    }
}

#[test]
fn changes_inside_documents_are_read() {
    let file = |changes: &[u8]| {
        let mut made = Made::aurora();
        made.clock(ANONYMOUS_GTID, 0, 1).query("BEGIN");
        // carts(id INT NOT NULL, content JSON, note JSON)
        let map = [
            &[0x46, 0, 0, 0, 0, 0, 1, 0][..],
            b"\x04shop\0\x05carts\0",
            &[3, 3, 245, 245, 2, 4, 4, 6],
        ];
        made.event(TABLE_MAP, 0, &map.concat());
        let document = [5, 0, 0, 0, 0, 0, 0, 4, 0];
        let body = [
            &[0x46, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 7, 7][..],
            &[0, 7, 0, 0, 0],
            &document,
            &document,
            // The first document has changes, the second is NULL.
            &[1, 1, 4, 7, 0, 0, 0],
            &(changes.len() as u32).to_le_bytes(),
            changes,
        ];
        made.event(PARTIAL_UPDATE_ROWS, 0, &body.concat()).xid();
        made.event(STOP, 0, &[]).check()
    };
    let report = file(b"\x00\x03$.a\x03\x05\x05\x00\x02\x03$.b");
    assert_eq!(report.verdict, Verdict::Whole, "{:?}", report.problems);
    assert_eq!((report.rows.updated, report.opaque_events), (1, 0));
    for damaged in [
        &b"\x03\x03$.a\x03\x05\x05\x00"[..],
        b"\x01\x03$.a\x04\x05\x05\x00",
        b"\x01\x03$.a\x03\x05\x05",
        b"\x02\x04$.a",
        b"\x00\x03$.a\x01\x05",
    ] {
        let report = file(damaged);
        assert_eq!(report.verdict, Verdict::Damaged, "{damaged:?}");
        assert_eq!(report.problems[0].rule.slug(), "rows");
    }
}

#[test]
fn only_bytes_that_prove_it_make_a_file_damaged() {
    // The rows of a version that is not supported may have another form than the one that is known.
    let mut made = Made::mysql("5.5.27-log");
    made.query("BEGIN")
        .event(WRITE_ROWS_V1, 0, &[0x46, 0, 0, 0, 0, 0, 1, 0, 1, 0xff])
        .xid();
    let report = made.rotate().check();
    assert_eq!(report.verdict, Verdict::Unknown);
    assert_eq!(report.problems[0].rule.slug(), "rows");
    // An algorithm that is not known checks nothing, and neither does a later format.
    let made = Made::new("9.9.0", &FIRST_LENGTHS, Some(8));
    assert_eq!(
        (made.check().verdict, limits(&made.check())),
        (Verdict::Unknown, vec![LimitKind::Format])
    );
    assert_eq!(check(b"SQLite format 3\0").verdict, Verdict::Unknown);
    assert_eq!(limits(&check(b"SQLite format 3\0")), [LimitKind::Format]);
    // The magic number in UTF-8's replacement character: the file went through a conversion of text.
    assert_eq!(check(b"\xef\xbf\xbdbine\0\0\0").verdict, Verdict::Damaged);
    let mut made = Made::mysql("5.5.27-log");
    made.content[0] = 0xff;
    assert_eq!(made.check().verdict, Verdict::Damaged);
    let index = check(b"/bin/mysql-bin.000001\n");
    assert_eq!((index.verdict, index.tail), (Verdict::Unknown, None));
    // Whether a file is in use stands in its first event.
    for start in [
        &b""[..],
        b"\xfeb",
        &made.content[..0],
        b"\xfebin",
        b"\xfebin\0\0\0\0\x0f\0",
    ] {
        let report = check(start);
        assert_eq!(
            (report.verdict, limits(&report)),
            (Verdict::Unknown, vec![LimitKind::Format])
        );
    }
}

#[test]
fn a_file_that_ends_without_a_word_may_be_a_part_of_one() {
    let mut made = without_gtids("5.6.35-log");
    assert_eq!(limits(&made.check()), [LimitKind::Version, LimitKind::End]);
    assert_eq!(limits(&made.in_use().check()), [LimitKind::Version]);
    assert_eq!(
        limits(&without_gtids("5.6.35-log").rotate().check()),
        [LimitKind::Version]
    );
}

#[test]
fn packed_files_are_unpacked_and_others_named() {
    let plain = without_gtids("5.6.35-log").rotate().content.clone();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, &plain).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(plain.as_slice(), 3).unwrap();
    for (packed, packing) in [(&gzip, Packing::Gzip), (&zstd, Packing::Zstd)] {
        let mut report = check(packed);
        assert_eq!(report.packing.take(), Some(packing));
        assert_eq!(report, check(&plain));
        let cut = Checker::default().check("binlog.000001", &packed[..packed.len() - 9]);
        assert!(cut.is_err(), "{cut:?}");
    }
    for (start, name) in [
        (&b"\xfd7zXZ\0"[..], "xz"),
        (b"BZh91AY", "bzip2"),
        (b"\xfe\xfe\x0c\x01", "GTID index"),
    ] {
        assert!(check(start).limits[0].message.contains(name), "{name}");
    }
}

#[test]
fn files_follow_each_other_by_their_numbers_where_no_rotate_names_the_next() {
    let verdicts = |names: [&str; 2]| {
        let mut made = without_gtids("5.6.35-log");
        let content = &made.event(STOP, 0, &[]).content;
        let mut checker = Checker::default();
        names.map(|name| checker.check(name, content.as_slice()).unwrap())
    };
    for (names, words) in [
        (
            ["a/bin.000001", "bin.000003.gz"],
            "the previous file is bin.000001: a file between them is missing",
        ),
        (
            ["bin.000004", "bin.000003"],
            "the previous file is bin.000004: the names are not in order",
        ),
    ] {
        let [_, second] = verdicts(names);
        assert_eq!(second.verdict, Verdict::Misplaced, "{names:?}");
        assert_eq!(second.problems[0].message, words);
        assert_eq!(second.whole_until, second.bytes);
    }
    for names in [
        ["bin.999999", "bin.1000000"],
        ["a.000001", "b.000007"],
        ["copy", "other"],
    ] {
        let [_, second] = verdicts(names);
        assert_eq!(second.verdict, Verdict::Whole, "{names:?}");
    }
}

#[test]
fn a_pre_release_with_other_events_is_unknown() {
    for version in [
        "5.2.2-a_drop6p13-debug-log",
        "5.1.15-ndb-6.1.24",
        "5.1.17-beta-log",
    ] {
        let mut made = Made::mysql(version);
        made.query("CREATE TABLE t (a INT)");
        // In a transaction, log_pos was that of the transaction's cache.
        made.event_of(QUERY, 0, 108, b"\x08\0\0\0\0\0\0\0\x04\0\0\0\0shop\0BEGIN");
        let report = made.check();
        assert_eq!(report.verdict, Verdict::Unknown, "{:?}", report.problems);
        assert_eq!(limits(&report), [LimitKind::Format]);
    }
}
