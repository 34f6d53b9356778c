//! What takes a log back: inverted once more, it is the log again.

use std::io::Cursor;
use std::path::Path;

use base64::prelude::{Engine, BASE64_STANDARD};
use flushlab_binlog::{invert, read_events, EventType, Inverse, TableName, MAGIC};

const SERVERS: [&str; 5] = [
    "mysql-5.7",
    "mysql-8.0",
    "mysql-9.7",
    "mariadb-10.11",
    "mariadb-11.8",
];
const ALL: u64 = u64::MAX;

fn first_file(server: &str) -> Vec<u8> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    std::fs::read(corpus.join(server).join("binlog.000001")).unwrap()
}

fn inverse(content: &[u8], start: u64, without: &[TableName]) -> Inverse {
    invert(Cursor::new(content), start, ALL, without).unwrap()
}

/// The stretch of the most transactions that has nothing but rows, with the offset where it starts.
fn rows_of(content: &[u8]) -> (Vec<u8>, u64) {
    let mut ends = vec![4];
    read_events(content, |event| {
        ends.push(event.end);
        Ok(())
    })
    .unwrap();
    let mut best = (Vec::new(), 0, 0);
    for start in &ends {
        for end in ends.iter().filter(|end| *end > start) {
            let cut = content[..*end as usize].to_vec();
            let found = inverse(&cut, *start, &[]);
            if found.barrier.is_none() && found.transactions > best.2 {
                best = (cut, *start, found.transactions);
            }
        }
    }
    (best.0, best.1)
}

/// A file that has what an inverse applies.
fn applied(found: &Inverse) -> Vec<u8> {
    let mut content = MAGIC.to_vec();
    for text in std::iter::once(&found.description).chain(&found.statements) {
        content.extend(BASE64_STANDARD.decode(text).unwrap());
    }
    content
}

#[test]
fn what_takes_back_what_takes_a_log_back_is_the_log() {
    for server in SERVERS {
        let (content, start) = rows_of(&first_file(server));
        let back = inverse(&content, start, &[]);
        assert!(!back.statements.is_empty(), "{server}");
        let forth = inverse(&applied(&back), 0, &[]);
        assert_eq!(forth.barrier, None, "{server}");
        for (one, other) in back.tables.iter().zip(&forth.tables) {
            assert_eq!(one.table, other.table, "{server}");
            let swapped = (other.deleted, other.updated, other.inserted);
            assert_eq!((one.inserted, one.updated, one.deleted), swapped, "{server}");
        }
        let again = inverse(&applied(&forth), 0, &[]);
        assert_eq!(again.statements, back.statements, "{server}");
    }
}

#[test]
fn tables_can_be_left_out() {
    for server in SERVERS {
        let (content, start) = rows_of(&first_file(server));
        let all = inverse(&content, start, &[]);
        let names: Vec<TableName> = all.tables.iter().map(|one| one.table.clone()).collect();
        let none = inverse(&content, start, &names);
        assert_eq!((none.statements.len(), none.tables), (0, all.tables), "{server}");
    }
}

#[test]
fn a_log_that_cannot_be_taken_back_says_why() {
    for server in SERVERS {
        let content = first_file(server);
        let whole = inverse(&content, 0, &[]);
        assert!(whole.statements.is_empty(), "{server}");
        let why = whole.barrier.unwrap();
        assert!(why.starts_with("CREATE"), "{server}: {why}");

        let (cut, start) = rows_of(&content);
        let mut inside = 0;
        read_events(cut.as_slice(), |event| {
            if event.end > start && event.header.event_type == EventType::TABLE_MAP {
                inside = event.end;
            }
            Ok(())
        })
        .unwrap();
        if inside > 0 {
            for end in [inside, inside + 5] {
                let found = inverse(&cut[..end as usize], start, &[]);
                let why = found.barrier.as_deref();
                assert_eq!(why, Some("a transaction that is being written"), "{server}");
                assert!(found.statements.is_empty(), "{server}");
            }
        }
        let little = invert(Cursor::new(&cut), start, 100, &[]).unwrap();
        let why = little.barrier.as_deref();
        assert_eq!(why, Some("more than is taken back row by row"), "{server}");
    }
}

#[test]
fn the_description_is_that_of_a_file_not_in_use() {
    let mut content = first_file("mysql-9.7");
    let closed = inverse(&content, 0, &[]).description;
    content[21] |= 1;
    assert_eq!(inverse(&content, 0, &[]).description, closed);
}
