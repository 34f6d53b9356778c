//! What goes in and what comes out: the JSON of `flushlab.record.load`.

use std::fmt;
use std::time::Duration;

use flushlab_rows::distribution::Distribution;
use serde::{Deserialize, Serialize};

use crate::transaction::Commit;
use crate::workload::{Key, Kind, Upsert};
use crate::Error;

/// Most connections of one load.
const MAX_THREADS: u32 = 10_000;
/// Most tables of one load; sysbench has no limit, statement ids and patience do.
const MAX_TABLES: u32 = 100_000;
/// Largest value of the column `id`, an INTEGER.
const MAX_TABLE_SIZE: u32 = i32::MAX as u32;

/// Most rows of an `upsert` statement: under 2 MiB, where a server takes 4 MiB or more by default.
const MAX_ROWS: u32 = 10_000;
/// Most rows between two commits; what is not committed stays in the undo log.
const MAX_COMMIT_ROWS: u64 = 10_000_000;
/// Longest time between two commits in seconds.
const MAX_COMMIT_SECONDS: f64 = 3600.0;
/// Shortest time between two commits in seconds.
const MIN_COMMIT_SECONDS: f64 = 0.001;

/// Lowest intended rate per second: one in a quarter of an hour.
const MIN_RATE: f64 = 0.001;
/// Highest intended rate per second, far above what any server reaches.
const MAX_RATE: f64 = 10_000_000.0;

/// How to reach a server (`flushlab.record.Endpoint`).
#[derive(Clone, Deserialize)]
pub struct Endpoint {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) socket: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
}

impl fmt::Debug for Endpoint {
    /// Never shows the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("user", &self.user)
            .field("socket", &self.socket)
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// Where connections go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Socket(String),
    Tcp(String, u16),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => f.write_str(path),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    workload: String,
    endpoint: Endpoint,
    transport: String,
    database: String,
    threads: u32,
    tables: u32,
    table_size: u32,
    rand_type: String,
    #[serde(default)]
    rate: f64,
    seed: i64,
    ignored_errors: Vec<u16>,
    #[serde(default)]
    upsert: Option<JsonUpsert>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonUpsert {
    rows: u32,
    key: String,
    hit_ratio: f64,
    commit_rows: Option<u64>,
    commit_seconds: Option<f64>,
}

/// One load, checked (`flushlab.record.LoadSpec`).
#[derive(Debug, Clone)]
pub struct LoadSpec {
    pub(crate) workload: Kind,
    pub(crate) endpoint: Endpoint,
    pub(crate) address: Address,
    pub(crate) database: String,
    pub(crate) threads: u32,
    pub(crate) tables: u32,
    pub(crate) table_size: u32,
    pub(crate) distribution: Distribution,
    /// Time between the intended starts of two events; none in a closed loop.
    pub(crate) interval: Option<Duration>,
    pub(crate) commit: Commit,
    pub(crate) seed: u64,
    pub(crate) ignored_errors: Vec<u16>,
}

impl LoadSpec {
    /// Reads and checks the JSON of a `LoadSpec`.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`]; its message quotes no value that could be the password.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        let json: Json = serde_json::from_slice(json).map_err(|error| Error::usage(unreadable(&error)))?;
        let (workload, commit) = workload(&json.workload, json.upsert)?;
        let distribution = json.rand_type.parse().map_err(|()| {
            Error::usage(format!(
                "rand_type {:?} is not known; there are special and uniform",
                json.rand_type
            ))
        })?;
        within("threads", json.threads, MAX_THREADS)?;
        within("tables", json.tables, MAX_TABLES)?;
        within("table_size", json.table_size, MAX_TABLE_SIZE)?;
        if json.database.is_empty() || json.database.contains('\0') {
            return Err(Error::usage(format!(
                "database {:?} is no name of a database",
                json.database
            )));
        }
        Ok(Self {
            workload,
            address: address(&json.transport, &json.endpoint)?,
            endpoint: json.endpoint,
            database: json.database,
            threads: json.threads,
            tables: json.tables,
            table_size: json.table_size,
            distribution,
            interval: interval(json.rate)?.map(|interval| interval * workload.amount()),
            commit,
            seed: json.seed as u64,
            ignored_errors: json.ignored_errors,
        })
    }
}

/// What is wrong with a spec's JSON, without any value of it.
pub(crate) fn unreadable(error: &serde_json::Error) -> String {
    let text = error.to_string();
    // Only these quote names, never values.
    if text.starts_with("unknown field") || text.starts_with("missing field") {
        return format!("load spec: {text}");
    }
    let what = if error.is_data() {
        "a value of the wrong type"
    } else {
        "no valid JSON"
    };
    format!(
        "load spec: {what} (line {}, column {})",
        error.line(),
        error.column()
    )
}

fn workload(name: &str, upsert: Option<JsonUpsert>) -> Result<(Kind, Commit), Error> {
    match (name, upsert) {
        ("upsert", Some(options)) => {
            let commit = commit(&options)?;
            within("rows", options.rows, MAX_ROWS)?;
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
            let upsert = Upsert {
                rows: options.rows,
                key,
                hit_ratio: options.hit_ratio,
            };
            Ok((Kind::Upsert(upsert), commit))
        }
        ("upsert", None) => Err(Error::usage("workload upsert needs its options")),
        ("oltp_update_non_index", None) => Ok((Kind::UpdateNonIndex, Commit::Auto)),
        ("oltp_update_non_index", Some(_)) => Err(Error::usage(format!(
            "workload {name} takes no options of upsert"
        ))),
        _ => Err(Error::usage(format!(
            "workload {name:?} is not known; there are {}",
            Kind::NAMES.join(", ")
        ))),
    }
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

fn interval(rate: f64) -> Result<Option<Duration>, Error> {
    if rate == 0.0 {
        return Ok(None);
    }
    if (MIN_RATE..=MAX_RATE).contains(&rate) {
        return Ok(Some(Duration::from_secs_f64(1.0 / rate)));
    }
    Err(Error::usage(format!(
        "rate is {rate}; it must be 0 (no rate) or between {MIN_RATE} and {MAX_RATE} per second"
    )))
}

fn within(name: &str, value: u32, most: u32) -> Result<(), Error> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{name} is {value}; it must be between 1 and {most}"
    )))
}

pub(crate) fn address(transport: &str, endpoint: &Endpoint) -> Result<Address, Error> {
    match (transport, &endpoint.socket, &endpoint.host, endpoint.port) {
        ("socket", Some(path), _, _) => Ok(Address::Socket(path.clone())),
        ("socket", None, _, _) => Err(Error::usage(
            "transport is socket, but the endpoint has no socket",
        )),
        ("tcp", _, Some(host), Some(port)) => Ok(Address::Tcp(host.clone(), port)),
        ("tcp", ..) => Err(Error::usage(
            "transport is tcp, but the endpoint has no host and port",
        )),
        _ => Err(Error::usage(format!(
            "transport {transport:?} is not known; there are socket and tcp"
        ))),
    }
}

/// Latency of events in microseconds (`flushlab.record.Latency`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest.
    pub max: u64,
}

/// How often a server error came (`flushlab.record.ErrorCount`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// The server's error number.
    pub errno: u16,
    /// Its SQLSTATE.
    pub sqlstate: String,
    /// The first message seen.
    pub message: String,
    /// How often it came.
    pub count: u64,
}

/// A glance at a running load (`flushlab.record.LoadProgress`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadProgress {
    /// Seconds since start, up to the end if it has ended.
    pub elapsed_s: f64,
    /// Events completed since start.
    pub events: u64,
    /// What events of each whole second since start add to the figure, committed or not.
    pub per_second: Vec<u64>,
    /// Server errors since start.
    pub errors: u64,
    /// Why the load stopped by itself.
    pub failed: Option<String>,
}

/// What became of rows (`flushlab.record.RowCounts`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowCounts {
    /// Rows whose statement ended in the window and whose transaction was committed.
    pub committed: u64,
    /// Those among them that were there already.
    pub updated: u64,
    /// Rows whose statement ended in the window and whose transaction was rolled back.
    pub rolled_back: u64,
    /// Commits that ended in the window.
    pub commits: u64,
    /// Latency of these commits; none in autocommit, where it is part of the statement's.
    pub commit_latency_us: Option<Latency>,
}

/// Time of the statements of one kind (`flushlab.record.KindTime`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindTime {
    /// `CREATE TABLE`, `INSERT`, …
    pub kind: String,
    /// How many there were.
    pub count: u64,
    /// Time of all.
    pub seconds: f64,
    /// Time of the slowest.
    pub slowest_s: f64,
    /// Where the slowest begins in the script, from 1.
    pub slowest_line: u32,
}

/// What one measured window gave (`flushlab.record.LoadResult`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadResult {
    /// Length of the window.
    pub seconds: f64,
    /// Events that ended inside it.
    pub events: u64,
    /// Transactions or committed rows per second.
    pub throughput: f64,
    /// Transactions or committed rows of each whole second.
    pub per_second: Vec<u64>,
    /// Latency of these events; none if there were none.
    pub latency_us: Option<Latency>,
    /// Server errors inside the window, by errno.
    pub errors: Vec<ErrorCount>,
    /// User and system time of the load's threads per event.
    pub client_cpu_us_per_event: Option<f64>,
    /// What became of the rows, where rows are counted.
    pub rows: Option<RowCounts>,
    /// Time per kind of statement of a script, the most time first.
    pub kinds: Vec<KindTime>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind as ErrorKind;

    fn json(change: impl Fn(&mut serde_json::Value)) -> Vec<u8> {
        let mut value = serde_json::json!({
            "workload": "oltp_update_non_index",
            "endpoint": {"user": "u", "password": "hunter2", "socket": "/s", "host": null, "port": null,
                         "option_file": "/o"},
            "transport": "socket", "database": "sbtest", "threads": 1, "tables": 1, "table_size": 10000,
            "rand_type": "special", "seed": 1, "ignored_errors": [1213, 1020, 1205],
        });
        change(&mut value);
        serde_json::to_vec(&value).unwrap()
    }

    fn refusal(change: impl Fn(&mut serde_json::Value)) -> String {
        let error = LoadSpec::from_json(&json(change)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        error.message
    }

    #[test]
    fn a_spec_as_msgspec_writes_it_is_read() {
        let spec = LoadSpec::from_json(&json(|_| ())).unwrap();
        assert_eq!(spec.address, Address::Socket("/s".into()));
        assert_eq!(spec.ignored_errors, [1213, 1020, 1205]);
    }

    #[test]
    fn a_refusal_names_thing_value_and_rule() {
        assert_eq!(
            refusal(|v| v["threads"] = 0.into()),
            "threads is 0; it must be between 1 and 10000"
        );
        assert!(refusal(|v| v["workload"] = "tpcc".into()).contains("\"tpcc\" is not known"));
        assert!(refusal(|v| v["rand_type"] = "zipf".into()).contains("\"zipf\" is not known"));
        assert!(refusal(|v| v["transport"] = "tcp".into()).contains("no host and port"));
        assert!(refusal(|v| v["database"] = "".into()).contains("\"\""));
    }

    #[test]
    fn an_option_that_this_core_does_not_know_is_refused() {
        assert!(refusal(|v| v["profile"] = 5.into()).contains("unknown field `profile`"));
    }

    #[test]
    fn a_rate_is_optional_and_bounded() {
        let interval = |rate: f64| {
            LoadSpec::from_json(&json(|v| v["rate"] = rate.into()))
                .unwrap()
                .interval
        };
        assert_eq!(LoadSpec::from_json(&json(|_| ())).unwrap().interval, None);
        assert_eq!(interval(0.0), None);
        assert_eq!(interval(2000.0), Some(Duration::from_micros(500)));
        assert!(refusal(|v| v["rate"] = (-1).into()).contains("rate is -1"));
        assert!(refusal(|v| v["rate"] = 1e300.into()).contains("10000000"));
    }

    fn upsert(change: impl Fn(&mut serde_json::Value)) -> impl Fn(&mut serde_json::Value) {
        move |value| {
            value["workload"] = "upsert".into();
            value["upsert"] = serde_json::json!({
                "rows": 10, "key": "unique", "hit_ratio": 0.5, "commit_rows": null, "commit_seconds": null,
            });
            change(value);
        }
    }

    #[test]
    fn an_upsert_has_its_options_and_its_rate_counts_rows() {
        let spec = LoadSpec::from_json(&json(upsert(|value| {
            value["rate"] = 1000.into();
            value["upsert"]["commit_seconds"] = 1.into();
        })))
        .unwrap();
        let Kind::Upsert(options) = spec.workload else {
            panic!("an upsert was due")
        };
        assert_eq!(
            (options.rows, options.key, options.hit_ratio),
            (10, Key::Unique, 0.5)
        );
        assert_eq!(spec.commit, Commit::Every(Duration::from_secs(1)));
        assert_eq!(spec.interval, Some(Duration::from_millis(10)));
    }

    #[test]
    fn options_that_make_no_upsert_are_refused() {
        let refused = |change: fn(&mut serde_json::Value)| refusal(upsert(change));
        assert!(refused(|v| v["upsert"]["rows"] = 0.into()).contains("rows is 0"));
        assert!(refused(|v| v["upsert"]["rows"] = 10_001.into()).contains("between 1 and 10000"));
        assert!(refused(|v| v["upsert"]["hit_ratio"] = 1.5.into()).contains("hit_ratio is 1.5"));
        assert!(refused(|v| v["upsert"]["key"] = "foreign".into()).contains("\"foreign\" is not known"));
        assert!(refused(|v| v["upsert"]["commit_rows"] = 0.into()).contains("commit_rows is 0"));
        assert!(refused(|v| v["upsert"]["commit_seconds"] = 0.into()).contains("commit_seconds is 0"));
        assert!(refused(|v| v["upsert"] = serde_json::Value::Null).contains("needs its options"));
        let both = refused(|v| {
            v["upsert"]["commit_rows"] = 1.into();
            v["upsert"]["commit_seconds"] = 1.into();
        });
        assert!(both.contains("exclude each other"));
        assert!(refused(|v| v["workload"] = "oltp_update_non_index".into()).contains("no options of upsert"));
    }

    #[test]
    fn a_refusal_never_shows_the_password() {
        assert!(!refusal(|v| v["threads"] = "hunter2".into()).contains("hunter2"));
        assert!(!refusal(|v| v["endpoint"]["port"] = "hunter2".into()).contains("hunter2"));
        assert!(!format!("{:?}", LoadSpec::from_json(&json(|_| ())).unwrap()).contains("hunter2"));
    }
}
