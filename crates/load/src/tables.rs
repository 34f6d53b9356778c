//! The tables of a load: made, and checked.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::connection::Connection;
use crate::layout::{Layout, ROW_BYTES};
use crate::spec::LoadSpec;
use crate::streams::Stream;
use crate::{Cancellation, Error, ErrorKind};

/// sysbench's BULK_PACKET_SIZE.
const BATCH_BYTES: usize = 512 << 10;

/// Tables are independent; two connections keep a small server busy.
const CONNECTIONS: u32 = 2;

const ER_BAD_DB: u16 = 1049;
const ER_NO_SUCH_TABLE: u16 = 1146;

/// Creates and fills the tables of `spec`, and its database if there is none. The same spec gives the
/// same rows. Firing `cancellation` ends it early with an error.
///
/// # Errors
/// What the server refuses; a table that exists is errno 1050.
pub fn prepare_tables(spec: &LoadSpec, cancellation: &Cancellation) -> Result<(), Error> {
    create_database(spec, cancellation)?;
    let next = AtomicU32::new(1);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS.min(spec.tables.count) {
            scope.spawn(|| {
                if let Err(error) = fill_tables(spec, &next, cancellation) {
                    // The first error counts: those behind it come from the cut.
                    failed.lock().get_or_insert(error);
                    cancellation.cancel();
                }
            });
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

fn create_database(spec: &LoadSpec, cancellation: &Cancellation) -> Result<(), Error> {
    let quoted = format!("`{}`", spec.database.replace('`', "``"));
    let mut connection = spec.nodes.connect(0, None, cancellation)?;
    match connection.query(&format!("USE {quoted}")) {
        Err(Error {
            errno: Some(ER_BAD_DB),
            ..
        }) => connection.query(&format!("CREATE DATABASE {quoted}"))?,
        other => other?,
    };
    Ok(())
}

fn fill_tables(spec: &LoadSpec, next: &AtomicU32, cancellation: &Cancellation) -> Result<(), Error> {
    let mut connection = spec.nodes.connect(0, Some(&spec.database), cancellation)?;
    let most = connection.rows("SELECT @@max_allowed_packet")?;
    let most = number(&most)
        .and_then(|most| usize::try_from(most).ok())
        .unwrap_or(BATCH_BYTES);
    let batch_bytes = BATCH_BYTES.min(most);
    loop {
        let table = next.fetch_add(1, Ordering::Relaxed);
        if table > spec.tables.count || cancellation.is_cancelled() {
            return Ok(());
        }
        let Some(layout) = spec.workload.layout() else {
            return Ok(());
        };
        fill_table(&mut connection, spec, layout, table, batch_bytes).map_err(|error| {
            error.during(format_args!("preparing {}.{}", spec.database, layout.name(table)))
        })?;
    }
}

fn fill_table(
    connection: &mut Connection,
    spec: &LoadSpec,
    layout: Layout,
    table: u32,
    batch_bytes: usize,
) -> Result<(), Error> {
    connection.query(&layout.create(table, &spec.mark))?;
    let mut random = Stream::Table(table).random(spec.seed);
    let head = format!("INSERT INTO {}({}) VALUES", layout.name(table), layout.inserted());
    let rows = layout.rows(spec.tables.size);
    let mut sql = Vec::with_capacity(batch_bytes);
    let mut number = 0;
    while number < rows {
        sql.clear();
        sql.extend_from_slice(head.as_bytes());
        loop {
            number += 1;
            layout.put_row(&mut sql, number, &spec.tables, &mut random);
            if number == rows || sql.len() + ROW_BYTES >= batch_bytes {
                break;
            }
            sql.push(b',');
        }
        connection.query_bytes(&sql)?;
    }
    if let Some(index) = layout.index(table) {
        connection.query(&index)?;
    }
    Ok(())
}

fn number(rows: &[Vec<Option<String>>]) -> Option<u64> {
    rows.first()?.first()?.as_deref()?.parse().ok()
}

/// Refuses tables that a load of `spec` would not measure: absent, of another shape, or with fewer
/// keys than it draws (updates that match no row cost nothing and mean nothing). The largest key of
/// each.
pub(crate) fn check_tables(connection: &mut Connection, spec: &LoadSpec) -> Result<Vec<u64>, Error> {
    let Some(layout) = spec.workload.layout() else {
        return Ok(Vec::new());
    };
    let key = layout.key();
    let mut largest_keys = Vec::with_capacity(spec.tables.count as usize);
    for number_of_table in 1..=spec.tables.count {
        let table = layout.name(number_of_table);
        let name = format!("{}.{table}", spec.database);
        let columns = match connection.rows(&format!("SHOW COLUMNS FROM {table}")) {
            Err(error) if error.errno == Some(ER_NO_SUCH_TABLE) => {
                return Err(Error {
                    kind: ErrorKind::Measurement,
                    message: format!(
                        "table {name} does not exist; the load needs {} to {}, prepared",
                        layout.name(1),
                        layout.name(spec.tables.count)
                    ),
                    ..error
                })
            }
            other => other?,
        };
        check_shape(&name, &columns, layout)?;
        let largest = number(&connection.rows(&format!("SELECT MAX({key}) FROM {table}"))?).unwrap_or(0);
        if layout.draws_keys() && largest < u64::from(spec.tables.size) {
            return Err(Error::new(
                ErrorKind::Measurement,
                format!(
                    "table {name} has {key}s up to {largest}; a table_size of {} draws {key}s that it does not \
                     have: make table_size smaller, or prepare the tables anew",
                    spec.tables.size
                ),
            ));
        }
        largest_keys.push(largest);
    }
    Ok(largest_keys)
}

/// What `SHOW COLUMNS` says of one column.
struct Column<'a> {
    kind: &'a str,
    key: &'a str,
    extra: &'a str,
}

impl<'a> Column<'a> {
    fn find(columns: &'a [Vec<Option<String>>], name: &str) -> Option<Self> {
        let row = columns
            .iter()
            .find(|row| row.first().and_then(Option::as_deref) == Some(name))?;
        let text = |place: usize| row.get(place).and_then(Option::as_deref).unwrap_or_default();
        Some(Self {
            kind: text(1),
            key: text(3),
            extra: text(5),
        })
    }

    /// MySQL 5.7 and MariaDB print a display width that MySQL 8.0.19 dropped: int(11), int.
    fn is(&self, due: &str) -> bool {
        self.kind == due
            || (due.ends_with("int") && self.kind.starts_with(due) && self.kind[due.len()..].starts_with('('))
    }
}

fn check_shape(name: &str, columns: &[Vec<Option<String>>], layout: Layout) -> Result<(), Error> {
    let whose = match layout {
        Layout::Sbtest(_) => "sysbench",
        Layout::Upsert(_) => "upsert",
    };
    let refused = |what: String| Err(Error::new(ErrorKind::Measurement, what));
    for &(column, due) in layout.columns() {
        let found = Column::find(columns, column);
        if !found.as_ref().is_some_and(|found| found.is(due)) {
            let found = found.map_or("absent", |found| found.kind);
            return refused(format!(
                "table {name} is not {whose}'s: column {column} is {found}, {due} was due"
            ));
        }
    }
    let key = layout.key();
    let found = Column::find(columns, key).expect("it was found above");
    if layout.draws_keys() && found.key.is_empty() {
        return refused(format!(
            "table {name} has no index on {key}: every statement would read the whole table"
        ));
    }
    if layout.numbers_rows() && !found.extra.contains("auto_increment") {
        return refused(format!(
            "table {name} does not number its rows: column {key} has no AUTO_INCREMENT, which auto_inc = on \
             needs; ask for auto_inc = off, or prepare the tables anew"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Sbtest;

    fn columns(types: [&str; 4]) -> Vec<Vec<Option<String>>> {
        ["id", "k", "c", "pad"]
            .iter()
            .zip(types)
            .map(|(name, kind)| {
                let key = if *name == "id" { "PRI" } else { "" };
                let texts = [*name, kind, "NO", key, "", "auto_increment"];
                texts.map(|text| Some(text.to_owned())).to_vec()
            })
            .collect()
    }

    #[test]
    fn the_shapes_that_servers_print_for_sysbenchs_table_are_accepted() {
        for int in ["int(11)", "int"] {
            assert_eq!(
                check_shape(
                    "t",
                    &columns([int, int, "char(120)", "char(60)"]),
                    Layout::Sbtest(Sbtest::default())
                ),
                Ok(())
            );
        }
    }

    #[test]
    fn another_shape_is_named() {
        let error = check_shape(
            "a.sbtest1",
            &columns(["int", "int", "varchar(120)", "char(60)"]),
            Layout::Sbtest(Sbtest::default()),
        )
        .unwrap_err();
        assert_eq!(
            error.message,
            "table a.sbtest1 is not sysbench's: column c is varchar(120), char(120) was due"
        );
        let error = check_shape(
            "a.sbtest1",
            &columns(["int", "int", "char(120)", "char(60)"])[..3],
            Layout::Sbtest(Sbtest::default()),
        )
        .unwrap_err();
        assert!(error.message.ends_with("column pad is absent, char(60) was due"));
        assert!(check_shape(
            "t",
            &columns(["integer", "int", "char(120)", "char(60)"]),
            Layout::Sbtest(Sbtest::default())
        )
        .is_err());
    }

    #[test]
    fn a_table_without_an_index_on_its_ids_is_refused() {
        let mut columns = columns(["int", "int", "char(120)", "char(60)"]);
        columns[0][3] = Some(String::new());
        let error = check_shape("t", &columns, Layout::Sbtest(Sbtest::default())).unwrap_err();
        assert!(error.message.contains("no index on id"), "{}", error.message);
        let inserts = Sbtest {
            inserts: true,
            ..Sbtest::default()
        };
        assert_eq!(check_shape("t", &columns, Layout::Sbtest(inserts)), Ok(()));
    }

    #[test]
    fn a_load_that_leaves_ids_to_the_server_needs_a_table_that_makes_them() {
        let mut columns = columns(["int", "int", "char(120)", "char(60)"]);
        columns[0][5] = Some(String::new());
        let of = |auto_inc| {
            Layout::Sbtest(Sbtest {
                inserts: true,
                auto_inc,
                ..Sbtest::default()
            })
        };
        let error = check_shape("t", &columns, of(true)).unwrap_err();
        assert!(error.message.contains("no AUTO_INCREMENT"), "{}", error.message);
        assert_eq!(check_shape("t", &columns, of(false)), Ok(()));
        assert_eq!(
            check_shape("t", &columns, Layout::Sbtest(Sbtest::default())),
            Ok(())
        );
    }
}
