//! Statements that load rows, as text.

use flushlab_generate::Format;

use super::spec::{unwritable, Method, Range, Spec};
use crate::Error;

/// Writes an INSERT of rows from `first` on; the row behind them.
pub(super) fn write_statement(
    spec: &Spec,
    head: &[u8],
    range: Range,
    first: u64,
    out: &mut Vec<u8>,
) -> Result<u64, Error> {
    out.clear();
    out.extend_from_slice(head);
    let mut next = first;
    while next < range.to && next - first < spec.batch_rows {
        let before = out.len();
        if next > first {
            out.push(b',');
        }
        spec.table()
            .write_row(next, Format::Values, out)
            .map_err(unwritable)?;
        if out.len() > spec.packet_bytes && next > first {
            out.truncate(before);
            break;
        }
        next += 1;
    }
    Ok(next)
}

fn names(spec: &Spec) -> Vec<String> {
    spec.table().columns().iter().map(|name| quoted(name)).collect()
}

/// What an INSERT begins with.
pub(super) fn insert_head(spec: &Spec) -> String {
    format!("INSERT INTO {} ({}) VALUES ", spec.into, names(spec).join(","))
}

/// What a statement begins with; of LOAD DATA, all of it.
pub(super) fn head(spec: &Spec) -> Vec<u8> {
    if spec.method != Method::LoadData {
        return insert_head(spec).into_bytes();
    }
    let names = names(spec);
    let (mut fields, mut set) = (names.clone(), Vec::new());
    for (place, expression) in spec.table().load_expressions().into_iter().enumerate() {
        if let Some(expression) = expression {
            fields[place] = format!("@c{}", place + 1);
            set.push(format!("{}={expression}", names[place]));
        }
    }
    let set = if set.is_empty() {
        String::new()
    } else {
        format!(" SET {}", set.join(","))
    };
    format!(
        "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {} CHARACTER SET utf8mb4 ({}){set}",
        spec.into,
        fields.join(",")
    )
    .into_bytes()
}

/// A name as SQL has it.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
