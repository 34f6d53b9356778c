//! What goes in: the JSON of `flushlab.fill.run.Spec`.

use std::sync::Arc;
use std::time::Duration;

use flushlab_generate::{Plan, Table};
use serde::Deserialize;

use crate::address::{Address, Transport};
use crate::endpoint::Endpoint;
use crate::policy::Policy;
use crate::spec::unreadable;
use crate::Error;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BulkJson {
    endpoint: Endpoint,
    transport: String,
    ssl_mode: String,
    ssl_ca: String,
    database: String,
    /// JSON of a plan.
    plan: String,
    /// Its name in the plan.
    table: String,
    /// Where its rows go, as SQL has it.
    into: String,
    method: Method,
    connections: usize,
    ranges: Vec<Range>,
    /// Rows of one INSERT, at most.
    batch_rows: u64,
    /// Of one statement of INSERT, or one packet of LOAD DATA.
    packet_bytes: usize,
    /// Of rows in one transaction; 0 for each statement by itself.
    chunk_bytes: usize,
    /// Run on each connection before its first row.
    session: Vec<String>,
    /// Table of notes, as SQL has it.
    notes: Option<String>,
    /// Begin nothing after so long.
    limit_seconds: Option<f64>,
}

/// How rows reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Method {
    /// LOAD DATA LOCAL, its rows in packets as they are generated.
    LoadData,
    /// INSERT with many rows.
    Insert,
    /// The same, prepared: its rows are parameters.
    Prepared,
}

/// Rows that one connection loads in their order.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Range {
    /// Of its note.
    pub id: u32,
    /// The first row.
    pub from: u64,
    /// One behind the last row.
    pub to: u64,
}

/// What is loaded, where to and how.
pub(super) struct Spec {
    pub endpoint: Endpoint,
    pub address: Address,
    pub database: String,
    pub plan: Arc<Plan>,
    pub table: usize,
    pub into: String,
    pub method: Method,
    pub connections: usize,
    pub ranges: Vec<Range>,
    pub batch_rows: u64,
    pub packet_bytes: usize,
    pub chunk_bytes: usize,
    pub session: Vec<String>,
    pub notes: Option<String>,
    pub limit: Option<Duration>,
    pub policy: Policy,
}

impl Spec {
    /// # Errors
    /// [`crate::ErrorKind::Usage`]: it contradicts itself.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        let json: BulkJson =
            serde_json::from_slice(json).map_err(|error| Error::usage(unreadable(&error)))?;
        let mut endpoint = json.endpoint;
        endpoint.local_files = json.method == Method::LoadData;
        let transport = Transport {
            transport: &json.transport,
            ssl_mode: &json.ssl_mode,
            ssl_ca: &json.ssl_ca,
        };
        let address = Address::of(&endpoint, transport)?;
        let plan = Plan::parse(json.plan.as_bytes()).map_err(unwritable)?;
        let table = plan.tables().iter().position(|table| table.name() == json.table);
        let table = table.ok_or_else(|| Error::usage(format!("the plan has no table {:?}", json.table)))?;
        if json.connections == 0 || json.batch_rows == 0 || json.packet_bytes < 1024 {
            return Err(Error::usage(
                "a load takes a connection, a row and a packet of 1024 bytes at least",
            ));
        }
        Ok(Self {
            connections: json.connections.min(json.ranges.len()),
            endpoint,
            address,
            database: json.database,
            plan: Arc::new(plan),
            table,
            into: json.into,
            method: json.method,
            ranges: json.ranges,
            batch_rows: json.batch_rows,
            packet_bytes: json.packet_bytes,
            chunk_bytes: json.chunk_bytes,
            session: json.session,
            notes: json.notes,
            limit: json.limit_seconds.map(Duration::from_secs_f64),
            policy: Policy::Batch,
        })
    }

    pub fn table(&self) -> &Table {
        &self.plan.tables()[self.table]
    }
}

/// Rows that a plan cannot give.
pub(super) fn unwritable(error: flushlab_generate::Error) -> Error {
    Error::usage(error.to_string())
}
