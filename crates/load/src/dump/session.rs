//! Runs a dump's statements in their order, but for what may run beside it.

use std::sync::Arc;

use super::late_indexes::{rows_of, LateIndexes, Taken};
use super::literals::only_literals;
use super::meanwhile::{meanwhile, Meanwhile};
use super::queue::{quoting, DumpStatement, Job, Place, SharedQueue};
use super::rules::{beginning, Rules};
use super::session_state::SessionState;
use super::workers::Workers;
use crate::connection::Connection;
use crate::Error;

/// Of a statement of rows: a smaller one is not worth handing over.
const BESIDE_FROM_BYTES: usize = 16 << 10;

pub(crate) struct Session {
    pub shared: Arc<SharedQueue>,
    pub connection: Connection,
    pub rules: Rules,
    pub late_indexes: LateIndexes,
    pub workers: Workers,
    /// A backslash escapes in strings, as far as the server has said.
    pub escapes: bool,
    /// The table that rows are coming for, if something of it was taken away, and how sessions are set meanwhile.
    pub taken: Option<(Taken, Option<Arc<SessionState>>)>,
    /// Tables, in their quotes, whose indexes workers build, and what gives their foreign keys back then.
    pub building: Vec<(Vec<u8>, Option<String>)>,
}

impl Session {
    /// Runs statements until the script ends or one fails; each is tried once.
    pub fn work(&mut self) {
        let shared = self.shared.clone();
        while let Some(statement) = shared.next() {
            let place = statement.place;
            if let Err(error) = self.run(statement) {
                shared.fail(place, error);
            }
            if shared.failing() {
                break;
            }
        }
        let outcome = match shared.failing() {
            false => self.wait_for_all(Place::END),
            true => Ok(()),
        };
        if let Err(error) = outcome {
            shared.fail(Place::END, error);
        }
        self.workers.finish_rows(&mut self.connection);
        self.workers.finish_builds(&mut self.connection);
        shared.conclude();
    }

    fn run(&mut self, statement: DumpStatement) -> Result<(), Error> {
        let DumpStatement { place, sql } = statement;
        let words = beginning(&sql);
        let verdict = self.rules.judge(&sql, &words);
        if verdict.is_nothing() {
            self.shared.answered(sql.len(), verdict.left_out);
            return Ok(());
        }
        let table = rows_of(&sql);
        if !self.late_indexes.are_of(table) {
            self.end_rows(place)?;
        }
        let beside = self.may_run_beside(&sql);
        if !beside && !self.building.is_empty() {
            let building: Vec<&[u8]> = self.building.iter().map(|(table, _)| &table[..]).collect();
            match meanwhile(&sql, &words, &building, table) {
                Meanwhile::Runs => {}
                Meanwhile::Waits => self.wait_for_all(place)?,
                Meanwhile::Skipped => {
                    self.shared.answered(sql.len(), verdict.left_out);
                    return Ok(());
                }
            }
        }
        if self.shared.failing() {
            return Ok(());
        }
        if let Some(taken) = self.late_indexes.rows(&mut self.connection, table, sql.len())? {
            let session = self.session_of(&taken);
            self.taken = Some((taken, session));
        }
        if let (true, Some((_, Some(session)))) = (beside, &self.taken) {
            let session = session.clone();
            let builds = None;
            self.workers.rows(
                &mut self.connection,
                Job {
                    place,
                    sql,
                    session,
                    builds,
                },
            );
            return Ok(());
        }
        self.workers.finish_rows(&mut self.connection);
        if !self.shared.failing() {
            let runs = verdict.instead.as_deref().unwrap_or(&sql);
            let outcome = self.connection.query_bytes(runs);
            let completed = outcome.map_err(|error| quoting(error, &sql))?;
            self.escapes = completed.backslash_escapes();
            self.shared.answered(sql.len(), verdict.left_out);
        }
        Ok(())
    }

    /// Whether it comes to the same in any order among the rows of its table.
    fn may_run_beside(&self, sql: &[u8]) -> bool {
        match &self.taken {
            Some((
                Taken {
                    columns: Some(columns),
                    ..
                },
                Some(_),
            )) if sql.len() >= BESIDE_FROM_BYTES && self.escapes => only_literals(sql, Some(columns)),
            _ => false,
        }
    }

    /// How workers set their sessions for that table; `None` if there are none.
    fn session_of(&mut self, taken: &Taken) -> Option<Arc<SessionState>> {
        if (taken.columns.is_none() && !taken.may_wait) || !self.workers.there_are() {
            return None;
        }
        SessionState::of(&mut self.connection).ok().map(Arc::new)
    }

    /// The rows of a table are there: gives it back what was taken, beside what follows if it may.
    fn end_rows(&mut self, place: Place) -> Result<(), Error> {
        self.late_indexes.forget();
        let Some((taken, session)) = self.taken.take() else {
            return Ok(());
        };
        self.workers.finish_rows(&mut self.connection);
        if self.shared.failing() {
            return Ok(());
        }
        if taken.autocommit_off {
            self.connection.query("SET autocommit=0")?;
        }
        if let Some(sql) = taken.keys {
            let beside = taken.may_wait && session.is_some();
            let job = Job {
                place,
                sql: sql.into_bytes(),
                session: session.unwrap_or_default(),
                builds: Some(taken.name),
            };
            let left = match beside {
                true => self.workers.build(job),
                false => Some(job),
            };
            match left {
                Some(job) => self.workers.run(&mut self.connection, job),
                None => {
                    self.building.push((taken.table, taken.foreign));
                    return Ok(());
                }
            }
        }
        match taken.foreign {
            Some(sql) if !self.shared.failing() => self.connection.query(&sql).map(drop),
            _ => Ok(()),
        }
    }

    /// Everything before it is there, and whole.
    fn wait_for_all(&mut self, place: Place) -> Result<(), Error> {
        self.end_rows(place)?;
        self.workers.finish_builds(&mut self.connection);
        for (_, foreign) in self.building.drain(..) {
            if self.shared.failing() {
                break;
            }
            if let Some(sql) = foreign {
                self.connection.query(&sql)?;
            }
        }
        Ok(())
    }
}
