//! sysbench 1.0.20's tables (src/lua/oltp_common.lua, `create_table`): made, and checked.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use flushlab_rows::shape::{write_c, write_pad, C_LENGTH, PAD_LENGTH};
use flushlab_rows::Random;

use crate::connection::Connection;
use crate::spec::LoadSpec;
use crate::{Cutoff, Error, Kind};

/// sysbench's BULK_PACKET_SIZE.
const BATCH_BYTES: usize = 512 << 10;

/// Longest row of an INSERT: `(2147483647, 'c', 'pad'),`.
const ROW_BYTES: usize = 10 + C_LENGTH + PAD_LENGTH + 12;

/// Tables are independent; two connections keep a small server busy.
const CONNECTIONS: u32 = 2;

const ER_BAD_DB: u16 = 1049;
const ER_NO_SUCH_TABLE: u16 = 1146;

/// Creates and fills the tables of `spec`, and its database if there is none. The same spec gives the
/// same rows. Firing `cutoff` ends it early with an error.
///
/// # Errors
/// What the server refuses; a table that exists is errno 1050.
pub fn prepare_tables(spec: &LoadSpec, cutoff: &Cutoff) -> Result<(), Error> {
    create_database(spec, cutoff)?;
    let next = AtomicU32::new(1);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS.min(spec.tables) {
            scope.spawn(|| {
                if let Err(error) = fill_tables(spec, &next, cutoff) {
                    // The first error counts: those behind it come from the cut.
                    failed
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .get_or_insert(error);
                    cutoff.fire();
                }
            });
        }
    });
    failed
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .map_or(Ok(()), Err)
}

fn create_database(spec: &LoadSpec, cutoff: &Cutoff) -> Result<(), Error> {
    let quoted = format!("`{}`", spec.database.replace('`', "``"));
    let mut connection = Connection::open(&spec.endpoint, &spec.address, None, cutoff)?;
    match connection.query(&format!("USE {quoted}")) {
        Err(Error {
            errno: Some(ER_BAD_DB),
            ..
        }) => connection.query(&format!("CREATE DATABASE {quoted}"))?,
        other => other?,
    };
    Ok(())
}

fn fill_tables(spec: &LoadSpec, next: &AtomicU32, cutoff: &Cutoff) -> Result<(), Error> {
    let mut connection = Connection::open(&spec.endpoint, &spec.address, Some(&spec.database), cutoff)?;
    let most = connection.rows("SELECT @@max_allowed_packet")?;
    let most = number(&most)
        .and_then(|most| usize::try_from(most).ok())
        .unwrap_or(BATCH_BYTES);
    let batch_bytes = BATCH_BYTES.min(most);
    loop {
        let table = next.fetch_add(1, Ordering::Relaxed);
        if table > spec.tables || cutoff.fired() {
            return Ok(());
        }
        fill_table(&mut connection, spec, table, batch_bytes)
            .map_err(|error| error.during(format_args!("preparing {}.sbtest{table}", spec.database)))?;
    }
}

fn fill_table(
    connection: &mut Connection,
    spec: &LoadSpec,
    table: u32,
    batch_bytes: usize,
) -> Result<(), Error> {
    connection.query(&create_statement(table))?;
    let mut random = Random::new(spec.seed.wrapping_add(u64::from(table)));
    let head = format!("INSERT INTO sbtest{table}(k, c, pad) VALUES");
    let mut sql = Vec::with_capacity(batch_bytes);
    let (mut c, mut pad) = ([0; C_LENGTH], [0; PAD_LENGTH]);
    let mut left = spec.table_size;
    while left > 0 {
        sql.clear();
        sql.extend_from_slice(head.as_bytes());
        loop {
            write_c(&mut c, &mut random);
            write_pad(&mut pad, &mut random);
            let k = spec.distribution.draw(&mut random, 1, spec.table_size);
            write!(sql, "({k}, '").expect("a Vec takes everything");
            sql.extend_from_slice(&c);
            sql.extend_from_slice(b"', '");
            sql.extend_from_slice(&pad);
            sql.extend_from_slice(b"')");
            left -= 1;
            if left == 0 || sql.len() + ROW_BYTES >= batch_bytes {
                break;
            }
            sql.push(b',');
        }
        connection.query_bytes(&sql)?;
    }
    connection.query(&format!("CREATE INDEX k_{table} ON sbtest{table}(k)"))?;
    Ok(())
}

/// The statement as sysbench words it, comment included.
fn create_statement(table: u32) -> String {
    format!(
        "CREATE TABLE sbtest{table}(\n  id INTEGER NOT NULL AUTO_INCREMENT,\n  \
         k INTEGER DEFAULT '0' NOT NULL,\n  c CHAR(120) DEFAULT '' NOT NULL,\n  \
         pad CHAR(60) DEFAULT '' NOT NULL,\n  PRIMARY KEY (id)\n) /*! ENGINE = innodb */ "
    )
}

fn number(rows: &[Vec<Option<String>>]) -> Option<u64> {
    rows.first()?.first()?.as_deref()?.parse().ok()
}

/// Refuses tables that a load of `spec` would not measure: absent, of another shape, or with fewer
/// ids than it draws (updates that match no row cost nothing and mean nothing).
pub(crate) fn check_tables(connection: &mut Connection, spec: &LoadSpec) -> Result<(), Error> {
    for table in 1..=spec.tables {
        let name = format!("{}.sbtest{table}", spec.database);
        let columns = match connection.rows(&format!("SHOW COLUMNS FROM sbtest{table}")) {
            Err(error) if error.errno == Some(ER_NO_SUCH_TABLE) => {
                return Err(Error {
                    kind: Kind::Measurement,
                    message: format!(
                        "table {name} does not exist; the load needs sbtest1 to sbtest{}, prepared",
                        spec.tables
                    ),
                    ..error
                })
            }
            other => other?,
        };
        check_shape(&name, &columns)?;
        let largest = number(&connection.rows(&format!("SELECT MAX(id) FROM sbtest{table}"))?).unwrap_or(0);
        if largest < u64::from(spec.table_size) {
            return Err(Error::new(
                Kind::Measurement,
                format!("table {name} has ids up to {largest}; a table_size of {} draws ids that it does not have", spec.table_size),
            ));
        }
    }
    Ok(())
}

fn check_shape(name: &str, columns: &[Vec<Option<String>>]) -> Result<(), Error> {
    // MySQL 5.7 and MariaDB print a display width that MySQL 8.0.19 dropped: int(11), int.
    const SHAPE: [(&str, &str); 4] = [
        ("id", "int"),
        ("k", "int"),
        ("c", "char(120)"),
        ("pad", "char(60)"),
    ];
    for (column, due) in SHAPE {
        let found = columns
            .iter()
            .find(|row| matches!(row.first(), Some(Some(field)) if field == column))
            .and_then(|row| row.get(1)?.as_deref());
        let fits = found.is_some_and(|found| match due {
            "int" => found == "int" || found.starts_with("int("),
            _ => found == due,
        });
        if !fits {
            let found = found.unwrap_or("absent");
            return Err(Error::new(
                Kind::Measurement,
                format!("table {name} is not sysbench's: column {column} is {found}, {due} was due"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(types: [&str; 4]) -> Vec<Vec<Option<String>>> {
        ["id", "k", "c", "pad"]
            .iter()
            .zip(types)
            .map(|(name, kind)| {
                vec![
                    Some((*name).to_owned()),
                    Some(kind.to_owned()),
                    Some("NO".to_owned()),
                ]
            })
            .collect()
    }

    #[test]
    fn the_shapes_that_servers_print_for_sysbenchs_table_are_accepted() {
        for int in ["int(11)", "int"] {
            assert_eq!(
                check_shape("t", &columns([int, int, "char(120)", "char(60)"])),
                Ok(())
            );
        }
    }

    #[test]
    fn another_shape_is_named() {
        let error =
            check_shape("a.sbtest1", &columns(["int", "int", "varchar(120)", "char(60)"])).unwrap_err();
        assert_eq!(
            error.message,
            "table a.sbtest1 is not sysbench's: column c is varchar(120), char(120) was due"
        );
        let error = check_shape(
            "a.sbtest1",
            &columns(["int", "int", "char(120)", "char(60)"])[..3],
        )
        .unwrap_err();
        assert!(error.message.ends_with("column pad is absent, char(60) was due"));
        assert!(check_shape("t", &columns(["integer", "int", "char(120)", "char(60)"])).is_err());
    }

    #[test]
    fn the_table_is_created_as_sysbench_words_it() {
        assert!(
            create_statement(3).starts_with("CREATE TABLE sbtest3(\n  id INTEGER NOT NULL AUTO_INCREMENT,\n")
        );
        assert!(create_statement(3).contains("/*! ENGINE = innodb */"));
    }
}
