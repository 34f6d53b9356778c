//! Files that real servers wrote: accepted, counted, and written again byte by byte.
//!
//! `tests/corpus/SERVER/` has what MySQL 5.7.22, 8.0.15, 9.7.4 and MariaDB 10.11.19, 11.8.6 wrote for
//! the same small load: rows of every column type, several statements in a transaction, minimal row
//! images, a MyISAM table, XA, compressed and tagged transactions where there are such.

use std::path::{Path, PathBuf};

use flushlab_binlog::check::{Checker, FileReport, RowCounts, Verdict};
use flushlab_binlog::{
    Body, Change, EventType, Flavor, Format, Header, Identity, Place, Rows, Table, TableMap, Uuid, Value,
    HEADER_SIZE,
};

fn files(server: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(server);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn check(server: &str) -> Vec<FileReport> {
    let mut checker = Checker::default();
    let check = |file: &PathBuf| {
        let content = std::fs::read(file).unwrap();
        checker.check(file.to_str().unwrap(), content.as_slice()).unwrap()
    };
    files(server).iter().map(check).collect()
}

#[test]
fn every_servers_files_are_accepted() {
    // Transactions and rows of each file, as the servers' own mysqlbinlog counts them.
    let first = RowCounts {
        written: 7,
        updated: 8,
        deleted: 1,
    };
    let expected: [(&str, &[(u64, RowCounts)]); 5] = [
        ("mysql-5.7", &[(16, first), (3, rows(1, 1))]),
        ("mysql-8.0", &[(16, first), (4, rows(1, 2))]),
        ("mysql-9.7", &[(16, first), (5, rows(1, 3)), (2, rows(0, 2))]),
        ("mariadb-10.11", &[(16, first), (3, rows(1, 1)), (1, rows(0, 4))]),
        ("mariadb-11.8", &[(16, first), (3, rows(1, 1)), (1, rows(0, 4))]),
    ];
    for (server, files) in expected {
        let reports = check(server);
        let found: Vec<_> = reports
            .iter()
            .map(|report| (report.transactions, report.rows))
            .collect();
        assert_eq!(found, files, "{server}");
        for report in &reports {
            assert_eq!(report.verdict, Verdict::Whole, "{server}: {:?}", report.problems);
            assert_eq!(report.whole_until, report.bytes);
        }
        let (last, closed) = reports.split_last().unwrap();
        assert!(
            last.in_use && closed.iter().all(|report| !report.in_use),
            "{server}"
        );
    }
}

fn rows(written: u64, updated: u64) -> RowCounts {
    RowCounts {
        written,
        updated,
        deleted: 0,
    }
}

#[test]
fn what_is_compressed_or_tagged_is_read_too() {
    let kinds = [
        ("mysql-9.7", 1, "TRANSACTION_PAYLOAD"),
        ("mysql-9.7", 2, "GTID_TAGGED"),
        ("mariadb-10.11", 2, "UPDATE_ROWS_COMPRESSED_V1"),
        ("mariadb-11.8", 2, "UPDATE_ROWS_COMPRESSED_V1"),
    ];
    for (server, file, kind) in kinds {
        let reports = check(server);
        assert!(reports[file].event_types[kind] > 0, "{server}");
        let opaque: Vec<u64> = reports.iter().map(|report| report.opaque_events).collect();
        assert_eq!(opaque, vec![0; reports.len()], "{server}");
    }
    let last = check("mysql-9.7").pop().unwrap();
    assert!(last.gtids.ends_with(":tag:1"), "{}", last.gtids);
}

/// An event of a file, with where it begins.
type Event<'a> = (usize, Header, &'a [u8]);

fn events(content: &[u8]) -> Vec<Event<'_>> {
    let mut found = Vec::new();
    let mut at = 4;
    while at < content.len() {
        let header = Header::parse(&content[at..]).unwrap();
        let end = at + header.size as usize;
        found.push((at, header, &content[at + HEADER_SIZE..end - 4]));
        at = end;
    }
    found
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The transactions of a file that a [`Body`] can hold: rows between a GTID and an XID.
fn row_transactions<'a>(events: &'a [Event<'a>]) -> Vec<&'a [Event<'a>]> {
    let is_gtid = |event: &Event<'_>| {
        matches!(
            event.1.event_type,
            EventType::GTID | EventType::ANONYMOUS_GTID | EventType::MARIADB_GTID
        )
    };
    let starts = (0..events.len()).filter(|index| is_gtid(&events[*index]));
    starts
        .filter_map(|start| {
            let rest = &events[start..];
            let end = 1 + rest[1..].iter().position(is_gtid).unwrap_or(rest.len() - 1);
            let of_rows = |event: &Event<'_>| {
                matches!(
                    event.1.event_type,
                    EventType::TABLE_MAP | EventType::ANNOTATE_ROWS
                ) || Rows::change_of(event.1.event_type).is_some()
                    || (event.1.event_type == EventType::QUERY && event.2.ends_with(b"BEGIN"))
            };
            let inner = rest[1..end].iter().take_while(|event| of_rows(event)).count();
            let ends = rest
                .get(inner + 1)
                .is_some_and(|event| event.1.event_type == EventType::XID);
            ends.then(|| &rest[..inner + 2])
        })
        .collect()
}

fn place_of(flavor: Flavor, transaction: &[Event<'_>]) -> Place {
    let (position, _, gtid) = transaction[0];
    match flavor {
        Flavor::Mysql => Place {
            position: position as u64,
            gtid_number: number(&gtid[17..25]),
            last_committed: number(&gtid[26..34]),
            sequence_number: number(&gtid[34..42]),
            commit_us: number(&gtid[42..49]),
            commit_id: 0,
        },
        Flavor::Mariadb => Place {
            position: position as u64,
            gtid_number: number(&gtid[..8]),
            last_committed: 0,
            sequence_number: 0,
            commit_us: 0,
            commit_id: 0,
        },
    }
}

/// The transaction's rows through tables and values of this crate, in its place.
fn written_again(format: &Format, thread_id: u32, transaction: &[Event<'_>]) -> Vec<u8> {
    let mut body = Body::new(format);
    body.begin(transaction[0].1.timestamp, thread_id);
    let mut table = None;
    for (_, header, content) in &transaction[1..] {
        match header.event_type {
            EventType::ANNOTATE_ROWS => body.annotate(std::str::from_utf8(content).unwrap()).unwrap(),
            EventType::TABLE_MAP => {
                let map = TableMap::parse(content).unwrap();
                let [schema, name] = [&map.schema, &map.name].map(|name| std::str::from_utf8(name).unwrap());
                table = Some(Table::new(format, map.id, schema, name, &map.columns).unwrap());
            }
            EventType::XID => body.commit(number(content)).unwrap(),
            event_type if Rows::change_of(event_type).is_some() => {
                write_rows(
                    &mut body,
                    table.as_ref().unwrap(),
                    Rows::parse(event_type, content).unwrap(),
                );
            }
            _ => {}
        }
    }
    let place = place_of(format.flavor(), transaction);
    let mut out = vec![0; body.size(false) as usize];
    body.finish_into(&place, &mut out).unwrap();
    out
}

fn write_rows(body: &mut Body, table: &Table, mut rows: Rows<'_>) {
    let mut statement = body.statement(table, rows.change).unwrap();
    while !rows.is_empty() {
        let mut images = [Vec::new(), Vec::new()];
        rows.read_row(table.columns(), |image, _, value: Value<'_>| {
            images[image].push(value)
        })
        .unwrap();
        match rows.change {
            Change::Update => statement.update(&images[0], &images[1]).unwrap(),
            _ => statement.row(&images[0]).unwrap(),
        }
    }
    statement.end();
}

fn identity(flavor: Flavor, transaction: &[Event<'_>]) -> Identity {
    let mut uuid = Uuid([0; 16]);
    if flavor == Flavor::Mysql {
        uuid.0.copy_from_slice(&transaction[0].2[1..17]);
    }
    Identity {
        server_id: transaction[0].1.server_id,
        uuid,
        domain: 0,
    }
}

fn thread_of(flavor: Flavor, transaction: &[Event<'_>]) -> u32 {
    match flavor {
        Flavor::Mysql => number(&transaction[1].2[..4]) as u32,
        Flavor::Mariadb => number(transaction[0].2.get(14..18).unwrap_or(&[0])) as u32,
    }
}

#[test]
fn real_transactions_come_out_the_same_when_they_are_written_again() {
    for (server, version, at_least) in [
        ("mysql-9.7", "9.7.4-2", 8),
        ("mariadb-10.11", "10.11.19-MariaDB", 10),
        ("mariadb-11.8", "11.8.6-MariaDB", 10),
    ] {
        let mut same = 0;
        for file in files(server) {
            let content = std::fs::read(file).unwrap();
            let events = events(&content);
            for transaction in row_transactions(&events) {
                let flavor = if server.starts_with("mysql") {
                    Flavor::Mysql
                } else {
                    Flavor::Mariadb
                };
                let full = transaction.iter().all(|(_, header, content)| {
                    let rows = Rows::parse(header.event_type, content);
                    rows.map_or(true, |rows| {
                        rows.present.iter().rev().skip(1).all(|bits| *bits == 0xff) && rows.present[0] >= 15
                    })
                });
                let begin = transaction[1].2;
                // BEGIN names the time zone where a TIMESTAMP was written: bodies do not.
                let zoned = flavor == Flavor::Mysql && begin.windows(6).any(|bytes| bytes == b"+00:00");
                if !full || zoned {
                    continue;
                }
                let format = Format::new(version, identity(flavor, transaction)).unwrap();
                let again = written_again(&format, thread_of(flavor, transaction), transaction);
                let (start, last) = (transaction[0].0, transaction.last().unwrap());
                let real = &content[start..last.0 + last.1.size as usize];
                assert_eq!(again, real, "{server}: the transaction at {start}");
                same += 1;
            }
        }
        assert!(
            same >= at_least,
            "{server}: only {same} transactions were compared"
        );
    }
}
