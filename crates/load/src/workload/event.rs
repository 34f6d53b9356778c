//! What a workload is.
//!
//! An event is one statement or several. A workload is a state machine that is asked for the next statement
//! and told its answer; who sends, waits and counts is the driver, so that one thread can drive many
//! connections.

use std::time::Duration;

use flushlab_protocol::response::Completed;
use flushlab_rows::Random;

use crate::connection::Connection;
use crate::Error;

/// What an event that succeeded did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effect {
    /// What it adds to the figure: one transaction, or a number of rows.
    pub amount: u64,
    /// Rows among them that were there already.
    pub updated: u64,
}

impl Effect {
    pub const TRANSACTION: Self = Self {
        amount: 1,
        updated: 0,
    };
}

/// How the driver treats a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Next {
    /// Which of [`Workload::statements`] it is.
    pub statement: usize,
    /// Time to wait before it is sent. In front of an event's first statement it is no part of the event's
    /// latency, between statements it is.
    pub think: Duration,
    /// Whether its answer ends the event.
    pub last: bool,
    /// Whether its answer acknowledges a commit: a write in autocommit, or COMMIT after writes.
    pub commits: bool,
    /// Whether it begins a transaction that later statements of the event are part of.
    pub begins: bool,
}

impl Next {
    /// A statement that is an event and a transaction by itself.
    pub const SINGLE: Self = Self {
        statement: 0,
        think: Duration::ZERO,
        last: true,
        commits: true,
        begins: false,
    };
}

/// A workload on one connection.
///
/// The driver calls [`Workload::prepare`], then for every statement [`Workload::next`] and, if the server
/// answered without an error, [`Workload::answered`]. Neither may allocate once it has run a few times.
pub(crate) trait Workload: Send {
    /// The names of its statements, for percentiles per statement: `UPDATE`, `COMMIT`, … The same on every
    /// connection of a load.
    fn statements(&self) -> Vec<String>;

    /// Its kinds of transactions, each with the number of statements that are its own, in their order. None
    /// where all events are of one kind.
    fn transactions(&self) -> Vec<(String, usize)> {
        Vec::new()
    }

    /// Prepares its statements on a new connection: once in the beginning, and again after a connection was
    /// lost and another opened. No event runs then.
    fn prepare(&mut self, connection: &mut Connection) -> Result<(), Error>;

    /// Appends the running event's next statement to `out` as one whole command packet; the first of a new
    /// event, if none runs.
    fn next(&mut self, random: &mut Random, out: &mut Vec<u8>) -> Result<Next, Error>;

    /// The server's answer to that statement. What is returned counts only after an event's last one.
    fn answered(&mut self, completed: &Completed) -> Effect;

    /// The running event ends here, for an ignored error or a lost connection; the driver rolls back what
    /// is open. The next statement is the first of a new event.
    fn abandon(&mut self);
}

/// Which connection it is among all of a load's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rank {
    /// From 0.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}
