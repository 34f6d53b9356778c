//! Prints every event and every row value of binlog files: one JSON object a line, in the form that
//! `benchmarks/binlog_readers.py` compares with what an independent reader prints.
//!
//! ```sh
//! cargo run --release --example dump -- FILE…
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};

use flushlab_binlog::{
    decimal_text, read_events, uncompressed_rows, Change, Column, ColumnType, Event, EventType, Malformed,
    Rows, TableMap, Value,
};

fn main() -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout());
    for name in std::env::args().skip(1) {
        writeln!(out, "{{\"file\":{name:?}}}")?;
        let mut tables = HashMap::new();
        let mut failed = Ok(());
        let reached = read_events(BufReader::new(File::open(&name)?), |event| {
            let line = line(event, &mut tables)?;
            if failed.is_ok() {
                failed = writeln!(out, "{line}");
            }
            Ok(())
        })?;
        failed?;
        if reached.torn || reached.unreadable.is_some() {
            out.flush()?;
            return Err(io::Error::other(format!("{name}: {reached:?}")));
        }
    }
    out.flush()
}

fn line(event: &Event<'_>, tables: &mut HashMap<u64, TableMap>) -> Result<String, Malformed> {
    let event_type = event.header.event_type;
    if event_type == EventType::TABLE_MAP {
        let table = TableMap::parse(event.body)?;
        tables.insert(table.id, table);
    }
    let (plain, body) = uncompressed_rows(event_type, event.body)?;
    let mut rest = String::new();
    if Rows::change_of(plain).is_some() {
        let rows = Rows::parse(plain, &body)?;
        if let Some(table) = tables.get(&rows.table_id) {
            rest = format!(",{}", rows_of(rows, &table.columns)?);
        }
    }
    let (code, inside) = (event_type.0, event.inside);
    Ok(format!("{{\"event\":{code},\"inside\":{inside}{rest}}}"))
}

/// Rows as lists of images, images as lists of values; the kinds of their columns likewise.
fn rows_of(mut rows: Rows<'_>, columns: &[Column]) -> Result<String, Malformed> {
    let images = if rows.change == Change::Update { 2 } else { 1 };
    let mut kinds = vec![Vec::new(); images];
    let mut found = Vec::new();
    while !rows.is_empty() {
        let mut row = vec![Vec::new(); images];
        rows.read_row(columns, |image, index, value| {
            let column_type = columns[index].column_type;
            if found.is_empty() {
                kinds[image].push(format!("\"{}\"", kind(column_type)));
            }
            row[image].push(text(column_type, &value));
        })?;
        found.push(list(row.into_iter().map(list)));
    }
    let kinds = list(kinds.into_iter().map(list));
    Ok(format!("\"kinds\":{kinds},\"rows\":{}", list(found)))
}

fn list(parts: impl IntoIterator<Item = String>) -> String {
    let parts: Vec<String> = parts.into_iter().collect();
    format!("[{}]", parts.join(","))
}

fn kind(column_type: ColumnType) -> String {
    match column_type {
        ColumnType::Int { bytes, .. } => format!("int{bytes}"),
        ColumnType::Float => "float".to_owned(),
        ColumnType::Double => "double".to_owned(),
        ColumnType::Decimal { .. } => "decimal".to_owned(),
        ColumnType::Year => "year".to_owned(),
        ColumnType::Date => "date".to_owned(),
        ColumnType::Time { .. } => "time".to_owned(),
        ColumnType::DateTime { .. } => "datetime".to_owned(),
        ColumnType::Timestamp { .. } => "timestamp".to_owned(),
        ColumnType::Json => "json".to_owned(),
        ColumnType::Enum { .. } => "int2".to_owned(),
        ColumnType::Set { .. } | ColumnType::Bit { .. } => "bits".to_owned(),
        _ => "bytes".to_owned(),
    }
}

fn text(column_type: ColumnType, value: &Value<'_>) -> String {
    let out = match (column_type, value) {
        (_, Value::Null) => return "null".to_owned(),
        (ColumnType::Decimal { precision, scale, .. }, Value::Packed(packed)) => {
            let text = decimal_text(packed, precision, scale).unwrap_or_default();
            format!("t:{text}")
        }
        (_, Value::Int(value)) => format!("i:{value}"),
        (_, Value::UInt(value)) => format!("i:{value}"),
        (_, Value::Float(value)) => format!("f:{:08x}", value.to_bits()),
        (_, Value::Double(value)) => format!("d:{:016x}", value.to_bits()),
        (_, Value::Date(year, month, day)) => format!("D:{year}-{month}-{day} 0:0:0.000000"),
        (
            _,
            Value::Time {
                negative,
                hour,
                minute,
                second,
                micros,
            },
        ) => {
            let sign = if *negative { "-" } else { "" };
            format!("T:{sign}{hour}:{minute}:{second}.{micros:06}")
        }
        (
            _,
            Value::DateTime {
                year,
                month,
                day,
                hour,
                minute,
                second,
                micros,
            },
        ) => format!("D:{year}-{month}-{day} {hour}:{minute}:{second}.{micros:06}"),
        (_, Value::Timestamp(seconds, micros)) => format!("t:{seconds}.{micros:06}"),
        (_, Value::Bytes(bytes)) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("s:{digits}")
        }
        (_, Value::JsonChanges(_)) => "j:".to_owned(),
        (_, other) => format!("?:{other:?}"),
    };
    format!("\"{out}\"")
}
