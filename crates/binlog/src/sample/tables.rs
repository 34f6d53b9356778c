//! The sample's tables: as SQL and as columns.

use crate::{
    Column, ColumnType, EncodeError, Flavor, Format, Table, BINARY, LATIN1_SWEDISH_CI, UTF8MB4_0900_AI_CI,
    UTF8MB4_GENERAL_CI,
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

/// A table of sysbench's shape.
///
/// # Errors
/// A name has no form in a binlog.
pub fn sbtest(format: &Format, id: u64, schema: &str, name: &str) -> Result<Table, EncodeError> {
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
