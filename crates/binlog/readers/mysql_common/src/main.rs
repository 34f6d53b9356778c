//! Prints every event and every row value of binlog files as `mysql_common` reads them.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};

use mysql_common::binlog::consts::{BinlogVersion, EventType};
use mysql_common::binlog::events::{Event, EventData, TransactionPayloadEvent};
use mysql_common::binlog::row::BinlogRow;
use mysql_common::binlog::value::BinlogValue;
use mysql_common::binlog::{BinlogFile, EventStreamReader};
use mysql_common::constants::ColumnType;
use mysql_common::value::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(io::stdout());
    for name in std::env::args().skip(1) {
        writeln!(out, "{{\"file\":{name:?}}}")?;
        let mut file = BinlogFile::new(BinlogVersion::Version4, BufReader::new(File::open(&name)?))?;
        while let Some(event) = file.next() {
            let event = event?;
            print(&mut out, &event, file.reader(), false)?;
            if event.header().event_type_raw() == EventType::TRANSACTION_PAYLOAD_EVENT as u8 {
                let payload = event.read_event::<TransactionPayloadEvent<'_>>()?;
                let mut events = payload.decompressed()?;
                while let Some(event) = file.reader_mut().read_decompressed(&mut events)? {
                    print(&mut out, &event, file.reader(), true)?;
                }
            }
        }
    }
    Ok(out.flush()?)
}

fn print(out: &mut impl Write, event: &Event, reader: &EventStreamReader, inside: bool) -> io::Result<()> {
    let event_type = event.header().event_type_raw();
    write!(out, "{{\"event\":{event_type},\"inside\":{inside}")?;
    if let Ok(Some(EventData::RowsEvent(rows))) = event.read_data() {
        let table = reader
            .get_tme(rows.table_id())
            .ok_or_else(|| io::Error::other("rows without a table"))?;
        let mut texts = Vec::new();
        for row in rows.rows(table) {
            let (before, after) = row?;
            texts.push(list(before.into_iter().chain(after).map(image)));
        }
        write!(out, ",\"rows\":{}", list(texts))?;
    }
    writeln!(out, "}}")
}

fn image(row: BinlogRow) -> String {
    let columns = row.columns();
    list(
        row.unwrap()
            .into_iter()
            .zip(columns.iter())
            .map(|(value, column)| text(&value, column.column_type())),
    )
}

fn list(parts: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", parts.into_iter().collect::<Vec<_>>().join(","))
}

fn text(value: &BinlogValue<'_>, column_type: ColumnType) -> String {
    let BinlogValue::Value(value) = value else {
        return "\"j:\"".to_owned();
    };
    let out = match value {
        Value::NULL => return "null".to_owned(),
        Value::Int(value) if column_type == ColumnType::MYSQL_TYPE_TIMESTAMP => format!("t:{value}"),
        Value::Int(value) => format!("i:{value}"),
        Value::UInt(value) => format!("i:{value}"),
        Value::Float(value) => format!("f:{:08x}", value.to_bits()),
        Value::Double(value) => format!("d:{:016x}", value.to_bits()),
        Value::Date(year, month, day, hour, minute, second, micros) => {
            format!("D:{year}-{month}-{day} {hour}:{minute}:{second}.{micros:06}")
        }
        Value::Time(negative, days, hours, minutes, seconds, micros) => {
            let hours = days * 24 + u32::from(*hours);
            format!(
                "T:{}{hours}:{minutes}:{seconds}.{micros:06}",
                if *negative { "-" } else { "" }
            )
        }
        Value::Bytes(bytes) => match column_type {
            ColumnType::MYSQL_TYPE_NEWDECIMAL | ColumnType::MYSQL_TYPE_TIMESTAMP2 => {
                format!("t:{}", String::from_utf8_lossy(bytes))
            }
            ColumnType::MYSQL_TYPE_YEAR => format!("i:{}", String::from_utf8_lossy(bytes)),
            ColumnType::MYSQL_TYPE_BIT => format!("i:{}", number(bytes.iter())),
            ColumnType::MYSQL_TYPE_SET => format!("i:{}", number(bytes.iter().rev())),
            _ => format!(
                "s:{}",
                bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
            ),
        },
    };
    format!("\"{out}\"")
}

fn number<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}
