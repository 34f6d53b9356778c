//! Rows as parameters of a prepared INSERT: the server parses it once, and their texts not at all.

use flushlab_generate::Table;
use flushlab_protocol::command::{TYPE_BLOB, TYPE_VAR_STRING};
use flushlab_protocol::response::Completed;

use super::spec::{unwritable, Spec};
use super::statement::insert_head;
use crate::connection::{Connection, PreparedStatement};
use crate::Error;

/// Rows of a statement. On MariaDB 10.11 and MySQL 5.7 a row of sysbench's table cost the server the least processor
/// time with 100 of them, about as much as in MariaDB's bulk execute; with 30 and 300 a tenth more.
const ROWS: u64 = 100;

/// A prepared statement has no more parameters.
const MOST_PARAMS: usize = 0xFFFF;

pub(super) struct Batch {
    statement: PreparedStatement,
    rows: u64,
    columns: usize,
    types: Vec<u8>,
    nulls: Vec<u8>,
    values: Vec<u8>,
}

impl Batch {
    /// None where the server prepares no such statement, or takes none so long: rows then go as text.
    pub fn prepare(spec: &Spec, connection: &mut Connection) -> Option<Self> {
        let params = spec.table().params();
        let rows = ROWS.min((MOST_PARAMS / params.len().max(1)) as u64);
        let expressions: Vec<&str> = params.iter().map(|&(expression, _)| expression).collect();
        let row = format!("({})", expressions.join(","));
        let mut sql = insert_head(spec);
        sql.push_str(&vec![row; rows as usize].join(","));
        if sql.len() > spec.packet_bytes {
            return None;
        }
        let types = |&(_, bytes): &(&str, bool)| [if bytes { TYPE_BLOB } else { TYPE_VAR_STRING }, 0];
        let of_row: Vec<u8> = params.iter().flat_map(types).collect();
        Some(Self {
            statement: connection.prepare(&sql).ok()?,
            rows,
            columns: params.len(),
            types: of_row.repeat(rows as usize),
            nulls: Vec::new(),
            values: Vec::with_capacity(spec.packet_bytes),
        })
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes rows from `first` on; whether a packet holds them.
    pub fn write(&mut self, table: &Table, first: u64, packet_bytes: usize) -> Result<bool, Error> {
        self.values.clear();
        self.nulls.clear();
        self.nulls
            .resize((self.rows as usize * self.columns).div_ceil(8), 0);
        for number in 0..self.rows {
            let before = number as usize * self.columns;
            let nulls = &mut self.nulls;
            let null = |place| nulls[(before + place) / 8] |= 1u8 << ((before + place) % 8);
            table
                .write_params(first + number, &mut self.values, null)
                .map_err(unwritable)?;
            if self.bytes() > packet_bytes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Of the packet.
    pub fn bytes(&self) -> usize {
        self.values.len() + self.nulls.len() + self.types.len()
    }

    /// Runs the statement with the rows that were written.
    pub fn execute(&mut self, connection: &mut Connection) -> Result<Completed, Error> {
        connection.execute_written(&mut self.statement, &self.nulls, &self.types, &self.values)
    }
}
