//! A small log with rows of every column type, for trying what reads binlogs.

use std::io;
use std::path::Path;

use crate::{
    Body, Change, Column, ColumnType, Flavor, Format, Json, Log, LogError, LogOptions, Table, Value, BINARY,
    LATIN1_SWEDISH_CI, UTF8MB4_0900_AI_CI, UTF8MB4_GENERAL_CI,
};

/// What the tables of a sample look like, for a server that is to take it in.
pub const TABLES: [&str; 2] = [
    "CREATE TABLE types (id INT NOT NULL PRIMARY KEY, t1 TINYINT, u1 TINYINT UNSIGNED, s2 SMALLINT, \
     u2 SMALLINT UNSIGNED, m3 MEDIUMINT, u3 MEDIUMINT UNSIGNED, i4 INT, u4 INT UNSIGNED, b8 BIGINT, \
     u8 BIGINT UNSIGNED, f FLOAT, d DOUBLE, dec1 DECIMAL(10,2), dec2 DECIMAL(65,30), \
     dec3 DECIMAL(5,0) UNSIGNED, dec4 DECIMAL(9,9), y YEAR, da DATE, ti TIME, ti3 TIME(3), ti6 TIME(6), \
     dt DATETIME, dt1 DATETIME(1), dt6 DATETIME(6), ts TIMESTAMP NULL, ts2 TIMESTAMP(2) NULL, \
     ts6 TIMESTAMP(6) NULL, c10 CHAR(10), c120 CHAR(120), cl CHAR(20) CHARACTER SET latin1, bn BINARY(8), \
     v20 VARCHAR(20), v300 VARCHAR(300), vb VARBINARY(300), tb TINYBLOB, tt TINYTEXT, bl BLOB, te TEXT, \
     mb MEDIUMBLOB, mt MEDIUMTEXT, lb LONGBLOB, lt LONGTEXT CHARACTER SET latin1, js JSON, \
     e ENUM('a','b','c'), st SET('x','y','z'), bi1 BIT(1), bi9 BIT(9), bi64 BIT(64)) \
     DEFAULT CHARSET=utf8mb4",
    "CREATE TABLE sbtest1 (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, \
     pad CHAR(60) NOT NULL, KEY (k)) DEFAULT CHARSET=utf8mb4",
];

/// When every transaction of a sample commits: seconds since 1970.
const COMMITTED_S: u32 = 1_790_000_000;

/// What a sample holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Sample {
    /// Files.
    pub files: u32,
    /// Transactions.
    pub transactions: u64,
    /// Inserted rows.
    pub written: u64,
    /// Pairs of updated rows.
    pub updated: u64,
    /// Deleted rows.
    pub deleted: u64,
}

/// How much is written, and how its log ends.
#[derive(Debug, Clone)]
pub struct SampleOptions {
    /// The schema of its tables.
    pub schema: String,
    /// Updates of one row of sbtest1, each a transaction.
    pub updates: u32,
    /// Size at which the next file begins.
    pub max_size: u64,
    /// `false` leaves the last file in use, as a crash does.
    pub close: bool,
}

/// Writes a sample log, named `binlog`, into an existing folder.
///
/// # Errors
/// A file cannot be made or written.
pub fn write_sample(format: &Format, folder: &Path, options: &SampleOptions) -> io::Result<Sample> {
    let log_options = LogOptions {
        basename: "binlog".to_owned(),
        max_size: options.max_size,
        timestamp: COMMITTED_S,
    };
    let log = Log::create(format, folder, log_options)?;
    let mut writer = Writer {
        body: Body::new(format),
        log,
        sample: Sample::default(),
    };
    let written = writer.write(format, options);
    written.map_err(|error| match error {
        LogError::Io(error) => error,
        LogError::Encode(error) => io::Error::other(error),
    })?;
    let mut sample = writer.sample;
    sample.files = writer.log.number();
    match options.close {
        true => writer.log.close()?,
        false => writer.log.flush()?,
    }
    Ok(sample)
}

struct Writer {
    body: Body,
    log: Log,
    sample: Sample,
}

impl Writer {
    fn write(&mut self, format: &Format, options: &SampleOptions) -> Result<(), LogError> {
        self.types(format, &options.schema)?;
        self.sbtest(format, options)
    }

    fn begin(&mut self) {
        self.body.begin(COMMITTED_S, 8);
    }

    fn commit(&mut self) -> Result<(), LogError> {
        let xid = self.sample.transactions + 1;
        self.body.commit(xid)?;
        // Two of each three transactions commit in a group, where there are such.
        let commit_id = if xid.is_multiple_of(3) { 0 } else { 1 + xid / 3 };
        let commit_us = u64::from(COMMITTED_S) * 1_000_000 + xid;
        self.log.append(&self.body, commit_us, None, commit_id)?;
        self.sample.transactions = xid;
        Ok(())
    }

    fn types(&mut self, format: &Format, schema: &str) -> Result<(), LogError> {
        let columns = type_columns(format.flavor());
        let table = Table::new(format, 109, schema, "types", &columns)?;
        let document = document(format.flavor());
        let long = Long::new(format.flavor());
        let rows = [
            null_row(columns.len()),
            usual_row(&document),
            zero_row(format.flavor()),
            extreme_row(&long),
        ];
        self.begin();
        self.body.annotate("INSERT INTO types VALUES …")?;
        let mut insert = self.body.statement(&table, Change::Write)?;
        for row in &rows {
            insert.row(row)?;
        }
        insert.end();
        self.sample.written += rows.len() as u64;
        self.commit()?;

        // Each row becomes the one after it, under an id of its own.
        self.begin();
        let mut update = self.body.statement(&table, Change::Update)?;
        for (index, row) in rows.iter().enumerate() {
            let mut after = rows[(index + 1) % rows.len()].clone();
            after[0] = Value::Int(11 + index as i64);
            update.update(row, &after)?;
        }
        update.end();
        self.sample.updated += rows.len() as u64;
        self.commit()?;

        self.begin();
        let mut delete = self.body.statement(&table, Change::Delete)?;
        // The row of NULLs, where the update left it.
        let mut gone = rows[0].clone();
        gone[0] = Value::Int(14);
        delete.row(&gone)?;
        delete.end();
        self.sample.deleted += 1;
        self.commit()
    }

    fn sbtest(&mut self, format: &Format, options: &SampleOptions) -> Result<(), LogError> {
        const ROWS: u32 = 100;
        let table = sbtest(format, 110, &options.schema, "sbtest1")?;
        let pad = "12345678901-".repeat(4);
        let c = |version: u32| format!("{version:011}{}", "-12345678901".repeat(9));
        // One statement of many rows: more than one row event.
        self.begin();
        let mut insert = self.body.statement(&table, Change::Write)?;
        let first = c(0);
        for id in 1..=i64::from(ROWS) {
            let row = [
                Value::Int(id),
                Value::Int(id * 7),
                Value::Bytes(first.as_bytes()),
                Value::Bytes(pad.as_bytes()),
            ];
            insert.row(&row)?;
        }
        insert.end();
        self.sample.written += u64::from(ROWS);
        self.commit()?;
        for update in 0..options.updates {
            let id = i64::from(update % ROWS) + 1;
            let (before, after) = (
                c(if update < ROWS { 0 } else { update + 1 - ROWS }),
                c(update + 1),
            );
            self.begin();
            let mut statement = self.body.statement(&table, Change::Update)?;
            let [old, new] = [&before, &after].map(|c| {
                let (c, pad) = (Value::Bytes(c.as_bytes()), Value::Bytes(pad.as_bytes()));
                [Value::Int(id), Value::Int(id * 7), c, pad]
            });
            statement.update(&old, &new)?;
            statement.end();
            self.sample.updated += 1;
            self.commit()?;
        }
        Ok(())
    }
}

/// A table of sysbench's shape.
///
/// # Errors
/// A name has no form in a binlog.
pub fn sbtest(format: &Format, id: u64, schema: &str, name: &str) -> Result<Table, crate::EncodeError> {
    let collation = utf8mb4(format.flavor());
    let int = Column::new(ColumnType::Int {
        bytes: 4,
        unsigned: false,
    });
    let char = |max_bytes| Column::new(ColumnType::Char { max_bytes, collation });
    Table::new(format, id, schema, name, &[int, int, char(480), char(240)])
}

fn utf8mb4(flavor: Flavor) -> u16 {
    match flavor {
        Flavor::Mysql => UTF8MB4_0900_AI_CI,
        Flavor::Mariadb => UTF8MB4_GENERAL_CI,
    }
}

/// The columns of `types`.
pub fn type_columns(flavor: Flavor) -> Vec<Column> {
    let collation = utf8mb4(flavor);
    let int = |bytes| [false, true].map(|unsigned| ColumnType::Int { bytes, unsigned });
    let decimal = |precision, scale, unsigned| ColumnType::Decimal {
        precision,
        scale,
        unsigned,
    };
    let text = |length_bytes| ColumnType::Blob {
        length_bytes,
        collation,
    };
    let blob = |length_bytes| ColumnType::Blob {
        length_bytes,
        collation: BINARY,
    };
    let mut types = vec![int(4)[0]];
    types.extend([1, 2, 3, 4, 8].into_iter().flat_map(int));
    types.extend([ColumnType::Float, ColumnType::Double]);
    types.extend([decimal(10, 2, false), decimal(65, 30, false)]);
    types.extend([decimal(5, 0, true), decimal(9, 9, false)]);
    types.extend([ColumnType::Year, ColumnType::Date]);
    types.extend([0, 3, 6].map(|fraction| ColumnType::Time { fraction }));
    types.extend([0, 1, 6].map(|fraction| ColumnType::DateTime { fraction }));
    types.extend([0, 2, 6].map(|fraction| ColumnType::Timestamp { fraction }));
    types.extend([
        ColumnType::Char {
            max_bytes: 40,
            collation,
        },
        ColumnType::Char {
            max_bytes: 480,
            collation,
        },
        ColumnType::Char {
            max_bytes: 20,
            collation: LATIN1_SWEDISH_CI,
        },
        ColumnType::Char {
            max_bytes: 8,
            collation: BINARY,
        },
        ColumnType::VarChar {
            max_bytes: 80,
            collation,
        },
        ColumnType::VarChar {
            max_bytes: 1200,
            collation,
        },
        ColumnType::VarChar {
            max_bytes: 300,
            collation: BINARY,
        },
    ]);
    types.extend([blob(1), text(1), blob(2), text(2), blob(3), text(3), blob(4)]);
    types.push(ColumnType::Blob {
        length_bytes: 4,
        collation: LATIN1_SWEDISH_CI,
    });
    types.push(match flavor {
        Flavor::Mysql => ColumnType::Json,
        Flavor::Mariadb => text(4),
    });
    types.extend([ColumnType::Enum { bytes: 1 }, ColumnType::Set { bytes: 1 }]);
    types.extend([1, 9, 64].map(|bits| ColumnType::Bit { bits }));
    let nullable = |column_type| Column::new(column_type).nullable();
    let mut columns: Vec<Column> = types.into_iter().map(nullable).collect();
    columns[0].nullable = false;
    columns
}

fn document(flavor: Flavor) -> Vec<u8> {
    let member = |key: &str, value: Json| (key.to_owned(), value);
    let tree = Json::Object(vec![
        member("a", Json::Int(1)),
        member(
            "bb",
            Json::Array(vec![
                Json::Int(-2),
                Json::Double(3.5),
                Json::Null,
                Json::Bool(true),
            ]),
        ),
        member(
            "c",
            Json::Object(vec![
                member("d", Json::Int(70_000)),
                member("e", Json::Int(5_000_000_000)),
                member("f", Json::UInt(u64::MAX)),
                member("g", Json::String("x".to_owned())),
            ]),
        ),
    ]);
    match flavor {
        Flavor::Mysql => tree.to_binary().unwrap_or_default(),
        Flavor::Mariadb => br#"{"a": 1, "bb": [-2, 3.5, null, true]}"#.to_vec(),
    }
}

fn null_row<'a>(columns: usize) -> Vec<Value<'a>> {
    let mut row = vec![Value::Null; columns];
    row[0] = Value::Int(1);
    row
}

const fn time(negative: bool, hour: u16, minute: u8, second: u8, micros: u32) -> Value<'static> {
    Value::Time {
        negative,
        hour,
        minute,
        second,
        micros,
    }
}

const fn datetime(date: (u16, u8, u8), micros: u32) -> Value<'static> {
    Value::DateTime {
        year: date.0,
        month: date.1,
        day: date.2,
        hour: 1,
        minute: 2,
        second: 3,
        micros,
    }
}

fn usual_row(document: &[u8]) -> Vec<Value<'_>> {
    let text = |text: &'static str| Value::Bytes(text.as_bytes());
    vec![
        Value::Int(2),
        Value::Int(-1),
        Value::UInt(255),
        Value::Int(-2),
        Value::UInt(65_535),
        Value::Int(-3),
        Value::UInt(16_777_215),
        Value::Int(-4),
        Value::UInt(4_294_967_295),
        Value::Int(-5),
        Value::UInt(u64::MAX),
        Value::Float(1.5),
        Value::Double(-2.25),
        Value::Decimal("-12345.67"),
        Value::Decimal("-12345678901234567890.123456789"),
        Value::Decimal("99999"),
        Value::Decimal("0.123456789"),
        Value::UInt(2026),
        Value::Date(2026, 11, 21),
        time(true, 12, 34, 56, 0),
        time(false, 12, 34, 56, 789_000),
        time(true, 838, 59, 58, 999_999),
        datetime((2026, 11, 21), 0),
        datetime((2026, 11, 21), 400_000),
        datetime((2026, 11, 21), 456_789),
        Value::Timestamp(1_795_222_923, 0),
        Value::Timestamp(1_795_222_923, 450_000),
        Value::Timestamp(1_795_222_923, 456_789),
        text("abc"),
        text("a long char"),
        text("lat"),
        text("ab"),
        text("v\u{e4}r"),
        text("v300"),
        text("vb"),
        text("tb"),
        text("tt"),
        text("bl"),
        text("te"),
        text("mb"),
        text("mt"),
        text("lb"),
        text("lt"),
        Value::Bytes(document),
        Value::UInt(2),
        Value::UInt(5),
        Value::UInt(1),
        Value::UInt(0b1_0101_0101),
        Value::UInt(0b1111_0000_1111_0000),
    ]
}

fn zero_row<'a>(flavor: Flavor) -> Vec<Value<'a>> {
    let empty = Value::Bytes(&[]);
    let no_time = time(false, 0, 0, 0, 0);
    let midnight = Value::DateTime {
        year: 0,
        month: 0,
        day: 0,
        hour: 0,
        minute: 0,
        second: 0,
        micros: 0,
    };
    let mut row = vec![Value::Int(3)];
    for _ in 0..5 {
        row.extend([Value::Int(0), Value::UInt(0)]);
    }
    row.extend([Value::Float(0.0), Value::Double(0.0)]);
    row.extend([Value::Decimal("0"); 4]);
    row.extend([
        Value::UInt(0),
        Value::Date(0, 0, 0),
        no_time,
        no_time,
        time(true, 0, 0, 0, 1),
    ]);
    row.extend([midnight; 3]);
    row.extend([Value::Timestamp(1, 0), Value::Null, Value::Timestamp(1, 0)]);
    row.extend([empty; 15]);
    row.push(match flavor {
        Flavor::Mysql => Value::Bytes(&[2, 0, 0, 4, 0]),
        Flavor::Mariadb => Value::Bytes(b"[]"),
    });
    row.extend([
        Value::UInt(1),
        Value::UInt(0),
        Value::UInt(0),
        Value::UInt(0),
        Value::UInt(0),
    ]);
    row
}

/// Texts of every length class.
struct Long {
    bytes: Vec<u8>,
    document: Vec<u8>,
}

impl Long {
    fn new(flavor: Flavor) -> Self {
        let text = "r".repeat(70_000);
        let document = match flavor {
            Flavor::Mysql => Json::Array(vec![Json::String(text)])
                .to_binary()
                .unwrap_or_default(),
            Flavor::Mariadb => format!("[\"{text}\"]").into_bytes(),
        };
        Self {
            bytes: vec![b'l'; 70_000],
            document,
        }
    }
}

fn extreme_row(long: &Long) -> Vec<Value<'_>> {
    let of = |length: usize| Value::Bytes(&long.bytes[..length]);
    let last = Value::DateTime {
        year: 9999,
        month: 12,
        day: 31,
        hour: 23,
        minute: 59,
        second: 59,
        micros: 0,
    };
    vec![
        Value::Int(4),
        Value::Int(i64::from(i8::MIN)),
        Value::UInt(1),
        Value::Int(i64::from(i16::MIN)),
        Value::UInt(1),
        Value::Int(-8_388_608),
        Value::UInt(1),
        Value::Int(i64::from(i32::MIN)),
        Value::UInt(1),
        Value::Int(i64::MIN),
        Value::UInt(1),
        Value::Float(-1e30),
        Value::Double(1e300),
        Value::Decimal("99999999.99"),
        Value::Decimal("12345678901234567890123456789012345.123456789012345678901234567890"),
        Value::Decimal("1"),
        Value::Decimal("-0.000000001"),
        Value::UInt(1901),
        Value::Date(9999, 12, 31),
        time(false, 838, 59, 59, 0),
        time(true, 0, 0, 0, 500_000),
        time(false, 0, 0, 0, 500_000),
        last,
        datetime((1000, 1, 1), 0),
        datetime((1000, 1, 1), 0),
        Value::Timestamp(u32::MAX >> 1, 0),
        Value::Timestamp(u32::MAX >> 1, 990_000),
        Value::Timestamp(u32::MAX >> 1, 999_999),
        of(10),
        of(120),
        of(20),
        of(8),
        of(20),
        of(300),
        of(300),
        of(255),
        of(255),
        of(60_000),
        of(300),
        of(70_000),
        of(66_000),
        of(300),
        of(300),
        Value::Bytes(&long.document),
        Value::UInt(3),
        Value::UInt(7),
        Value::UInt(1),
        Value::UInt(0b1_1111_1111),
        Value::UInt(u64::MAX),
    ]
}
