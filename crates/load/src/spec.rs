//! What goes in and what comes out: the JSON of `flushlab.record.load`.

use std::fmt;
use std::time::Duration;

use flushlab_rows::distribution::Distribution;
use serde::{Deserialize, Serialize};

use crate::workload;
use crate::Error;

/// Most connections of one load.
const MAX_THREADS: u32 = 10_000;
/// Most tables of one load; sysbench has no limit, statement ids and patience do.
const MAX_TABLES: u32 = 100_000;
/// Largest value of the column `id`, an INTEGER.
const MAX_TABLE_SIZE: u32 = i32::MAX as u32;

/// Lowest intended rate in transactions/s: one in a quarter of an hour.
const MIN_RATE: f64 = 0.001;
/// Highest intended rate in transactions/s, far above what any server reaches.
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
}

/// One load, checked (`flushlab.record.LoadSpec`).
#[derive(Debug, Clone)]
pub struct LoadSpec {
    pub(crate) workload: workload::Kind,
    pub(crate) endpoint: Endpoint,
    pub(crate) address: Address,
    pub(crate) database: String,
    pub(crate) threads: u32,
    pub(crate) tables: u32,
    pub(crate) table_size: u32,
    pub(crate) distribution: Distribution,
    /// Time between the intended starts of two events; none in a closed loop.
    pub(crate) interval: Option<Duration>,
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
        let workload = workload::Kind::named(&json.workload).ok_or_else(|| {
            Error::usage(format!(
                "workload {:?} is not known; there is {}",
                json.workload,
                workload::names()
            ))
        })?;
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
            interval: interval(json.rate)?,
            seed: json.seed as u64,
            ignored_errors: json.ignored_errors,
        })
    }
}

/// What is wrong with a spec's JSON, without any value of it.
fn unreadable(error: &serde_json::Error) -> String {
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

fn interval(rate: f64) -> Result<Option<Duration>, Error> {
    if rate == 0.0 {
        return Ok(None);
    }
    if (MIN_RATE..=MAX_RATE).contains(&rate) {
        return Ok(Some(Duration::from_secs_f64(1.0 / rate)));
    }
    Err(Error::usage(format!(
        "rate is {rate}; it must be 0 (no rate) or between {MIN_RATE} and {MAX_RATE} transactions/s"
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

fn address(transport: &str, endpoint: &Endpoint) -> Result<Address, Error> {
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
    /// Events of each whole second since start.
    pub per_second: Vec<u64>,
    /// Server errors since start.
    pub errors: u64,
    /// Why the load stopped by itself.
    pub failed: Option<String>,
}

/// What one measured window gave (`flushlab.record.LoadResult`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadResult {
    /// Length of the window.
    pub seconds: f64,
    /// Events that ended inside it.
    pub events: u64,
    /// Events per second.
    pub throughput: f64,
    /// Events of each whole second.
    pub per_second: Vec<u64>,
    /// Latency of these events; none if there were none.
    pub latency_us: Option<Latency>,
    /// Server errors inside the window, by errno.
    pub errors: Vec<ErrorCount>,
    /// User and system time of the load's threads per event.
    pub client_cpu_us_per_event: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

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
        assert_eq!(error.kind, Kind::Usage);
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

    #[test]
    fn a_refusal_never_shows_the_password() {
        assert!(!refusal(|v| v["threads"] = "hunter2".into()).contains("hunter2"));
        assert!(!refusal(|v| v["endpoint"]["port"] = "hunter2".into()).contains("hunter2"));
        assert!(!format!("{:?}", LoadSpec::from_json(&json(|_| ())).unwrap()).contains("hunter2"));
    }
}
