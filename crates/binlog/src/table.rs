//! Tables: columns, and the TABLE_MAP body that describes them.

mod optional;

use crate::bytes::{Malformed, Put, Reader};
use crate::error::EncodeError;
use crate::format::{Flavor, Format, Version};

/// The collation number of binary strings.
pub const BINARY: u16 = 63;
/// The collation number of utf8mb4_0900_ai_ci (MySQL's default).
pub const UTF8MB4_0900_AI_CI: u16 = 255;
/// The collation number of utf8mb4_general_ci (MariaDB's default for utf8mb4 up to 11.4).
pub const UTF8MB4_GENERAL_CI: u16 = 45;
/// The collation number of latin1_swedish_ci.
pub const LATIN1_SWEDISH_CI: u16 = 8;

/// A column's type, as far as a binlog knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// TINYINT to BIGINT.
    Int {
        /// 1, 2, 3, 4 or 8.
        bytes: u8,
        /// UNSIGNED.
        unsigned: bool,
    },
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// DECIMAL.
    Decimal {
        /// All digits, up to 65.
        precision: u8,
        /// Digits behind the point, up to 30.
        scale: u8,
        /// UNSIGNED.
        unsigned: bool,
    },
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME.
    Time {
        /// Digits of the fraction, up to 6.
        fraction: u8,
    },
    /// DATETIME.
    DateTime {
        /// Digits of the fraction, up to 6.
        fraction: u8,
    },
    /// TIMESTAMP.
    Timestamp {
        /// Digits of the fraction, up to 6.
        fraction: u8,
    },
    /// CHAR and BINARY.
    Char {
        /// Longest value in bytes, up to 1023: CHAR(120) in utf8mb4 has 480.
        max_bytes: u16,
        /// The collation's number; [`BINARY`] for BINARY.
        collation: u16,
    },
    /// VARCHAR and VARBINARY.
    VarChar {
        /// Longest value in bytes.
        max_bytes: u16,
        /// The collation's number; [`BINARY`] for VARBINARY.
        collation: u16,
    },
    /// TINYTEXT to LONGTEXT and TINYBLOB to LONGBLOB.
    Blob {
        /// Bytes of the length: 1 to 4.
        length_bytes: u8,
        /// The collation's number; [`BINARY`] for BLOBs.
        collation: u16,
    },
    /// MySQL's JSON. MariaDB's is a `Blob` with four length bytes.
    Json,
    /// ENUM.
    Enum {
        /// Bytes of a value: 1 up to 255 members, else 2.
        bytes: u8,
    },
    /// SET.
    Set {
        /// Bytes of a value: 1, 2, 3, 4 or 8.
        bytes: u8,
    },
    /// BIT.
    Bit {
        /// 1 to 64.
        bits: u8,
    },
    /// GEOMETRY and its kin: read and copied, not interpreted.
    Geometry,
    /// MySQL 9's VECTOR: read and copied, not interpreted.
    Vector,
}

impl ColumnType {
    fn check(self) -> Result<(), &'static str> {
        let fits = match self {
            Self::Int { bytes, .. } => matches!(bytes, 1..=4 | 8),
            Self::Decimal { precision, scale, .. } => {
                (1..=65).contains(&precision) && scale <= 30 && scale <= precision
            }
            Self::Time { fraction } | Self::DateTime { fraction } | Self::Timestamp { fraction } => {
                fraction <= 6
            }
            Self::Char { max_bytes, .. } => max_bytes <= 1023,
            Self::Blob { length_bytes, .. } => (1..=4).contains(&length_bytes),
            Self::Enum { bytes } => matches!(bytes, 1 | 2),
            Self::Set { bytes } => matches!(bytes, 1..=4 | 8),
            Self::Bit { bits } => (1..=64).contains(&bits),
            Self::Float
            | Self::Double
            | Self::Year
            | Self::Date
            | Self::VarChar { .. }
            | Self::Json
            | Self::Geometry
            | Self::Vector => true,
        };
        match fits {
            true => Ok(()),
            false => Err("has a size that no server knows"),
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Int { bytes: 1, .. } => 1,
            Self::Int { bytes: 2, .. } => 2,
            Self::Int { bytes: 3, .. } => 9,
            Self::Int { bytes: 8, .. } => 8,
            Self::Int { .. } => 3,
            Self::Float => 4,
            Self::Double => 5,
            Self::Date => 10,
            Self::Year => 13,
            Self::VarChar { .. } => 15,
            Self::Bit { .. } => 16,
            Self::Timestamp { .. } => 17,
            Self::DateTime { .. } => 18,
            Self::Time { .. } => 19,
            Self::Vector => 242,
            Self::Json => 245,
            Self::Decimal { .. } => 246,
            Self::Blob { .. } => 252,
            Self::Char { .. } | Self::Enum { .. } | Self::Set { .. } => 254,
            Self::Geometry => 255,
        }
    }

    fn put_metadata(self, out: &mut Vec<u8>) {
        match self {
            Self::Float => out.put_u8(4),
            Self::Double => out.put_u8(8),
            Self::Decimal { precision, scale, .. } => out.put(&[precision, scale]),
            Self::Time { fraction } | Self::DateTime { fraction } | Self::Timestamp { fraction } => {
                out.put_u8(fraction);
            }
            Self::Char { max_bytes, .. } => {
                let high = ((max_bytes & 0x300) >> 4) as u8;
                out.put(&[0xfe ^ high, max_bytes as u8]);
            }
            Self::VarChar { max_bytes, .. } => out.put_u16(max_bytes),
            Self::Blob { length_bytes, .. } => out.put_u8(length_bytes),
            Self::Json | Self::Geometry | Self::Vector => out.put_u8(4),
            Self::Enum { bytes } => out.put(&[247, bytes]),
            Self::Set { bytes } => out.put(&[248, bytes]),
            Self::Bit { bits } => out.put(&[bits % 8, bits / 8]),
            Self::Int { .. } | Self::Date | Self::Year => {}
        }
    }

    /// Whether the column has a bit in the SIGNEDNESS field, and which.
    fn signedness(self, of_year: bool) -> Option<bool> {
        match self {
            Self::Int { unsigned, .. } | Self::Decimal { unsigned, .. } => Some(unsigned),
            Self::Float | Self::Double => Some(false),
            Self::Year if of_year => Some(true),
            _ => None,
        }
    }

    fn collation(self) -> Option<u16> {
        match self {
            Self::Char { collation, .. } | Self::VarChar { collation, .. } | Self::Blob { collation, .. } => {
                Some(collation)
            }
            // MySQL counts it among the character columns, with the collation of binary strings.
            Self::Vector => Some(BINARY),
            _ => None,
        }
    }

    /// Reads a type's metadata behind its code.
    fn parse(code: u8, metadata: &mut Reader<'_>) -> Result<Self, Malformed> {
        let what = "a column's metadata";
        let int = |bytes| Self::Int {
            bytes,
            unsigned: false,
        };
        let found = match code {
            1 => int(1),
            2 => int(2),
            3 => int(4),
            8 => int(8),
            9 => int(3),
            4 => fixed(metadata, 4, Self::Float)?,
            5 => fixed(metadata, 8, Self::Double)?,
            10 => Self::Date,
            13 => Self::Year,
            15 => Self::VarChar {
                max_bytes: metadata.uint(2, what)? as u16,
                collation: BINARY,
            },
            16 => {
                let (rest, whole) = (metadata.u8(what)?, metadata.u8(what)?);
                if rest > 7 || whole > 8 {
                    return Err(Malformed::new("a BIT column has more than 64 bits"));
                }
                Self::Bit {
                    bits: whole * 8 + rest,
                }
            }
            17 => Self::Timestamp {
                fraction: metadata.u8(what)?,
            },
            18 => Self::DateTime {
                fraction: metadata.u8(what)?,
            },
            19 => Self::Time {
                fraction: metadata.u8(what)?,
            },
            242 => fixed(metadata, 4, Self::Vector)?,
            245 => fixed(metadata, 4, Self::Json)?,
            246 => Self::Decimal {
                precision: metadata.u8(what)?,
                scale: metadata.u8(what)?,
                unsigned: false,
            },
            252 => Self::Blob {
                length_bytes: metadata.u8(what)?,
                collation: BINARY,
            },
            254 => match (metadata.u8(what)?, metadata.u8(what)?) {
                (247, bytes) => Self::Enum { bytes },
                (248, bytes) => Self::Set { bytes },
                (real, low) if real | 0x30 == 0xfe => Self::Char {
                    max_bytes: u16::from(low) | u16::from((real ^ 0xfe) & 0x30) << 4,
                    collation: BINARY,
                },
                (real, _) => {
                    return Err(Malformed::new(format!(
                        "a string column of the unknown kind {real}"
                    )))
                }
            },
            255 => fixed(metadata, 4, Self::Geometry)?,
            _ => return Err(Malformed::unknown(format!("a column has the type {code}"))),
        };
        match found.check() {
            Ok(()) => Ok(found),
            Err(reason) => Err(Malformed::new(format!("a column of type {code} {reason}"))),
        }
    }
}

fn fixed(metadata: &mut Reader<'_>, size: u8, column: ColumnType) -> Result<ColumnType, Malformed> {
    match metadata.u8("a column's metadata")? {
        given if given == size => Ok(column),
        given => Err(Malformed::new(format!(
            "a column of type {} has the size {given}, not {size}",
            column.code()
        ))),
    }
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its type.
    pub column_type: ColumnType,
    /// Whether it may be NULL.
    pub nullable: bool,
}

impl Column {
    /// A column that is NOT NULL.
    pub const fn new(column_type: ColumnType) -> Self {
        Self {
            column_type,
            nullable: false,
        }
    }

    /// The same column with NULL allowed.
    #[must_use]
    pub const fn nullable(self) -> Self {
        Self {
            nullable: true,
            ..self
        }
    }
}

/// Most columns that a table of the servers can have.
const MAX_COLUMNS: usize = 4096;

/// A table that rows are written for: its TABLE_MAP is encoded once, here.
#[derive(Debug, Clone)]
pub struct Table {
    id: u64,
    columns: Vec<Column>,
    map_body: Vec<u8>,
}

impl Table {
    /// A table in `schema` under the id that ties its row events to its TABLE_MAP (48 bits).
    ///
    /// # Errors
    /// A name is empty or longer than 64 characters, there is no column, more than 4096, or one
    /// that the servers do not know.
    pub fn new(
        format: &Format,
        id: u64,
        schema: &str,
        name: &str,
        columns: &[Column],
    ) -> Result<Self, EncodeError> {
        for word in [schema, name] {
            if !(1..=64).contains(&word.chars().count()) {
                return Err(EncodeError::Table(format!(
                    "the name {word:?} does not have 1 to 64 characters"
                )));
            }
        }
        if id >> 48 != 0 {
            return Err(EncodeError::Table(format!(
                "the table id {id} has more than 48 bits"
            )));
        }
        if !(1..=MAX_COLUMNS).contains(&columns.len()) {
            return Err(EncodeError::Table(format!(
                "the table {schema}.{name} has {} columns, not 1 to {MAX_COLUMNS}",
                columns.len()
            )));
        }
        for (index, column) in columns.iter().enumerate() {
            let foreign = format.flavor() == Flavor::Mariadb
                && matches!(column.column_type, ColumnType::Json | ColumnType::Vector);
            if foreign {
                return Err(EncodeError::Table(format!(
                    "column {index} (from 0) of {schema}.{name} has a type that MariaDB does not have"
                )));
            }
            column.column_type.check().map_err(|reason| {
                EncodeError::Table(format!("column {index} (from 0) of {schema}.{name} {reason}"))
            })?;
        }
        Ok(Self {
            id,
            columns: columns.to_vec(),
            map_body: map_body(format, id, schema, name, columns),
        })
    }

    /// The id that ties row events to the TABLE_MAP.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The body of its TABLE_MAP event.
    pub fn map_body(&self) -> &[u8] {
        &self.map_body
    }
}

fn map_body(format: &Format, id: u64, schema: &str, name: &str, columns: &[Column]) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_uint(id, 6);
    body.put_u16(1);
    for word in [schema, name] {
        // 64 characters of up to three bytes: below 251, so that one byte holds the length.
        body.put_u8(word.len() as u8);
        body.put(word.as_bytes());
        body.put_u8(0);
    }
    body.put_lenenc(columns.len() as u64);
    for column in columns {
        body.put_u8(column.column_type.code());
    }
    let mut metadata = Vec::new();
    for column in columns {
        column.column_type.put_metadata(&mut metadata);
    }
    body.put_lenenc(metadata.len() as u64);
    body.put(&metadata);
    let mut nullable = vec![0_u8; columns.len().div_ceil(8)];
    for (index, column) in columns.iter().enumerate() {
        nullable[index / 8] |= u8::from(column.nullable) << (index % 8);
    }
    body.put(&nullable);
    if format.flavor() == Flavor::Mysql {
        put_signedness(&mut body, columns, year_is_numeric(format.version()));
        put_charsets(&mut body, columns);
    }
    body
}

/// 9.7.4 counts YEAR among the numeric columns of SIGNEDNESS, 8.0.15 does not; both were read off
/// real files. Readers that follow either rule skip a bit that is surplus.
fn year_is_numeric(version: Version) -> bool {
    version.0 >= 9
}

/// SIGNEDNESS: a bit for each numeric column, from the high bit down; 1 is unsigned.
fn put_signedness(body: &mut Vec<u8>, columns: &[Column], of_year: bool) {
    let numeric = || {
        columns
            .iter()
            .filter_map(|column| column.column_type.signedness(of_year))
    };
    let count = numeric().count();
    if count == 0 {
        return;
    }
    let mut bits = vec![0_u8; count.div_ceil(8)];
    for (index, unsigned) in numeric().enumerate() {
        bits[index / 8] |= u8::from(unsigned) << (7 - index % 8);
    }
    put_field(body, 1, &bits);
}

/// DEFAULT_CHARSET or COLUMN_CHARSET, whichever the server takes for shorter.
fn put_charsets(body: &mut Vec<u8>, columns: &[Column]) {
    let collations = || columns.iter().filter_map(|column| column.column_type.collation());
    let count = collations().count();
    if count == 0 {
        return;
    }
    let uses = |one: u16| collations().filter(|collation| *collation == one).count();
    let most_used = collations().fold((0_u16, 0_usize), |best, collation| {
        let used = uses(collation);
        let better = used > best.1 || (used == best.1 && collation < best.0);
        if better {
            (collation, used)
        } else {
            best
        }
    });
    let mut field = Vec::new();
    if count < 1 + (count - most_used.1) * 2 {
        for collation in collations() {
            field.put_lenenc(u64::from(collation));
        }
        put_field(body, 3, &field);
    } else {
        field.put_lenenc(u64::from(most_used.0));
        for (index, collation) in collations().enumerate() {
            if collation != most_used.0 {
                field.put_lenenc(index as u64);
                field.put_lenenc(u64::from(collation));
            }
        }
        put_field(body, 2, &field);
    }
}

fn put_field(body: &mut Vec<u8>, kind: u8, value: &[u8]) {
    body.put_u8(kind);
    body.put_lenenc(value.len() as u64);
    body.put(value);
}

/// A TABLE_MAP that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMap {
    /// The id that its row events carry.
    pub id: u64,
    /// The schema's name, as bytes.
    pub schema: Vec<u8>,
    /// The table's name, as bytes.
    pub name: Vec<u8>,
    /// Its columns; unsignedness and collations only as far as the optional fields tell them.
    pub columns: Vec<Column>,
}

impl TableMap {
    /// The table's id and its name, which stand at the front of a TABLE_MAP event's body.
    pub(crate) fn id_and_name(body: &[u8]) -> Result<(u64, &[u8]), Malformed> {
        let mut reader = Reader::new(body);
        let id = reader.uint(6, "the table id")?;
        reader.uint(2, "the flags")?;
        reader.short_name("the schema's name")?;
        Ok((id, reader.short_name("the table's name")?))
    }

    /// Reads the body of a TABLE_MAP event (without header and checksum).
    ///
    /// # Errors
    /// The rule that the bytes break.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let id = reader.uint(6, "the table id")?;
        reader.uint(2, "the flags")?;
        let schema = reader.short_name("the schema's name")?.to_vec();
        let name = reader.short_name("the table's name")?.to_vec();
        let count = reader.lenenc("the number of columns")? as usize;
        if !(1..=MAX_COLUMNS).contains(&count) {
            return Err(Malformed::new(format!("a table of {count} columns")));
        }
        let codes = reader.bytes(count, "the columns' types")?;
        let size = reader.lenenc("the metadata's size")? as usize;
        let mut metadata = Reader::new(reader.bytes(size, "the metadata")?);
        let nullable = reader.bytes(count.div_ceil(8), "the bits of nullable columns")?;
        let mut columns = Vec::with_capacity(count);
        for (index, code) in codes.iter().enumerate() {
            columns.push(Column {
                column_type: ColumnType::parse(*code, &mut metadata)?,
                nullable: nullable[index / 8] >> (index % 8) & 1 == 1,
            });
        }
        if !metadata.is_empty() {
            return Err(Malformed::new("the metadata is longer than the columns need"));
        }
        let mut seen = 0_u32;
        while !reader.is_empty() {
            let kind = reader.u8("an optional field")?;
            let size = reader.lenenc("an optional field's size")? as usize;
            let field = reader.bytes(size, "an optional field")?;
            let bit = 1_u32.checked_shl(u32::from(kind)).unwrap_or(0);
            if seen & bit != 0 {
                return Err(Malformed::new(format!("the optional field {kind} comes twice")));
            }
            seen |= bit;
            optional::apply(kind, &mut columns, field)
                .map_err(|error| error.within(&format!("the optional field {kind}")))?;
        }
        Ok(Self {
            id,
            schema,
            name,
            columns,
        })
    }
}
