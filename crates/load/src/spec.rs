//! What goes in: the JSON of `flushlab.record.load`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::address::{Address, Transport};
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::layout::TableSet;
use crate::policy::Policy;
use crate::schedule::Plan;
use crate::seconds::SecondFiles;
use crate::share::Share;
use crate::transaction::Commit;
use crate::workload::{kind, within, Acks, Asked, JsonOltp, JsonRand, JsonTxn, JsonUpsert, WorkloadKind};
use crate::{Cancellation, Error};

/// Most connections of one load.
const MAX_THREADS: u32 = 10_000;
/// Most tables of one load; sysbench has no limit, statement ids and patience do.
const MAX_TABLES: u32 = 100_000;
/// Largest value of the column `id`, an INTEGER.
const MAX_TABLE_SIZE: u32 = i32::MAX as u32;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecJson {
    workload: String,
    endpoint: Endpoint,
    #[serde(default)]
    peers: Vec<Endpoint>,
    #[serde(default = "one")]
    cluster_load: String,
    transport: String,
    #[serde(default = "disabled")]
    ssl_mode: String,
    #[serde(default)]
    ssl_ca: String,
    database: String,
    threads: u32,
    #[serde(default)]
    share: Option<Share>,
    tables: u32,
    table_size: u32,
    rand_type: String,
    #[serde(default)]
    rate: f64,
    #[serde(default = "constant")]
    rate_kind: String,
    #[serde(default)]
    profile: String,
    #[serde(default = "batch")]
    client_sched: String,
    #[serde(default)]
    reconnect: bool,
    #[serde(default)]
    hdr_log: PathBuf,
    #[serde(default)]
    per_second: PathBuf,
    seed: i64,
    ignored_errors: Vec<u16>,
    #[serde(default)]
    rand: JsonRand,
    #[serde(default)]
    upsert: Option<JsonUpsert>,
    #[serde(default)]
    oltp: Option<JsonOltp>,
    #[serde(default)]
    txn: Option<JsonTxn>,
    #[serde(default)]
    acks: Option<Acks>,
    #[serde(default)]
    mark: String,
}

fn one() -> String {
    "one".into()
}

fn constant() -> String {
    "constant".into()
}

fn batch() -> String {
    "batch".into()
}

/// The `ssl_mode` where none is asked for.
pub(crate) fn disabled() -> String {
    "disabled".to_owned()
}

/// Where a load's connections go: one server, or the nodes of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Nodes {
    /// In order of preference; never empty.
    targets: Vec<(Endpoint, Address)>,
    /// Connections go to one after the other, not to the first that takes them.
    pub spread: bool,
}

impl Nodes {
    fn of(
        first: Endpoint,
        peers: Vec<Endpoint>,
        load: &str,
        transport: Transport<'_>,
    ) -> Result<Self, Error> {
        let spread = match (load, peers.is_empty()) {
            ("one", true) | ("failover", _) => false,
            ("spread", _) => true,
            ("one", false) => return Err(Error::usage("cluster_load is one, but there are peers")),
            _ => {
                return Err(Error::usage(format!(
                    "cluster_load {load:?} is not known; there are one, spread and failover"
                )));
            }
        };
        let targets = std::iter::once(first).chain(peers).map(|endpoint| {
            let address = Address::of(&endpoint, transport)?;
            Ok((endpoint, address))
        });
        Ok(Self {
            targets: targets.collect::<Result<_, Error>>()?,
            spread,
        })
    }

    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// A connection to the node of that number, from 0.
    pub fn connect(
        &self,
        number: usize,
        database: Option<&str>,
        cancellation: &Cancellation,
    ) -> Result<Connection, Error> {
        self.connect_within(Duration::MAX, number, database, cancellation)
    }

    /// The same within `limit`, if the endpoint allows longer.
    pub fn connect_within(
        &self,
        limit: Duration,
        number: usize,
        database: Option<&str>,
        cancellation: &Cancellation,
    ) -> Result<Connection, Error> {
        let (endpoint, address) = &self.targets[number];
        let endpoint = Endpoint {
            connect_timeout: endpoint.connect_timeout.min(limit),
            ..endpoint.clone()
        };
        Connection::open(&endpoint, address, database, cancellation)
    }
}

/// One load, checked (`flushlab.record.LoadSpec`).
#[derive(Debug, Clone)]
pub struct LoadSpec {
    pub(crate) workload: WorkloadKind,
    pub(crate) nodes: Nodes,
    pub(crate) database: String,
    pub(crate) threads: u32,
    /// Which part of a load these connections are.
    pub(crate) share: Share,
    pub(crate) tables: TableSet,
    /// When events are due; none in a closed loop.
    pub(crate) plan: Option<Plan>,
    pub(crate) policy: Policy,
    /// A connection that is lost is counted and opened anew.
    pub(crate) reconnect: bool,
    /// Where each second goes as it ends.
    pub(crate) seconds: SecondFiles,
    pub(crate) commit: Commit,
    pub(crate) seed: u64,
    pub(crate) ignored_errors: Vec<u16>,
    /// Where acknowledged transactions are noted.
    pub(crate) acks: Option<Acks>,
    /// The comment of tables that are made; empty for none.
    pub(crate) mark: String,
}

impl LoadSpec {
    /// Reads and checks the JSON of a `LoadSpec`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Usage`]; its message quotes no value that could be the password.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        let json: SpecJson =
            serde_json::from_slice(json).map_err(|error| Error::usage(unreadable(&error)))?;
        let asked = Asked {
            upsert: json.upsert,
            oltp: json.oltp,
            txn: json.txn,
        };
        let (mut workload, commit) = kind(&json.workload, asked)?;
        if json.acks.is_some() && commit != Commit::Auto {
            return Err(Error::usage(
                "acks need transactions that end with their event: commit_rows and commit_seconds exclude it",
            ));
        }
        if json.acks.is_none() && matches!(workload, WorkloadKind::AckedInserts) {
            return Err(Error::usage("workload acked_inserts needs acks"));
        }
        let distribution = json.rand.distribution(&json.rand_type)?;
        within("threads", json.threads, 1, MAX_THREADS)?;
        let share = json
            .share
            .unwrap_or(Share::whole(json.threads))
            .checked(json.threads)?;
        workload.divide(share)?;
        within("tables", json.tables, 1, MAX_TABLES)?;
        within("table_size", json.table_size, 1, MAX_TABLE_SIZE)?;
        if json.database.is_empty() || json.database.contains('\0') {
            return Err(Error::usage(format!(
                "database {:?} is no name of a database",
                json.database
            )));
        }
        if !json
            .mark
            .bytes()
            .all(|one| one == b' ' || one.is_ascii_alphanumeric())
        {
            return Err(Error::usage("mark takes letters, digits and spaces"));
        }
        let amount = workload.amount();
        let transport = Transport {
            transport: &json.transport,
            ssl_mode: &json.ssl_mode,
            ssl_ca: &json.ssl_ca,
        };
        Ok(Self {
            workload,
            nodes: Nodes::of(json.endpoint, json.peers, &json.cluster_load, transport)?,
            database: json.database,
            threads: json.threads,
            share,
            tables: TableSet {
                count: json.tables,
                size: json.table_size,
                distribution,
            },
            plan: Plan::parse(json.rate, &json.profile, &json.rate_kind, amount)?
                .map(|plan| plan.scaled(share.of_connections(json.threads))),
            policy: policy(&json.client_sched)?,
            reconnect: json.reconnect,
            seconds: SecondFiles {
                hdr_log: file(json.hdr_log),
                per_second: file(json.per_second),
            },
            commit,
            seed: json.seed as u64,
            ignored_errors: json.ignored_errors,
            acks: json.acks.map(Acks::checked).transpose()?,
            mark: json.mark,
        })
    }
}

/// An empty path is none.
fn file(path: PathBuf) -> Option<PathBuf> {
    (!path.as_os_str().is_empty()).then_some(path)
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

fn policy(name: &str) -> Result<Policy, Error> {
    match name {
        "batch" => Ok(Policy::Batch),
        "normal" => Ok(Policy::Normal),
        _ => Err(Error::usage(format!(
            "client_sched {name:?} is not known; there are batch and normal"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Key;
    use crate::ErrorKind;

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

    #[test]
    fn connections_are_spread_over_the_nodes_of_a_cluster_or_fail_over() {
        let peer =
            serde_json::json!({"user": "u", "password": "p", "socket": "/t", "host": null, "port": null});
        for (load, spread) in [("spread", true), ("failover", false)] {
            let spec = LoadSpec::from_json(&json(|v| {
                v["peers"] = serde_json::json!([peer]);
                v["cluster_load"] = load.into();
            }))
            .unwrap();
            assert_eq!((spec.nodes.len(), spec.nodes.spread), (2, spread));
        }
        assert_eq!(LoadSpec::from_json(&json(|_| ())).unwrap().nodes.len(), 1);
    }

    #[test]
    fn a_way_to_the_nodes_that_is_not_known_is_refused() {
        assert!(refusal(|v| v["cluster_load"] = "all".into()).contains("one, spread and failover"));
    }

    fn refusal(change: impl Fn(&mut serde_json::Value)) -> String {
        let error = LoadSpec::from_json(&json(change)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        error.message
    }

    #[test]
    fn a_spec_as_msgspec_writes_it_is_read() {
        let spec = LoadSpec::from_json(&json(|_| ())).unwrap();
        assert!(matches!(&spec.nodes.targets[0].1, Address::Socket(path) if path == "/s"));
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
    fn a_mark_is_plain_text() {
        assert!(refusal(|v| v["mark"] = "it's".into()).contains("letters, digits and spaces"));
        let spec = LoadSpec::from_json(&json(|v| v["mark"] = "made by flushlab 1f".into())).unwrap();
        assert_eq!(spec.mark, "made by flushlab 1f");
    }

    #[test]
    fn an_option_that_this_core_does_not_know_is_refused() {
        assert!(refusal(|v| v["colour"] = 5.into()).contains("unknown field `colour`"));
    }

    #[test]
    fn a_rate_is_optional_and_bounded() {
        let plan = |rate: f64| {
            LoadSpec::from_json(&json(|v| v["rate"] = rate.into()))
                .unwrap()
                .plan
        };
        assert_eq!(LoadSpec::from_json(&json(|_| ())).unwrap().plan, None);
        assert_eq!(plan(0.0), None);
        assert_eq!(plan(2000.0), Plan::parse(2000.0, "", "constant", 1).unwrap());
        assert!(refusal(|v| v["rate"] = (-1).into()).contains("rate is -1"));
        assert!(refusal(|v| v["rate"] = 1e300.into()).contains("10000000"));
    }

    #[test]
    fn how_the_client_runs_is_asked_for() {
        let spec = LoadSpec::from_json(&json(|_| ())).unwrap();
        assert_eq!((spec.policy, spec.reconnect), (Policy::Batch, false));
        assert!(!spec.seconds.are_asked_for());
        let normal = LoadSpec::from_json(&json(|v| v["client_sched"] = "normal".into())).unwrap();
        assert_eq!(normal.policy, Policy::Normal);
        assert!(refusal(|v| v["client_sched"] = "idle".into()).contains("\"idle\" is not known"));
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
        let WorkloadKind::Upsert(options) = spec.workload else {
            panic!("an upsert was due")
        };
        assert_eq!(
            (options.rows, options.key, options.hit_ratio),
            (10, Key::Unique, 0.5)
        );
        assert_eq!(spec.commit, Commit::Every(Duration::from_secs(1)));
        assert_eq!(spec.plan, Plan::parse(100.0, "", "constant", 1).unwrap());
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
