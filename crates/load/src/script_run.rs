//! A script's statements, one after the other on one connection, timed by kind.

use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::address::{Address, Transport};
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::result::{KindTime, LoadResult};
use crate::script::{excerpt, kind, Statement};
use crate::spec::{disabled, unreadable};
use crate::usage::{Thread, Usage};
use crate::{Cancellation, Error, ErrorKind};

/// Longest time that a script may be given.
const MAX_LIMIT_SECONDS: f64 = 7.0 * 86_400.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptJson {
    endpoint: Endpoint,
    transport: String,
    #[serde(default = "disabled")]
    ssl_mode: String,
    #[serde(default)]
    ssl_ca: String,
    database: String,
    limit_s: f64,
}

/// Where and how long a script runs (`flushlab.record.ScriptSpec`).
#[derive(Debug, Clone)]
pub struct ScriptSpec {
    endpoint: Endpoint,
    address: Address,
    database: String,
    limit: Duration,
}

impl ScriptSpec {
    /// Reads and checks the JSON of a `ScriptSpec`.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`]; its message quotes no value that could be the password.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        let json: ScriptJson =
            serde_json::from_slice(json).map_err(|error| Error::usage(unreadable(&error)))?;
        if !(json.limit_s > 0.0 && json.limit_s <= MAX_LIMIT_SECONDS) {
            return Err(Error::usage(format!(
                "limit_s is {}; it must be above 0 and at most {MAX_LIMIT_SECONDS}",
                json.limit_s
            )));
        }
        let transport = Transport {
            transport: &json.transport,
            ssl_mode: &json.ssl_mode,
            ssl_ca: &json.ssl_ca,
        };
        Ok(Self {
            address: Address::of(&json.endpoint, transport)?,
            endpoint: json.endpoint,
            database: json.database,
            limit: Duration::from_secs_f64(json.limit_s),
        })
    }
}

/// Runs statements in their order on one connection, in the text protocol, and drops their rows. The
/// time begins with the first and ends with the answer to the last; connecting is no part of it.
/// Firing `cancellation` ends it early with an error.
///
/// # Errors
/// [`ErrorKind::Server`] with the line and the beginning of the statement that the server refused;
/// [`ErrorKind::Measurement`] if the script does not end within its limit.
pub fn run_script(
    spec: &ScriptSpec,
    statements: &[Statement<'_>],
    cancellation: &Cancellation,
) -> Result<LoadResult, Error> {
    let mut connection = Connection::open(&spec.endpoint, &spec.address, Some(&spec.database), cancellation)?;
    let (mut kinds, kind_of) = kinds_of(statements);
    let before = usage();
    let start = Instant::now();
    let mut begun = start;
    for (statement, kind) in statements.iter().zip(kind_of) {
        let left = spec
            .limit
            .checked_sub(begun - start)
            .filter(|left| !left.is_zero());
        let out_of_time = |error| out_of_time(spec.limit, statement, error);
        connection.allow(left.ok_or_else(|| out_of_time(None))?)?;
        connection.query_bytes(statement.sql).map_err(|error| {
            if error.errno.is_none() && !cancellation.is_cancelled() && start.elapsed() >= spec.limit {
                return out_of_time(Some(error));
            }
            error.during(format_args!(
                "line {}: {}",
                statement.line,
                excerpt(statement.sql)
            ))
        })?;
        let ended = Instant::now();
        add(&mut kinds[kind], statement, ended - begun);
        begun = ended;
    }
    let (seconds, events) = ((begun - start).as_secs_f64(), statements.len() as u64);
    let after = usage();
    let cpu = after.cpu.saturating_sub(before.cpu);
    kinds.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    Ok(LoadResult {
        seconds,
        events,
        throughput: events as f64 / seconds.max(f64::MIN_POSITIVE),
        // Statements of a script are not alike: percentiles and rates over them would say nothing.
        per_second: Vec::new(),
        latency_us: None,
        errors: Vec::new(),
        statements: Vec::new(),
        transactions: Vec::new(),
        commits: 0,
        client_cpu_us_per_event: (events > 0).then(|| cpu.as_secs_f64() * 1e6 / events as f64),
        client: after.cost_since(&before, events),
        client_busy: None,
        client_bound: false,
        stalls: Vec::new(),
        open_loop: None,
        failed: None,
        capped: 0,
        lost_connections: 0,
        rows: None,
        kinds,
        unwritten: None,
    })
}

/// What the calling thread has taken.
fn usage() -> Usage {
    let thread = Thread::current();
    Usage {
        cpu: thread.cpu(),
        accounts: thread.accounts(),
        waits: (0, 0),
    }
}

fn out_of_time(limit: Duration, statement: &Statement<'_>, error: Option<Error>) -> Error {
    let doing = if error.is_some() { "in" } else { "before" };
    Error::new(
        ErrorKind::Measurement,
        format!(
            "line {}: {}: the script did not end within {} s; it was {doing} this statement",
            statement.line,
            excerpt(statement.sql),
            limit.as_secs_f64()
        ),
    )
}

/// All kinds, with no time yet, and which of them each statement is.
fn kinds_of(statements: &[Statement<'_>]) -> (Vec<KindTime>, Vec<usize>) {
    let mut kinds: Vec<KindTime> = Vec::new();
    let kind_of = statements.iter().map(|statement| {
        let kind = kind(statement.sql);
        kinds
            .iter()
            .position(|known| known.kind == kind)
            .unwrap_or_else(|| {
                kinds.push(KindTime {
                    kind,
                    count: 0,
                    seconds: 0.0,
                    slowest_s: 0.0,
                    slowest_line: statement.line,
                });
                kinds.len() - 1
            })
    });
    let kind_of = kind_of.collect();
    (kinds, kind_of)
}

fn add(kind: &mut KindTime, statement: &Statement<'_>, took: Duration) {
    let seconds = took.as_secs_f64();
    kind.count += 1;
    kind.seconds += seconds;
    if seconds > kind.slowest_s {
        (kind.slowest_s, kind.slowest_line) = (seconds, statement.line);
    }
}
