//! The workload's part of a load's JSON (`flushlab.record.LoadSpec`), read and checked.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use super::kind::WorkloadKind;
use super::oltp::{Counts, Oltp};
use super::rand_json::within;
use super::txn_json::{self, JsonTxn};
use super::upsert::Upsert;
use crate::layout::{Key, Sbtest};
use crate::transaction::Commit;
use crate::Error;

/// Most rows of an `upsert` statement: under 2 MiB, where a server takes 4 MiB or more by default.
const MAX_ROWS: u32 = 10_000;
/// Most rows between two commits; what is not committed stays in the undo log.
const MAX_COMMIT_ROWS: u64 = 10_000_000;
/// Longest time between two commits in seconds.
const MAX_COMMIT_SECONDS: f64 = 3600.0;
/// Shortest time between two commits in seconds.
const MIN_COMMIT_SECONDS: f64 = 0.001;
/// Most statements of one group of an OLTP event.
const MAX_STATEMENTS: u32 = 10_000;
/// Most rows of a range.
const MAX_RANGE: u32 = 1_000_000;

/// `flushlab.record.OltpSpec`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonOltp {
    point_selects: u32,
    simple_ranges: u32,
    sum_ranges: u32,
    order_ranges: u32,
    distinct_ranges: u32,
    index_updates: u32,
    non_index_updates: u32,
    delete_inserts: u32,
    range_size: u32,
    range_selects: bool,
    skip_trx: bool,
    auto_inc: bool,
    secondary: bool,
    create_secondary: bool,
}

impl Default for JsonOltp {
    /// sysbench's.
    fn default() -> Self {
        Self {
            point_selects: 10,
            simple_ranges: 1,
            sum_ranges: 1,
            order_ranges: 1,
            distinct_ranges: 1,
            index_updates: 1,
            non_index_updates: 1,
            delete_inserts: 1,
            range_size: 100,
            range_selects: true,
            skip_trx: false,
            auto_inc: true,
            secondary: false,
            create_secondary: true,
        }
    }
}

/// `flushlab.record.UpsertSpec`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonUpsert {
    rows: u32,
    key: String,
    hit_ratio: f64,
    commit_rows: Option<u64>,
    commit_seconds: Option<f64>,
}

/// The options of workloads; those of one at most.
pub(crate) struct Asked {
    pub upsert: Option<JsonUpsert>,
    pub oltp: Option<JsonOltp>,
    pub txn: Option<JsonTxn>,
}

/// The workload of that name with its options, and when its connections commit.
pub(crate) fn kind(name: &str, asked: Asked) -> Result<(WorkloadKind, Commit), Error> {
    let Asked { upsert, oltp, txn } = asked;
    let is_oltp = Oltp::NAMES.contains(&name);
    if oltp.is_some() && !is_oltp {
        return Err(Error::usage(format!("workload {name} takes no options of OLTP")));
    }
    if upsert.is_some() && name != "upsert" {
        return Err(Error::usage(format!(
            "workload {name} takes no options of upsert"
        )));
    }
    match (name, txn) {
        ("txn", Some(json)) => return Ok((WorkloadKind::Txn(Arc::new(txn_json::txn(json)?)), Commit::Auto)),
        ("txn", None) => return Err(Error::usage("workload txn needs its transactions")),
        (_, Some(_)) => return Err(Error::usage(format!("workload {name} takes no transactions"))),
        (_, None) => (),
    }
    match (name, upsert) {
        ("upsert", Some(options)) => {
            let commit = commit(&options)?;
            Ok((
                WorkloadKind::Upsert(self::upsert(&options, commit == Commit::Auto)?),
                commit,
            ))
        }
        ("acked_inserts", None) => Ok((WorkloadKind::AckedInserts, Commit::Auto)),
        ("upsert", None) => Err(Error::usage("workload upsert needs its options")),
        _ if is_oltp => Ok((
            WorkloadKind::Oltp(self::oltp(name, oltp.unwrap_or_default())?),
            Commit::Auto,
        )),
        _ => Err(Error::usage(format!(
            "workload {name:?} is not known; there are {}, upsert, txn and acked_inserts",
            Oltp::NAMES.join(", ")
        ))),
    }
}

fn oltp(name: &str, options: JsonOltp) -> Result<Oltp, Error> {
    let ranges = |name, count| counted(name, if options.range_selects { count } else { 0 });
    let counts = Counts {
        point_selects: counted("point_selects", options.point_selects)?,
        simple_ranges: ranges("simple_ranges", options.simple_ranges)?,
        sum_ranges: ranges("sum_ranges", options.sum_ranges)?,
        order_ranges: ranges("order_ranges", options.order_ranges)?,
        distinct_ranges: ranges("distinct_ranges", options.distinct_ranges)?,
        index_updates: counted("index_updates", options.index_updates)?,
        non_index_updates: counted("non_index_updates", options.non_index_updates)?,
        delete_inserts: counted("delete_inserts", options.delete_inserts)?,
        skip_trx: options.skip_trx,
    };
    within("range_size", options.range_size, 1, MAX_RANGE)?;
    let table = Sbtest {
        auto_inc: options.auto_inc,
        secondary: options.secondary,
        create_secondary: options.create_secondary,
        // sysbench leaves the tables empty where prepared ids could be those that the client makes later.
        filled: name != "oltp_insert" || options.auto_inc,
        inserts: name == "oltp_insert",
    };
    let oltp =
        Oltp::new(name, counts, options.range_size, table, clock()).expect("the name is one of its names");
    if oltp.is_empty() {
        return Err(Error::usage(format!(
            "an event of {name} with these options has no statement"
        )));
    }
    Ok(oltp)
}

/// Where ids begin that the client makes: not where those of an earlier run on the same tables began.
fn clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

fn counted(name: &str, count: u32) -> Result<u32, Error> {
    within(name, count, 0, MAX_STATEMENTS)?;
    Ok(count)
}

fn upsert(options: &JsonUpsert, autocommit: bool) -> Result<Upsert, Error> {
    within("rows", options.rows, 1, MAX_ROWS)?;
    if !(0.0..=1.0).contains(&options.hit_ratio) {
        return Err(Error::usage(format!(
            "hit_ratio is {}; it must be between 0 and 1",
            options.hit_ratio
        )));
    }
    let key = match options.key.as_str() {
        "unique" => Key::Unique,
        "primary" => Key::Primary,
        other => {
            return Err(Error::usage(format!(
                "key {other:?} is not known; there are unique and primary"
            )))
        }
    };
    Ok(Upsert {
        rows: options.rows,
        key,
        hit_ratio: options.hit_ratio,
        autocommit,
    })
}

fn commit(options: &JsonUpsert) -> Result<Commit, Error> {
    match (options.commit_rows, options.commit_seconds) {
        (None, None) => Ok(Commit::Auto),
        (Some(rows), None) if (1..=MAX_COMMIT_ROWS).contains(&rows) => Ok(Commit::Rows(rows)),
        (None, Some(seconds)) if (MIN_COMMIT_SECONDS..=MAX_COMMIT_SECONDS).contains(&seconds) => {
            Ok(Commit::Every(Duration::from_secs_f64(seconds)))
        }
        (Some(_), Some(_)) => Err(Error::usage("commit_rows and commit_seconds exclude each other")),
        (Some(rows), None) => Err(Error::usage(format!(
            "commit_rows is {rows}; it must be between 1 and {MAX_COMMIT_ROWS}"
        ))),
        (None, Some(seconds)) => Err(Error::usage(format!(
            "commit_seconds is {seconds}; it must be between {MIN_COMMIT_SECONDS} and {MAX_COMMIT_SECONDS}"
        ))),
    }
}
