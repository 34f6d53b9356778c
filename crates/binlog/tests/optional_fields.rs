//! The optional fields of TABLE_MAP: those that fit their columns are taken, others are damage.

use flushlab_binlog::{
    Column, ColumnType, Format, Identity, Table, TableMap, Uuid, BINARY, UTF8MB4_0900_AI_CI,
};

fn format() -> Format {
    format_of("9.7.4")
}

fn format_of(version: &str) -> Format {
    let identity = Identity {
        server_id: 1,
        uuid: Uuid([7; 16]),
        domain: 0,
    };
    Format::new(version, identity).unwrap()
}

/// `t(a INT, b ENUM, c SET, d GEOMETRY, e VARBINARY)` with further fields behind those that the server writes.
fn parsed(kind: u8, field: &[u8]) -> Result<(), String> {
    let columns = [
        ColumnType::Int {
            bytes: 4,
            unsigned: false,
        },
        ColumnType::Enum { bytes: 1 },
        ColumnType::Set { bytes: 1 },
        ColumnType::Geometry,
        ColumnType::VarChar {
            max_bytes: 20,
            collation: BINARY,
        },
    ]
    .map(Column::new);
    let table = Table::new(&format(), 70, "shop", "t", &columns).unwrap();
    let mut body = table.map_body().to_vec();
    body.extend([kind, field.len() as u8]);
    body.extend(field);
    TableMap::parse(&body)
        .map(drop)
        .map_err(|error| error.to_string())
}

#[test]
fn fields_that_fit_the_columns_are_taken() {
    for (kind, field) in [
        (4, &b"\x01a\x01b\x01c\x01d\x01e"[..]),
        (5, b"\x02\x01x\x01y"),
        (6, b"\x01\x03one"),
        (7, &[1]),
        (8, &[0, 4]),
        (9, &[0, 0, 4, 10]),
        (10, &[8, 1, 63]),
        (11, &[8, 63]),
        (12, &[0b1111_1000]),
        (13, &[]),
        (99, b"of a later version"),
    ] {
        assert_eq!(parsed(kind, field), Ok(()), "field {kind}");
    }
}

#[test]
fn a_vector_counts_among_the_character_columns() {
    // As MySQL 9.0.1 writes `CREATE TABLE bar (id SERIAL, v VECTOR(2), foo TEXT, w VECTOR(4))`.
    let collations: [u8; 7] = [2, 5, 63, 1, 0xfc, 0xff, 0];
    let text = ColumnType::Blob {
        length_bytes: 2,
        collation: UTF8MB4_0900_AI_CI,
    };
    let id = ColumnType::Int {
        bytes: 8,
        unsigned: true,
    };
    let columns = [id, ColumnType::Vector, text, ColumnType::Vector].map(Column::new);
    let table = Table::new(&format(), 87, "dtb", "bar", &columns).unwrap();
    assert_eq!(&table.map_body()[table.map_body().len() - 7..], &collations);
    let read = TableMap::parse(table.map_body()).unwrap();
    assert_eq!(read.columns, columns);
}

#[test]
fn mariadb_counts_a_geometry_among_the_character_columns() {
    let text = |collation| ColumnType::Blob {
        length_bytes: 2,
        collation,
    };
    let columns = [ColumnType::Year, ColumnType::Geometry, text(BINARY)].map(Column::new);
    let table = Table::new(&format_of("10.11.19-MariaDB"), 70, "shop", "t", &columns).unwrap();
    let read = |field: &[u8]| TableMap::parse(&[table.map_body(), field].concat());
    // COLUMN_CHARSET, and DEFAULT_CHARSET with a column of its own.
    for field in [[3, 2, BINARY as u8, 45].as_slice(), &[2, 3, BINARY as u8, 1, 45]] {
        assert_eq!(
            read(field).unwrap().columns[2],
            Column::new(text(45)),
            "{field:?}"
        );
    }
    let more = read(&[3, 3, BINARY as u8, 45, 45]).unwrap_err().to_string();
    assert!(more.contains("3 collations of 2 character columns"), "{more}");
}

#[test]
fn fields_that_do_not_fit_are_named() {
    for (kind, field, words) in [
        (1, &[0][..], "the optional field 1 comes twice"),
        (
            4,
            b"\x01a\x01b\x01c\x01d",
            "a name's length needs 1 bytes, 0 are left",
        ),
        (
            4,
            b"\x01a\x01b\x01c\x01d\x01e\x01f",
            "2 bytes are more than its columns need",
        ),
        (5, b"\x03\x01x\x01y", "a name's length needs 1 bytes, 0 are left"),
        (
            6,
            &[0xfe, 255, 255, 255, 255, 255, 255, 255, 255],
            "a name's length needs",
        ),
        (7, &[], "a column's number needs 1 bytes, 0 are left"),
        (8, &[5], "the primary key has the column 5 (from 0) of 5"),
        (9, &[0], "the length of a prefix needs 1 bytes, 0 are left"),
        (10, &[8, 2, 63], "a collation of a column that there is not"),
        (11, &[8], "a column's number needs 1 bytes, 0 are left"),
        (12, &[0, 0], "1 bytes are more than its columns need"),
        (13, &[5], "1 bytes are more than its columns need"),
    ] {
        let refused = parsed(kind, field).unwrap_err();
        assert!(refused.contains(words), "field {kind}: {refused}");
        assert!(
            refused.starts_with(&format!("the optional field {kind}")),
            "{refused}"
        );
    }
}
