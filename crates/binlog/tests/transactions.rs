//! What a body writes, read back: values of every type, sizes before the bytes, many threads.

use flushlab_binlog::check::{Checker, Found, Verdict};
use flushlab_binlog::sample::{sbtest, type_columns, write_sample, SampleOptions};
use flushlab_binlog::{
    file_head, Body, Change, Column, ColumnType, EncodeError, EventType, Format, Head, Header, Identity,
    Place, Previous, Rows, Table, TableMap, Uuid, Value, HEADER_SIZE, UTF8MB4_0900_AI_CI,
};
use proptest::prelude::*;

const VERSIONS: [&str; 4] = ["8.0.44", "9.7.4", "10.11.19-MariaDB", "11.8.6-MariaDB"];

fn format(version: &str) -> Format {
    Format::new(
        version,
        Identity {
            server_id: 1,
            uuid: Uuid([7; 16]),
            domain: 3,
        },
    )
    .unwrap()
}

fn place(position: u64, number: u64) -> Place {
    Place {
        position,
        gtid_number: number,
        last_committed: number - 1,
        sequence_number: number,
        commit_us: 1_790_000_000_000_000 + number,
        commit_id: 0,
    }
}

fn head(format: &Format) -> Vec<u8> {
    let previous = Previous::nothing(format.flavor());
    let head = Head {
        timestamp: 1,
        first: true,
        previous: &previous,
        checkpoint: "binlog.000001",
    };
    file_head(format, &head)
}

fn finished(body: &Body, place: &Place) -> Vec<u8> {
    let mut out = vec![0; body.size(place.commit_id != 0) as usize];
    body.finish_into(place, &mut out).unwrap();
    out
}

/// The file is whole but for the mark that it is open.
fn assert_whole(content: &[u8], transactions: u64) {
    let report = Checker::default().check("binlog.000001", content).unwrap();
    assert_eq!(
        report.verdict,
        Verdict::Whole,
        "{:?} {:?}",
        report.problems,
        report.tail
    );
    assert_eq!((report.transactions, report.opaque_events), (transactions, 0));
}

#[test]
fn samples_of_every_server_are_whole() {
    for version in VERSIONS {
        let folder = std::env::temp_dir().join(format!("flushlab-binlog-{}-{version}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let options = SampleOptions {
            schema: "t".to_owned(),
            updates: 300,
            max_size: 50_000,
            close: true,
        };
        let sample = write_sample(&format(version), &folder, &options).unwrap();
        let mut checker = Checker::default();
        let mut transactions = 0;
        let index = std::fs::read_to_string(folder.join("binlog.index")).unwrap();
        for name in index.lines() {
            let content = std::fs::read(folder.join(name)).unwrap();
            let mut end = None;
            let each = |found: Found| {
                let before = end.replace(found.end);
                assert!(before.is_none_or(|end| end == found.start));
                transactions += 1;
                // A sample's XIDs count as its GTIDs do.
                assert_eq!((found.gtid_number, found.xid), (transactions, transactions));
            };
            let report = checker.check_each(name, content.as_slice(), each).unwrap();
            assert_eq!(
                (report.verdict, report.in_use),
                (Verdict::Whole, false),
                "{:?}",
                report.problems
            );
        }
        assert_eq!(transactions, sample.transactions);
        assert!(sample.files > 3);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn sizes_are_exact_across_the_steps_of_transaction_length() {
    let format = format("9.7.4");
    let blob = ColumnType::Blob {
        length_bytes: 4,
        collation: 63,
    };
    let table = Table::new(&format, 1, "t", "b", &[Column::new(blob)]).unwrap();
    let content = vec![b'x'; 70_000];
    let mut body = Body::new(&format);
    for length in (0..400).chain(65_100..65_700) {
        body.begin(1, 1);
        let mut insert = body.statement(&table, Change::Write).unwrap();
        insert.row(&[Value::Bytes(&content[..length])]).unwrap();
        insert.end();
        body.commit(1).unwrap();
        let mut file = head(&format);
        file.extend(finished(&body, &place(file.len() as u64, 1)));
        assert_whole(&file, 1);
    }
}

#[test]
fn threads_finish_their_transactions_in_one_buffer() {
    const THREADS: u64 = 4;
    const EACH: u64 = 50;
    for version in VERSIONS {
        let format = format(version);
        let mut file = head(&format);
        let bodies: Vec<Body> = (0..THREADS * EACH)
            .map(|number| body_of(&format, number))
            .collect();
        // Places are given in order; then nobody waits for anybody.
        let mut position = file.len() as u64;
        let mut places = Vec::new();
        for (index, body) in bodies.iter().enumerate() {
            places.push(place(position, 1 + index as u64));
            position += body.size(false);
        }
        let start = file.len();
        file.resize(position as usize, 0);
        let mut rest = &mut file[start..];
        let mut slices = Vec::new();
        for body in &bodies {
            let (slice, behind) = rest.split_at_mut(body.size(false) as usize);
            slices.push(slice);
            rest = behind;
        }
        let mut work: Vec<_> = bodies.iter().zip(&places).zip(slices).collect();
        std::thread::scope(|scope| {
            while !work.is_empty() {
                let share: Vec<_> = work.drain(..EACH as usize).collect();
                scope.spawn(move || {
                    for ((body, place), slice) in share {
                        body.finish_into(place, slice).unwrap();
                    }
                });
            }
        });
        assert_whole(&file, THREADS * EACH);
    }
}

fn body_of(format: &Format, number: u64) -> Body {
    let table = sbtest(format, 108, "sbtest", "sbtest1").unwrap();
    let mut body = Body::new(format);
    body.begin(1, 1);
    let mut insert = body.statement(&table, Change::Write).unwrap();
    for id in 0..1 + number as i64 % 100 {
        let text = Value::Bytes(&[b'x'; 100]);
        insert
            .row(&[Value::Int(id), Value::Int(0), text, Value::Bytes(b"p")])
            .unwrap();
    }
    insert.end();
    body.commit(number).unwrap();
    body
}

#[test]
fn a_statement_of_many_rows_is_cut_into_row_events_of_eight_kibibytes() {
    let format = format("9.7.4");
    let body = body_of(&format, 99);
    let out = finished(&body, &place(4, 1));
    let (mut at, mut sizes, mut ends) = (0, Vec::new(), Vec::new());
    while at < out.len() {
        let header = Header::parse(&out[at..]).unwrap();
        if header.event_type == EventType::WRITE_ROWS {
            sizes.push(header.size);
            ends.push(out[at + HEADER_SIZE + 6] & 1);
        }
        at += header.size as usize;
    }
    assert!(
        sizes.len() > 1 && sizes.iter().all(|size| *size <= 8192 + 23),
        "{sizes:?}"
    );
    assert_eq!(ends.iter().sum::<u8>(), 1, "only the last ends the statement");
    assert_eq!(ends.last(), Some(&1));
}

#[test]
fn a_refused_row_and_an_empty_statement_leave_nothing_behind() {
    let format = format("9.7.4");
    let table = sbtest(&format, 108, "sbtest", "sbtest1").unwrap();
    let row = [
        Value::Int(1),
        Value::Int(2),
        Value::Bytes(b"c"),
        Value::Bytes(b"pad"),
    ];
    let mut body = Body::new(&format);
    let write = |body: &mut Body, disturbed: bool| {
        body.begin(1, 1);
        if disturbed {
            body.statement(&table, Change::Delete).unwrap().end();
            let dropped = body.statement(&table, Change::Write).unwrap().row(&row);
            assert_eq!(dropped, Ok(()));
        }
        let mut insert = body.statement(&table, Change::Write).unwrap();
        if disturbed {
            let wrong = [row[0], Value::Int(1 << 40), row[2], row[3]];
            let refused = Err(EncodeError::Value {
                column: 1,
                reason: "is out of its column's range",
            });
            assert_eq!(insert.row(&wrong), refused);
            assert_eq!(
                insert.row(&row[..3]),
                Err(EncodeError::Columns { given: 3, wanted: 4 })
            );
        }
        insert.row(&row).unwrap();
        insert.end();
        body.commit(1).unwrap();
        finished(body, &place(4, 1))
    };
    let plain = write(&mut body, false);
    assert_eq!(write(&mut body, true), plain);
}

#[test]
fn calls_out_of_order_are_refused() {
    let format = format("9.7.4");
    let table = sbtest(&format, 108, "sbtest", "sbtest1").unwrap();
    let mut body = Body::new(&format);
    assert!(matches!(
        body.statement(&table, Change::Write),
        Err(EncodeError::Order(_))
    ));
    assert!(matches!(body.commit(1), Err(EncodeError::Order(_))));
    body.begin(1, 1);
    assert!(
        matches!(body.commit(1), Err(EncodeError::Order(_))),
        "a server writes no empty ones"
    );
    assert!(matches!(
        body.finish_into(&place(4, 1), &mut []),
        Err(EncodeError::Order(_))
    ));
    let body = body_of(&format, 0);
    let refused = body.finish_into(&place(4, 1), &mut [0; 10]);
    assert_eq!(
        refused,
        Err(EncodeError::Size {
            given: 10,
            wanted: body.size(false)
        })
    );
}

#[test]
fn every_missing_or_repeated_transaction_of_mysql_is_found() {
    for version in ["8.0.44", "9.7.4"] {
        let format = format(version);
        let bodies: Vec<Body> = (0..4).map(|number| body_of(&format, number)).collect();
        let write = |numbers: &[u64]| {
            let mut file = head(&format);
            for number in numbers {
                let out = finished(&bodies[*number as usize - 1], &place(file.len() as u64, *number));
                file.extend(out);
            }
            let report = Checker::default()
                .check("binlog.000001", file.as_slice())
                .unwrap();
            report
                .problems
                .iter()
                .map(|problem| problem.rule.slug())
                .collect::<Vec<_>>()
        };
        assert!(write(&[1, 2, 3, 4]).is_empty());
        for changed in [&[1, 3, 4][..], &[1, 2, 2, 3], &[2, 1]] {
            assert!(
                write(changed).contains(&"sequence-number"),
                "{version}: {changed:?}"
            );
        }
        assert!(write(&[1, 2, 2, 3]).contains(&"gtid"), "{version}");
    }
}

#[test]
fn numbers_of_mariadbs_gtids_prove_nothing() {
    let format = format("10.11.19-MariaDB");
    let mut file = head(&format);
    for number in [50, 40, 50, 51] {
        let out = finished(&body_of(&format, 0), &place(file.len() as u64, number));
        file.extend(out);
    }
    assert_whole(&file, 4);
}

#[test]
fn what_the_servers_tools_let_pass_is_found() {
    let format = format("9.7.4");
    let body = body_of(&format, 0);
    let rules = |change: &dyn Fn(&mut Place)| {
        let mut file = head(&format);
        let mut place = place(file.len() as u64, 1);
        change(&mut place);
        file.extend(finished(&body, &place));
        let report = Checker::default()
            .check("binlog.000001", file.as_slice())
            .unwrap();
        report
            .problems
            .iter()
            .map(|problem| problem.rule.slug())
            .collect::<Vec<_>>()
    };
    assert!(rules(&|_| {}).is_empty());
    assert!(rules(&|place| place.position += 1).contains(&"log-pos"));
    assert_eq!(rules(&|place| place.last_committed = 1), ["last-committed"]);
    // transaction_length stands in 3 bytes before the server's version and the checksum.
    let mut file = head(&format);
    let start = file.len();
    file.extend(finished(&body, &place(start as u64, 1)));
    let size = Header::parse(&file[start..]).unwrap().size as usize;
    file[start + size - 10] ^= 4;
    let crc = crc32fast::hash(&file[start..start + size - 4]);
    file[start + size - 4..start + size].copy_from_slice(&crc.to_le_bytes());
    let report = Checker::default()
        .check("binlog.000001", file.as_slice())
        .unwrap();
    let rules: Vec<_> = report
        .problems
        .iter()
        .map(|problem| problem.rule.slug())
        .collect();
    assert_eq!(rules, ["transaction-length"]);
}

/// A value that fits the column, made of `seed` and `bytes`.
fn value<'a>(column: ColumnType, seed: u64, bytes: &'a [u8]) -> Value<'a> {
    let low = |bits: u32| {
        if bits >= 64 {
            seed
        } else {
            seed & ((1 << bits) - 1)
        }
    };
    let up_to = |size: usize| &bytes[..bytes.len().min(size)];
    let micros = |digits: u8| {
        (seed % 1_000_000) as u32 / 10_u32.pow(6 - u32::from(digits)) * 10_u32.pow(6 - u32::from(digits))
    };
    let (month, day) = ((seed % 13) as u8, (seed % 32) as u8);
    let (minute, second) = ((seed / 60 % 60) as u8, (seed % 60) as u8);
    match column {
        ColumnType::Int {
            bytes,
            unsigned: true,
        } => Value::UInt(low(u32::from(bytes) * 8)),
        ColumnType::Int {
            bytes,
            unsigned: false,
        } => {
            let unused = 64 - u32::from(bytes) * 8;
            Value::Int((seed << unused) as i64 >> unused)
        }
        ColumnType::Float => Value::Float((seed as i32) as f32),
        ColumnType::Double => Value::Double((seed as i64) as f64),
        ColumnType::Year => Value::UInt(match seed % 256 {
            0 => 0,
            year => 1900 + year,
        }),
        ColumnType::Date => Value::Date((seed % 10_000) as u16, month, day),
        ColumnType::Time { fraction } => Value::Time {
            negative: seed & 64 != 0 && !seed.is_multiple_of(839),
            hour: (seed % 839) as u16,
            minute,
            second,
            micros: micros(fraction),
        },
        ColumnType::DateTime { fraction } => Value::DateTime {
            year: (seed % 10_000) as u16,
            month,
            day,
            hour: (seed % 24) as u8,
            minute,
            second,
            micros: micros(fraction),
        },
        ColumnType::Timestamp { fraction } => Value::Timestamp(seed as u32, micros(fraction)),
        ColumnType::Char { max_bytes, .. } | ColumnType::VarChar { max_bytes, .. } => {
            Value::Bytes(up_to(usize::from(max_bytes)))
        }
        ColumnType::Blob { length_bytes: 1, .. } => Value::Bytes(up_to(255)),
        ColumnType::Blob { .. } => Value::Bytes(bytes),
        ColumnType::Enum { bytes } | ColumnType::Set { bytes } => Value::UInt(low(u32::from(bytes) * 8)),
        ColumnType::Bit { bits } => Value::UInt(low(u32::from(bits))),
        // Decimals and JSON have tests of their own.
        _ => Value::Null,
    }
}

proptest! {
    #[test]
    fn rows_come_back_as_they_were_written(
        mariadb in any::<bool>(),
        seeds in proptest::collection::vec((any::<u64>(), any::<bool>()), 49),
        bytes in proptest::collection::vec(1_u8..=31, 0..600),
        extra in 0_usize..6,
    ) {
        let format = format(if mariadb { "11.8.6-MariaDB" } else { "9.7.4" });
        let mut columns = type_columns(format.flavor());
        // Another number of columns, so that the bitmaps end differently.
        columns.truncate(columns.len() - extra);
        let table = Table::new(&format, 5, "t", "types", &columns).unwrap();
        let mut row: Vec<Value<'_>> = columns
            .iter()
            .zip(&seeds)
            .map(|(column, (seed, null))| match null {
                true => Value::Null,
                false => value(column.column_type, *seed, &bytes),
            })
            .collect();
        row[0] = Value::Int(1);
        let mut body = Body::new(&format);
        body.begin(1, 1);
        let mut update = body.statement(&table, Change::Update).unwrap();
        update.update(&row, &row).unwrap();
        update.end();
        body.commit(1).unwrap();
        let out = finished(&body, &place(4, 1));

        let (mut at, mut map, mut read) = (0, None, [Vec::new(), Vec::new()]);
        while at < out.len() {
            let header = Header::parse(&out[at..]).unwrap();
            let content = &out[at + HEADER_SIZE..at + header.size as usize - 4];
            if header.event_type == EventType::TABLE_MAP {
                map = Some(TableMap::parse(content).unwrap());
            } else if Rows::change_of(header.event_type).is_some() {
                let mut rows = Rows::parse(header.event_type, content).unwrap();
                rows.read_row(&columns, |image, _, value| read[image].push(value)).unwrap();
                prop_assert!(rows.is_empty());
            }
            at += header.size as usize;
        }
        let map = map.unwrap();
        if !mariadb {
            prop_assert_eq!(&map.columns, &columns, "MySQL's TABLE_MAP tells signs and collations");
        }
        prop_assert_eq!(&read[0], &row);
        prop_assert_eq!(&read[1], &row);
    }
}

#[test]
fn padding_of_char_is_left_out_as_the_servers_do() {
    let format = format("9.7.4");
    let char = |collation| {
        Column::new(ColumnType::Char {
            max_bytes: 8,
            collation,
        })
    };
    let table = Table::new(&format, 1, "t", "c", &[char(UTF8MB4_0900_AI_CI), char(63)]).unwrap();
    let written = |text: &[u8], binary: &[u8]| {
        let mut body = Body::new(&format);
        body.begin(1, 1);
        let mut insert = body.statement(&table, Change::Write).unwrap();
        insert.row(&[Value::Bytes(text), Value::Bytes(binary)]).unwrap();
        insert.end();
        body.commit(1).unwrap();
        finished(&body, &place(4, 1))
    };
    assert_eq!(written(b"a b     ", b"c\0\0"), written(b"a b", b"c"));
    assert_ne!(written(b"a", b"c "), written(b"a", b"c"));
}
