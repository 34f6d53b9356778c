use std::io::Write;
use std::sync::Arc;

use flushlab_protocol::command::{self, Param};
use flushlab_protocol::response::Completed;
use flushlab_rows::shape::{write_c, write_pad, C_LENGTH, PAD_LENGTH};
use flushlab_rows::unique::Unique;
use flushlab_rows::{Bits, Random};

use super::event::{Effect, Next, Workload};
use crate::connection::{Connection, PreparedStatement};
use crate::layout::{Sbtest, TableSet};
use crate::Error;

const ER_UNSUPPORTED_PS: u16 = 1295;

/// A statement of sysbench's (src/lua/oltp_common.lua, `stmt_defs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sql {
    Begin,
    Point,
    Range,
    Sum,
    Order,
    Distinct,
    UpdateIndex,
    UpdateNonIndex,
    Delete,
    Insert,
    /// oltp_insert's, in the text protocol.
    TextInsert,
    Commit,
}

impl Sql {
    const COUNT: usize = Self::Commit as usize + 1;

    /// What percentiles call it.
    fn name(self) -> &'static str {
        match self {
            Self::Begin => "BEGIN",
            Self::Point => "SELECT of a row",
            Self::Range => "SELECT of a range",
            Self::Sum => "SELECT SUM",
            Self::Order => "SELECT … ORDER BY",
            Self::Distinct => "SELECT DISTINCT",
            Self::UpdateIndex => "UPDATE of k",
            Self::UpdateNonIndex => "UPDATE of c",
            Self::Delete => "DELETE",
            Self::Insert | Self::TextInsert => "INSERT",
            Self::Commit => "COMMIT",
        }
    }

    /// sysbench's words, where it prepares the statement for each table.
    fn prepared(self, table: u32) -> Option<String> {
        Some(match self {
            Self::Point => format!("SELECT c FROM sbtest{table} WHERE id=?"),
            Self::Range => format!("SELECT c FROM sbtest{table} WHERE id BETWEEN ? AND ?"),
            Self::Sum => format!("SELECT SUM(k) FROM sbtest{table} WHERE id BETWEEN ? AND ?"),
            Self::Order => format!("SELECT c FROM sbtest{table} WHERE id BETWEEN ? AND ? ORDER BY c"),
            Self::Distinct => {
                format!("SELECT DISTINCT c FROM sbtest{table} WHERE id BETWEEN ? AND ? ORDER BY c")
            }
            Self::UpdateIndex => format!("UPDATE sbtest{table} SET k=k+1 WHERE id=?"),
            Self::UpdateNonIndex => format!("UPDATE sbtest{table} SET c=? WHERE id=?"),
            Self::Delete => format!("DELETE FROM sbtest{table} WHERE id=?"),
            Self::Insert => format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES (?, ?, ?, ?)"),
            Self::Begin | Self::TextInsert | Self::Commit => return None,
        })
    }

    fn writes(self) -> bool {
        matches!(
            self,
            Self::UpdateIndex | Self::UpdateNonIndex | Self::Delete | Self::Insert | Self::TextInsert
        )
    }
}

/// One statement of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    sql: Sql,
    /// Draws the table before; else it is the previous statement's.
    draws_table: bool,
    /// Its answer acknowledges a commit.
    commits: bool,
}

/// What an event of an OLTP workload does, and on which tables.
#[derive(Debug, Clone)]
pub(crate) struct Oltp {
    steps: Arc<[Step]>,
    range_size: u32,
    pub table: Sbtest,
    /// Ids of inserted rows where the server makes none; one sequence for all connections.
    unique: Option<Arc<Unique>>,
}

/// How often an event has which group of statements; sysbench's options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub point_selects: u32,
    pub simple_ranges: u32,
    pub sum_ranges: u32,
    pub order_ranges: u32,
    pub distinct_ranges: u32,
    pub index_updates: u32,
    pub non_index_updates: u32,
    pub delete_inserts: u32,
    pub skip_trx: bool,
}

impl Oltp {
    /// All names, for messages.
    pub const NAMES: [&str; 8] = [
        "oltp_update_non_index",
        "oltp_update_index",
        "oltp_insert",
        "oltp_delete",
        "oltp_write_only",
        "oltp_read_write",
        "oltp_read_only",
        "oltp_point_select",
    ];

    /// The workload of that name, or none if no workload has it. `unique_seed` decides where ids begin that
    /// the client makes.
    pub fn new(name: &str, counts: Counts, range_size: u32, table: Sbtest, unique_seed: u64) -> Option<Self> {
        let inserts = (name == "oltp_insert" && !table.auto_inc)
            .then(|| Arc::new(Unique::new(unique_seed as u32, (unique_seed >> 32) as u32)));
        Some(Self {
            steps: steps(name, counts)?.into(),
            range_size,
            table,
            unique: inserts,
        })
    }

    /// Whether the client makes the ids of inserted rows.
    pub fn makes_ids(&self) -> bool {
        self.unique.is_some()
    }

    /// Whether an event has no statement.
    pub fn is_empty(&self) -> bool {
        self.steps
            .iter()
            .all(|step| matches!(step.sql, Sql::Begin | Sql::Commit))
    }
}

/// The statements of an event of that workload in their order: sysbench 1.0.20's src/lua/NAME.lua.
fn steps(name: &str, counts: Counts) -> Option<Vec<Step>> {
    let reads = [
        (&[Sql::Point][..], counts.point_selects),
        (&[Sql::Range], counts.simple_ranges),
        (&[Sql::Sum], counts.sum_ranges),
        (&[Sql::Order], counts.order_ranges),
        (&[Sql::Distinct], counts.distinct_ranges),
    ];
    let writes = [
        (&[Sql::UpdateIndex][..], counts.index_updates),
        (&[Sql::UpdateNonIndex], counts.non_index_updates),
        (&[Sql::Delete, Sql::Insert], counts.delete_inserts),
    ];
    let (groups, explicit) = match name {
        "oltp_read_write" => ([&reads[..], &writes].concat(), true),
        "oltp_read_only" => (reads.to_vec(), true),
        "oltp_write_only" => (writes.to_vec(), true),
        "oltp_update_index" => (vec![writes[0]], false),
        "oltp_update_non_index" => (vec![writes[1]], false),
        "oltp_point_select" => (vec![(&[Sql::Point][..], 1)], false),
        "oltp_delete" => (vec![(&[Sql::Delete][..], 1)], false),
        "oltp_insert" => (vec![(&[Sql::TextInsert][..], 1)], false),
        _ => return None,
    };
    let explicit = explicit && !counts.skip_trx;
    let mut steps = Vec::new();
    for (group, count) in groups {
        for repetition in 0..count {
            steps.extend(group.iter().enumerate().map(|(place, &sql)| Step {
                sql,
                draws_table: repetition == 0 && place == 0,
                commits: !explicit && sql.writes(),
            }));
        }
    }
    if explicit {
        let step = |sql, commits| Step {
            sql,
            draws_table: false,
            commits,
        };
        let writes = steps.iter().any(|step| step.sql.writes());
        steps.insert(0, step(Sql::Begin, false));
        steps.push(step(Sql::Commit, writes));
    }
    Some(steps)
}

/// A statement without parameters: prepared, or text where the server does not prepare it (BEGIN in MySQL and
/// in MariaDB before 10.6); sysbench does the same.
enum Plain {
    Prepared(PreparedStatement),
    Text(&'static [u8]),
}

impl Plain {
    fn prepare(connection: &mut Connection, sql: &'static str) -> Result<Self, Error> {
        match connection.prepare(sql) {
            Err(error) if error.errno == Some(ER_UNSUPPORTED_PS) => Ok(Self::Text(sql.as_bytes())),
            prepared => prepared.map(Self::Prepared),
        }
    }

    fn put(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Prepared(statement) => statement.execute(out, std::iter::empty()),
            Self::Text(sql) => Ok(command::query(out, sql)?),
        }
    }
}

/// An OLTP workload on one connection.
pub(super) struct OltpEvents {
    oltp: Oltp,
    tables: TableSet,
    plain: Option<[Plain; 2]>,
    /// By kind of statement, then by table.
    prepared: [Vec<PreparedStatement>; Sql::COUNT],
    /// Rank of each kind among the names.
    places: [usize; Sql::COUNT],
    /// The next statement.
    at: usize,
    table: usize,
    id: i64,
    text: Vec<u8>,
}

impl OltpEvents {
    pub fn new(tables: &TableSet, oltp: &Oltp) -> Self {
        let mut places = [0; Sql::COUNT];
        for (place, sql) in kinds(&oltp.steps).into_iter().enumerate() {
            places[sql as usize] = place;
        }
        Self {
            oltp: oltp.clone(),
            tables: *tables,
            plain: None,
            prepared: [const { Vec::new() }; Sql::COUNT],
            places,
            at: 0,
            table: 0,
            id: 0,
            text: Vec::with_capacity(512),
        }
    }

    #[inline]
    fn draw_id(&self, random: &mut Random) -> i64 {
        i64::from(self.tables.draw(random))
    }

    fn put(&mut self, sql: Sql, random: &mut Random, out: &mut Vec<u8>) -> Result<(), Error> {
        match sql {
            Sql::Begin | Sql::Commit => match &mut self.plain {
                Some([begin, commit]) => if sql == Sql::Begin { begin } else { commit }.put(out),
                None => Ok(()),
            },
            Sql::Insert => self.put_insert(random, out),
            Sql::TextInsert => self.put_text_insert(random, out),
            Sql::UpdateNonIndex => {
                let mut c = [0; C_LENGTH];
                write_c(&mut c, random);
                self.id = self.draw_id(random);
                self.execute(sql, out, &[Param::Char(&c), Param::BigInt(self.id)])
            }
            Sql::Range | Sql::Sum | Sql::Order | Sql::Distinct => {
                self.id = self.draw_id(random);
                let last = self.id + i64::from(self.oltp.range_size) - 1;
                self.execute(sql, out, &[Param::BigInt(self.id), Param::BigInt(last)])
            }
            Sql::Point | Sql::UpdateIndex | Sql::Delete => {
                self.id = self.draw_id(random);
                self.execute(sql, out, &[Param::BigInt(self.id)])
            }
        }
    }

    /// The row that the statement before has deleted, anew.
    fn put_insert(&mut self, random: &mut Random, out: &mut Vec<u8>) -> Result<(), Error> {
        let (mut c, mut pad) = ([0; C_LENGTH], [0; PAD_LENGTH]);
        let k = self.draw_id(random);
        write_c(&mut c, random);
        write_pad(&mut pad, random);
        let params = [
            Param::BigInt(self.id),
            Param::BigInt(k),
            Param::Char(&c),
            Param::Char(&pad),
        ];
        self.execute(Sql::Insert, out, &params)
    }

    fn put_text_insert(&mut self, random: &mut Random, out: &mut Vec<u8>) -> Result<(), Error> {
        let (mut c, mut pad) = ([0; C_LENGTH], [0; PAD_LENGTH]);
        let k = self.draw_id(random);
        write_c(&mut c, random);
        write_pad(&mut pad, random);
        let id = self.oltp.unique.as_ref().map_or(0, |unique| unique.next_int());
        self.text.clear();
        let table = self.table + 1;
        write!(
            self.text,
            "INSERT INTO sbtest{table} (id, k, c, pad) VALUES ({id}, {k}, '"
        )
        .expect("a Vec takes everything");
        self.text.extend_from_slice(&c);
        self.text.extend_from_slice(b"', '");
        self.text.extend_from_slice(&pad);
        self.text.extend_from_slice(b"')");
        Ok(command::query(out, &self.text)?)
    }

    #[inline]
    fn execute(&mut self, sql: Sql, out: &mut Vec<u8>, params: &[Param<'_>]) -> Result<(), Error> {
        self.prepared[sql as usize][self.table].execute(out, params.iter().copied())
    }
}

/// The kinds of statements in the order of their first appearance.
fn kinds(steps: &[Step]) -> Vec<Sql> {
    let mut kinds = Vec::with_capacity(Sql::COUNT);
    for step in steps {
        if !kinds.contains(&step.sql) {
            kinds.push(step.sql);
        }
    }
    kinds
}

impl Workload for OltpEvents {
    fn statements(&self) -> Vec<String> {
        kinds(&self.oltp.steps)
            .into_iter()
            .map(|sql| sql.name().to_owned())
            .collect()
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<(), Error> {
        let kinds = kinds(&self.oltp.steps);
        self.plain = if kinds.contains(&Sql::Begin) {
            Some([
                Plain::prepare(connection, "BEGIN")?,
                Plain::prepare(connection, "COMMIT")?,
            ])
        } else {
            None
        };
        for sql in kinds {
            self.prepared[sql as usize] = (1..=self.tables.count)
                .filter_map(|table| sql.prepared(table))
                .map(|text| connection.prepare(&text))
                .collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    fn next(&mut self, random: &mut Random, out: &mut Vec<u8>) -> Result<Next, Error> {
        let step = self.oltp.steps[self.at];
        if step.draws_table {
            self.table = random.below(u64::from(self.tables.count)) as usize;
        }
        self.put(step.sql, random, out)?;
        self.at += 1;
        let last = self.at == self.oltp.steps.len();
        if last {
            self.at = 0;
        }
        Ok(Next {
            statement: self.places[step.sql as usize],
            last,
            commits: step.commits,
            begins: step.sql == Sql::Begin,
            ..Next::SINGLE
        })
    }

    fn answered(&mut self, _completed: &Completed) -> Effect {
        Effect::TRANSACTION
    }

    fn abandon(&mut self) {
        self.at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Counts = Counts {
        point_selects: 10,
        simple_ranges: 1,
        sum_ranges: 1,
        order_ranges: 1,
        distinct_ranges: 1,
        index_updates: 1,
        non_index_updates: 1,
        delete_inserts: 1,
        skip_trx: false,
    };

    fn oltp(name: &str, counts: Counts) -> Oltp {
        Oltp::new(name, counts, 100, Sbtest::default(), 1).unwrap()
    }

    fn names(name: &str, counts: Counts) -> Vec<&'static str> {
        oltp(name, counts)
            .steps
            .iter()
            .map(|step| step.sql.name())
            .collect()
    }

    fn commits(name: &str, counts: Counts) -> usize {
        oltp(name, counts)
            .steps
            .iter()
            .filter(|step| step.commits)
            .count()
    }

    #[test]
    fn an_event_has_as_many_statements_as_sysbench_counts() {
        for (name, due) in [
            ("oltp_update_non_index", 1),
            ("oltp_update_index", 1),
            ("oltp_insert", 1),
            ("oltp_delete", 1),
            ("oltp_write_only", 6),
            ("oltp_read_write", 20),
            ("oltp_read_only", 16),
            ("oltp_point_select", 1),
        ] {
            assert_eq!(names(name, DEFAULTS).len(), due, "{name}");
        }
        assert!(Oltp::new("oltp_writes", DEFAULTS, 100, Sbtest::default(), 1).is_none());
    }

    #[test]
    fn a_transaction_is_one_commit_and_without_it_every_write_is_one() {
        let bare = Counts {
            skip_trx: true,
            ..DEFAULTS
        };
        assert_eq!(commits("oltp_write_only", DEFAULTS), 1);
        assert_eq!(commits("oltp_write_only", bare), 4);
        assert_eq!(commits("oltp_read_only", DEFAULTS), 0);
        assert_eq!(
            names("oltp_write_only", bare),
            ["UPDATE of k", "UPDATE of c", "DELETE", "INSERT"]
        );
    }

    #[test]
    fn a_table_is_drawn_once_per_group() {
        let counts = Counts {
            point_selects: 3,
            delete_inserts: 2,
            ..DEFAULTS
        };
        let draws = |name| {
            let steps = oltp(name, counts).steps;
            let draws = steps.iter().filter(|step| step.draws_table);
            draws.map(|step| step.sql.name()).collect::<Vec<_>>()
        };
        assert_eq!(draws("oltp_write_only"), ["UPDATE of k", "UPDATE of c", "DELETE"]);
        assert_eq!(
            draws("oltp_read_only"),
            [
                "SELECT of a row",
                "SELECT of a range",
                "SELECT SUM",
                "SELECT … ORDER BY",
                "SELECT DISTINCT"
            ]
        );
    }

    #[test]
    fn an_event_without_statements_is_seen() {
        let none = Counts {
            index_updates: 0,
            non_index_updates: 0,
            delete_inserts: 0,
            ..DEFAULTS
        };
        assert!(oltp("oltp_write_only", none).is_empty() && oltp("oltp_update_index", none).is_empty());
        assert!(!oltp("oltp_read_write", none).is_empty());
    }
}
