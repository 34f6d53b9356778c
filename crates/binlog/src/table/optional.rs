//! The optional fields of a TABLE_MAP: each must fit the columns that it is about.
//!
//! Fields: MySQL, `Table_map_event::Optional_metadata_field_type` (`libs/mysql/binlog/event/rows_event.h`);
//! MariaDB has the first twelve. Fields that are not known are passed over, as servers do.

use super::{Column, ColumnType};
use crate::bytes::{Malformed, Reader};

/// Reads a field, and brings into `columns` what rows are read by.
pub(super) fn apply(kind: u8, columns: &mut [Column], field: &[u8]) -> Result<(), Malformed> {
    let mut reader = Reader::new(field);
    let count = |wanted: fn(ColumnType) -> bool| columns.iter().filter(|one| wanted(one.column_type)).count();
    match kind {
        1 => return apply_signedness(columns, field),
        2 => return apply_default_charset(columns, reader),
        3 => return apply_column_charsets(columns, reader),
        // COLUMN_NAME
        4 => names(&mut reader, columns.len())?,
        // SET_STR_VALUE, ENUM_STR_VALUE: the members of each such column.
        5 => members(&mut reader, count(is_set))?,
        6 => members(&mut reader, count(is_enum))?,
        // GEOMETRY_TYPE, VECTOR_DIMENSIONALITY
        7 => numbers(&mut reader, count(|one| one == ColumnType::Geometry))?,
        13 => numbers(&mut reader, count(|one| one == ColumnType::Vector))?,
        // SIMPLE_PRIMARY_KEY, PRIMARY_KEY_WITH_PREFIX
        8 | 9 => {
            while !reader.is_empty() {
                let column = reader.lenenc("a column of the primary key")?;
                if column >= columns.len() as u64 {
                    let message = format!(
                        "the primary key has the column {column} (from 0) of {}",
                        columns.len()
                    );
                    return Err(Malformed::new(message));
                }
                if kind == 9 {
                    reader.lenenc("the length of a prefix")?;
                }
            }
        }
        // ENUM_AND_SET_DEFAULT_CHARSET, ENUM_AND_SET_COLUMN_CHARSET
        10 => {
            let of = count(|one| is_enum(one) || is_set(one)) as u64;
            reader.lenenc("the default collation")?;
            while !reader.is_empty() {
                if reader.lenenc("a column's number")? >= of {
                    return Err(Malformed::new("a collation of a column that there is not"));
                }
                reader.lenenc("a collation")?;
            }
        }
        11 => numbers(&mut reader, count(|one| is_enum(one) || is_set(one)))?,
        // COLUMN_VISIBILITY
        12 => {
            reader.bytes(columns.len().div_ceil(8), "the bits of visible columns")?;
        }
        _ => return Ok(()),
    }
    match reader.rest().len() {
        0 => Ok(()),
        left => Err(Malformed::new(format!(
            "{left} bytes are more than its columns need"
        ))),
    }
}

fn is_enum(column_type: ColumnType) -> bool {
    matches!(column_type, ColumnType::Enum { .. })
}

fn is_set(column_type: ColumnType) -> bool {
    matches!(column_type, ColumnType::Set { .. })
}

fn names(reader: &mut Reader<'_>, count: usize) -> Result<(), Malformed> {
    for _ in 0..count {
        let length = reader.lenenc("a name's length")? as usize;
        reader.bytes(length, "a name")?;
    }
    Ok(())
}

fn members(reader: &mut Reader<'_>, columns: usize) -> Result<(), Malformed> {
    for _ in 0..columns {
        let count = reader.lenenc("the number of members")?;
        // Each takes a byte at least: a number that is too large ends with the field.
        names(reader, count as usize)?;
    }
    Ok(())
}

fn numbers(reader: &mut Reader<'_>, count: usize) -> Result<(), Malformed> {
    for _ in 0..count {
        reader.lenenc("a column's number")?;
    }
    Ok(())
}

fn apply_signedness(columns: &mut [Column], bits: &[u8]) -> Result<(), Malformed> {
    let bytes_of = |of_year| {
        let numeric = columns
            .iter()
            .filter(|one| one.column_type.signedness(of_year).is_some());
        numeric.count().div_ceil(8)
    };
    if ![bytes_of(false), bytes_of(true)].contains(&bits.len()) {
        return Err(Malformed::new(format!(
            "{} bytes for the signs of the numeric columns",
            bits.len()
        )));
    }
    // YEAR has a bit or has none, which the number of bytes does not always tell; its own is 1.
    let numeric =
        |of_year: bool| move |column: &&mut Column| column.column_type.signedness(of_year).is_some();
    let bit = |index: usize| {
        bits.get(index / 8)
            .is_some_and(|byte| byte >> (7 - index % 8) & 1 == 1)
    };
    let of_year = {
        let mut index = 0;
        let mut fits = true;
        let mut any = false;
        for column in columns.iter() {
            if column.column_type.signedness(true).is_some() {
                if column.column_type == ColumnType::Year {
                    fits &= bit(index);
                    any = true;
                }
                index += 1;
            }
        }
        any && fits
    };
    for (index, column) in columns.iter_mut().filter(numeric(of_year)).enumerate() {
        match &mut column.column_type {
            ColumnType::Int { unsigned, .. } | ColumnType::Decimal { unsigned, .. } => {
                *unsigned = bit(index);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The columns that have a collation in a field that has `count` of them, or numbers below that: MariaDB counts
/// GEOMETRY among them, MySQL does not.
fn characters(columns: &mut [Column], count: usize) -> Vec<&mut ColumnType> {
    let is_text = |one: &ColumnType| one.collation().is_some();
    let text = columns.iter().filter(|one| is_text(&one.column_type)).count();
    let types = columns.iter_mut().map(|column| &mut column.column_type);
    types
        .filter(|one| is_text(one) || (count > text && **one == ColumnType::Geometry))
        .collect()
}

fn set(column_type: &mut ColumnType, given: u64) {
    match column_type {
        ColumnType::Char { collation, .. }
        | ColumnType::VarChar { collation, .. }
        | ColumnType::Blob { collation, .. } => *collation = given as u16,
        _ => {}
    }
}

fn apply_default_charset(columns: &mut [Column], mut field: Reader<'_>) -> Result<(), Malformed> {
    let default = field.lenenc("the default collation")?;
    let mut others = Vec::new();
    while !field.is_empty() {
        let index = field.lenenc("a column's number")? as usize;
        others.push((index, field.lenenc("a collation")?));
    }
    let last = others.iter().map(|(index, _)| *index).max();
    let mut columns = characters(columns, last.map_or(0, |last| last.saturating_add(1)));
    columns.iter_mut().for_each(|column| set(column, default));
    for (index, given) in others {
        match columns.get_mut(index) {
            Some(column) => set(column, given),
            None => return Err(Malformed::new("a collation of a column that there is not")),
        }
    }
    Ok(())
}

fn apply_column_charsets(columns: &mut [Column], mut field: Reader<'_>) -> Result<(), Malformed> {
    let mut given = Vec::new();
    while !field.is_empty() {
        given.push(field.lenenc("a collation")?);
    }
    let columns = characters(columns, given.len());
    if columns.len() != given.len() {
        let message = format!(
            "{} collations of {} character columns",
            given.len(),
            columns.len()
        );
        return Err(Malformed::new(message));
    }
    for (column, given) in columns.into_iter().zip(given) {
        set(column, given);
    }
    Ok(())
}
