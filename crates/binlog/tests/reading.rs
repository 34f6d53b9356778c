//! Files read for what they hold: whole transactions up to the first event that is not whole.

use std::path::Path;

use flushlab_binlog::check::Checker;
use flushlab_binlog::{read_events, read_transactions, Committed, Header, Reached, HEADER_SIZE};

const SERVERS: [&str; 5] = [
    "mysql-5.7",
    "mysql-8.0",
    "mysql-9.7",
    "mariadb-10.11",
    "mariadb-11.8",
];

fn first_file(server: &str) -> Vec<u8> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    std::fs::read(corpus.join(server).join("binlog.000001")).unwrap()
}

fn read(content: &[u8], table: &str) -> (Vec<Committed>, Reached) {
    let mut found = Vec::new();
    let reached = read_transactions(content, table, |one| found.push(one)).unwrap();
    (found, reached)
}

#[test]
fn the_transactions_are_those_that_the_checker_finds() {
    for server in SERVERS {
        let content = first_file(server);
        let mut expected = Vec::new();
        let report = Checker::default()
            .check_each("binlog.000001", content.as_slice(), |found| {
                if found.xid != 0 {
                    expected.push((found.end, found.gtid_number));
                }
            })
            .unwrap();
        let (found, reached) = read(&content, "types");
        let number = |gtid: &str| gtid.rsplit([':', '-']).next().unwrap().parse().unwrap_or(0);
        let with_xid: Vec<(u64, u64)> = found
            .iter()
            .map(|one| (one.end, number(&one.gtid)))
            .filter(|one| expected.contains(one))
            .collect();
        assert_eq!(with_xid, expected, "{server}");
        let whole = Reached {
            end: report.bytes,
            torn: false,
            unreadable: None,
        };
        assert_eq!(reached, whole, "{server}");
        let rows: usize = found.iter().map(|one| one.inserted.len()).sum();
        assert!(rows > 0, "{server} has inserted into that table");
    }
}

#[test]
fn a_file_counts_up_to_its_cut_or_damage() {
    for server in SERVERS {
        let mut content = first_file(server);
        let (all, _) = read(&content, "types");
        let mut starts = vec![4];
        read_events(content.as_slice(), |event| {
            starts.push(event.end);
            Ok(())
        })
        .unwrap();
        for at in (4..content.len()).step_by(13) {
            let before: Vec<Committed> = all.iter().filter(|one| one.end <= at as u64).cloned().collect();
            let start = *starts.iter().rev().find(|start| **start <= at as u64).unwrap();
            let (found, reached) = read(&content[..at], "types");
            assert_eq!(found, before, "{server} cut at {at}");
            assert_eq!(
                (reached.end, reached.torn),
                (start, start != at as u64),
                "{server} cut at {at}"
            );

            content[at] ^= 0x10;
            let (found, reached) = read(&content, "types");
            assert_eq!(found, before, "{server} damaged at {at}");
            assert_eq!(reached.end, start, "{server} damaged at {at}");
            content[at] ^= 0x10;
        }
    }
}

#[test]
fn zeros_behind_the_last_event_are_no_event() {
    let mut content = first_file("mysql-9.7");
    let first = Header::parse(&content[4..]).unwrap().size as usize;
    content.truncate(4 + first);
    content.extend([0; HEADER_SIZE]);
    let (found, reached) = read(&content, "types");
    assert_eq!(
        (found.len(), reached.end, reached.torn),
        (0, 4 + first as u64, true)
    );
}
