use std::sync::Arc;
use std::time::Duration;

use flushlab_protocol::command::{self, Param};
use flushlab_protocol::response::Completed;
use flushlab_rows::{Bits, Random};

use super::event::{Effect, Next, Rank, Workload};
use super::parameter::{Content, Generator, Value};
use crate::connection::{Connection, PreparedStatement};
use crate::error::is_passing;
use crate::share::Share;
use crate::{Error, ErrorKind};

const ER_UNSUPPORTED_PS: u16 = 1295;

/// The user's own transactions.
#[derive(Debug)]
pub(crate) struct Txn {
    /// As each connection gets them.
    pub generators: Vec<Generator>,
    /// Sets of rows that columns come from.
    pub sets: usize,
    pub transactions: Vec<Transaction>,
}

/// A kind of transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub name: String,
    pub weight: u32,
    pub think: Think,
    /// Between BEGIN and COMMIT; else every statement commits by itself.
    pub explicit: bool,
    pub statements: Vec<Sentence>,
}

impl Transaction {
    /// Its statements, with BEGIN and COMMIT.
    fn sent_statements(&self) -> usize {
        self.statements.len() + 2 * usize::from(self.explicit)
    }
}

/// A statement with its parameters.
#[derive(Debug)]
pub(crate) struct Sentence {
    /// What percentiles call it.
    pub name: String,
    /// With a `?` per parameter.
    pub sql: String,
    /// Where it stands in the user's file.
    pub place: String,
    pub parameters: Vec<usize>,
    /// Those of them that are drawn anew each time it runs.
    pub fresh: Vec<usize>,
    /// How often it runs, one after the other.
    pub repeat: u32,
    pub writes: bool,
    pub think: Think,
}

/// How long a user thinks before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Think {
    pub mean: Duration,
    /// Drawn from the exponential distribution; else always the mean.
    pub exponential: bool,
}

impl Think {
    /// Longest of what is drawn, in means: 1 in 20,000 is cut.
    const LONGEST: f64 = 10.0;

    #[inline]
    fn draw(self, random: &mut Random) -> Duration {
        if !self.exponential || self.mean.is_zero() {
            return self.mean;
        }
        // 1 - unit is above 0.
        let means = -(1.0 - random.unit()).ln();
        self.mean.mul_f64(means.min(Self::LONGEST))
    }
}

impl Txn {
    /// Keeps the sequences that all connections share apart from those of other load generators.
    pub fn divide(&mut self, share: Share) {
        for generator in &mut self.generators {
            generator.divide(i64::from(share.generator), i64::from(share.generators));
        }
    }

    /// The names of all statements, in the order of their numbers.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for transaction in &self.transactions {
            let name = |what: &str| format!("{}: {what}", transaction.name);
            if transaction.explicit {
                names.push(name("BEGIN"));
            }
            names.extend(transaction.statements.iter().map(|sentence| name(&sentence.name)));
            if transaction.explicit {
                names.push(name("COMMIT"));
            }
        }
        names
    }

    fn total_weight(&self) -> u64 {
        self.transactions.iter().map(|one| u64::from(one.weight)).sum()
    }

    /// The transaction that the draw `at`, below the total weight, hits.
    fn chosen(&self, mut at: u64) -> usize {
        for (number, transaction) in self.transactions.iter().enumerate() {
            let weight = u64::from(transaction.weight);
            if at < weight {
                return number;
            }
            at -= weight;
        }
        unreachable!("the draw is below the total weight")
    }
}

/// A statement as it is sent.
enum Sent {
    Prepared(PreparedStatement),
    /// One that the server does not prepare; it has no parameters.
    Text(Vec<u8>),
}

/// Where the running event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// No event runs.
    Idle,
    /// The nth statement comes next, which has run so often.
    Statement(usize, u32),
    /// COMMIT comes next.
    Commit,
}

/// The user's transactions on one connection.
pub(super) struct TxnEvents {
    txn: Arc<Txn>,
    generators: Vec<Generator>,
    values: Vec<Value>,
    /// The event in which each value was drawn.
    drawn_in: Vec<u64>,
    /// The row of each set, and the event in which it was drawn.
    rows: Vec<(usize, u64)>,
    rank: Rank,
    event: u64,
    /// The number of each transaction's first statement.
    first: Vec<usize>,
    sent: Vec<Vec<Sent>>,
    transaction: usize,
    at: At,
}

impl TxnEvents {
    pub fn new(txn: &Arc<Txn>, rank: Rank) -> Self {
        let mut generators = txn.generators.clone();
        for generator in &mut generators {
            if let Generator::Connection { number } = generator {
                *number = i64::from(rank.number) + 1;
            }
        }
        let mut first = Vec::with_capacity(txn.transactions.len());
        let mut number = 0;
        for transaction in &txn.transactions {
            first.push(number);
            number += transaction.sent_statements();
        }
        Self {
            values: generators.iter().map(Value::with_room_for).collect(),
            drawn_in: vec![0; generators.len()],
            rows: vec![(0, 0); txn.sets],
            rank,
            generators,
            event: 0,
            first,
            sent: Vec::new(),
            transaction: 0,
            at: At::Idle,
            txn: txn.clone(),
        }
    }

    /// Draws the values of a statement that this event has not drawn yet, and its fresh ones.
    fn draw(&mut self, sentence: &Sentence, random: &mut Random) {
        for &parameter in &sentence.parameters {
            if self.drawn_in[parameter] == self.event && !sentence.fresh.contains(&parameter) {
                continue;
            }
            self.drawn_in[parameter] = self.event;
            let (generator, value) = (&mut self.generators[parameter], &mut self.values[parameter]);
            let Generator::Column { rows, set, column } = generator else {
                generator.draw(random, value);
                continue;
            };
            let (row, drawn_in) = &mut self.rows[*set];
            if *drawn_in != self.event {
                (*row, *drawn_in) = (rows.draw(self.rank, random), self.event);
            }
            value.take(&rows.columns[*column][*row]);
        }
    }

    fn put(&mut self, number: usize, sentence: &Sentence, out: &mut Vec<u8>) -> Result<(), Error> {
        match &mut self.sent[self.transaction][number] {
            Sent::Text(sql) => Ok(command::query(out, sql)?),
            Sent::Prepared(statement) => {
                let values = &self.values;
                let params = sentence
                    .parameters
                    .iter()
                    .map(|&parameter| match values[parameter].content() {
                        Content::Integer(integer) => Param::BigInt(integer),
                        Content::Text(text) => Param::Char(text),
                        Content::Bytes(bytes) => Param::Bytes(bytes),
                    });
                statement.execute(out, params)
            }
        }
    }
}

impl Workload for TxnEvents {
    fn statements(&self) -> Vec<String> {
        self.txn.names()
    }

    fn transactions(&self) -> Vec<(String, usize)> {
        let kinds = self.txn.transactions.iter();
        kinds
            .map(|kind| (kind.name.clone(), kind.sent_statements()))
            .collect()
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<(), Error> {
        self.sent.clear();
        for transaction in &self.txn.transactions {
            let sent = transaction
                .statements
                .iter()
                .map(|sentence| prepare(connection, sentence));
            self.sent.push(sent.collect::<Result<_, _>>()?);
        }
        Ok(())
    }

    fn next(&mut self, random: &mut Random, out: &mut Vec<u8>) -> Result<Next, Error> {
        let txn = self.txn.clone();
        let (mut at, mut think) = (self.at, Duration::ZERO);
        if at == At::Idle {
            self.event += 1;
            self.transaction = txn.chosen(random.below(txn.total_weight()));
            let transaction = &txn.transactions[self.transaction];
            think = transaction.think.draw(random);
            at = At::Statement(0, 0);
            if transaction.explicit {
                command::query(out, b"BEGIN")?;
                self.at = at;
                return Ok(Next {
                    statement: self.first[self.transaction],
                    think,
                    last: false,
                    commits: false,
                    begins: true,
                });
            }
        }
        let transaction = &txn.transactions[self.transaction];
        let first = self.first[self.transaction] + usize::from(transaction.explicit);
        let At::Statement(number, run) = at else {
            command::query(out, b"COMMIT")?;
            self.at = At::Idle;
            return Ok(Next {
                statement: first + transaction.statements.len(),
                think,
                last: true,
                commits: transaction.statements.iter().any(|sentence| sentence.writes),
                begins: false,
            });
        };
        let sentence = &transaction.statements[number];
        self.draw(sentence, random);
        self.put(number, sentence, out)?;
        think += sentence.think.draw(random);
        self.at = if run + 1 < sentence.repeat {
            At::Statement(number, run + 1)
        } else if number + 1 < transaction.statements.len() {
            At::Statement(number + 1, 0)
        } else if transaction.explicit {
            At::Commit
        } else {
            At::Idle
        };
        Ok(Next {
            statement: first + number,
            think,
            last: self.at == At::Idle,
            commits: !transaction.explicit && sentence.writes,
            begins: false,
        })
    }

    fn answered(&mut self, _completed: &Completed) -> Effect {
        Effect::TRANSACTION
    }

    fn abandon(&mut self) {
        self.at = At::Idle;
    }
}

fn prepare(connection: &mut Connection, sentence: &Sentence) -> Result<Sent, Error> {
    match connection.prepare(&sentence.sql) {
        Err(error) if error.errno == Some(ER_UNSUPPORTED_PS) && sentence.parameters.is_empty() => {
            Ok(Sent::Text(sentence.sql.as_bytes().to_vec()))
        }
        // The server's word on the user's statement: it cannot be measured as it stands.
        Err(error) if error.errno.is_some_and(|errno| !is_passing(errno)) => Err(Error {
            kind: ErrorKind::Measurement,
            ..error.during(format_args!("{}", sentence.place))
        }),
        prepared => prepared.map(Sent::Prepared),
    }
}

#[cfg(test)]
mod tests {
    use flushlab_rows::distribution::Distribution;

    use super::super::parameter::{Cell, Rows};
    use super::*;

    const NONE: Think = Think {
        mean: Duration::ZERO,
        exponential: false,
    };

    fn sentence(name: &str, parameters: &[usize], fresh: &[usize], repeat: u32) -> Sentence {
        Sentence {
            name: name.into(),
            sql: String::new(),
            place: "shop.toml:1:1".into(),
            parameters: parameters.into(),
            fresh: fresh.into(),
            repeat,
            writes: name != "SELECT",
            think: NONE,
        }
    }

    fn events(transactions: Vec<Transaction>) -> TxnEvents {
        let any = Generator::Integer {
            low: 0,
            high: i64::MAX,
            distribution: Distribution::Uniform,
        };
        let txn = Arc::new(Txn {
            generators: vec![any.clone(), any, Generator::Connection { number: 0 }],
            sets: 0,
            transactions,
        });
        let mut events = TxnEvents::new(&txn, Rank { number: 6, of: 8 });
        events.sent = txn
            .transactions
            .iter()
            .map(|one| one.statements.iter().map(|_| Sent::Text(Vec::new())).collect())
            .collect();
        events
    }

    fn transaction(weight: u32, explicit: bool, statements: Vec<Sentence>) -> Transaction {
        Transaction {
            name: format!("kind {weight}"),
            weight,
            think: NONE,
            explicit,
            statements,
        }
    }

    /// The names of an event's statements, with the first two values after each.
    fn event(
        events: &mut TxnEvents,
        random: &mut Random,
    ) -> Vec<(String, Content<'static>, Content<'static>)> {
        let names = events.statements();
        let mut said = Vec::new();
        loop {
            let next = events.next(random, &mut Vec::new()).unwrap();
            let value = |number: usize| match events.values[number].content() {
                Content::Integer(integer) => Content::Integer(integer),
                Content::Text(_) | Content::Bytes(_) => unreachable!("they are integers"),
            };
            said.push((names[next.statement].clone(), value(0), value(1)));
            if next.last {
                return said;
            }
        }
    }

    #[test]
    fn a_transaction_begins_and_commits_and_repeats_what_it_repeats() {
        let statements = vec![
            sentence("INSERT", &[0], &[], 1),
            sentence("UPDATE", &[0, 1], &[1], 3),
        ];
        let mut events = events(vec![transaction(1, true, statements)]);
        let said = event(&mut events, &mut Random::new(1));
        let names: Vec<&str> = said.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "kind 1: BEGIN",
                "kind 1: INSERT",
                "kind 1: UPDATE",
                "kind 1: UPDATE",
                "kind 1: UPDATE",
                "kind 1: COMMIT"
            ]
        );
    }

    #[test]
    fn each_kind_has_its_statements_in_the_order_of_their_names() {
        let one = |name| vec![sentence(name, &[], &[], 1)];
        let events = events(vec![
            transaction(3, true, one("INSERT")),
            transaction(1, false, one("SELECT")),
        ]);
        let kinds = events.transactions();
        assert_eq!(kinds, [("kind 3".to_owned(), 3), ("kind 1".to_owned(), 1)]);
        assert_eq!(events.statements().len(), 4);
    }

    #[test]
    fn a_value_is_kept_within_an_event_and_drawn_anew_where_it_is_fresh() {
        let statements = vec![
            sentence("INSERT", &[0, 1], &[], 1),
            sentence("UPDATE", &[0, 1], &[1], 2),
        ];
        let mut events = events(vec![transaction(1, false, statements)]);
        let mut random = Random::new(2);
        let one = event(&mut events, &mut random);
        assert!(one.iter().all(|(_, kept, _)| *kept == one[0].1), "{one:?}");
        assert!(one[0].2 != one[1].2 && one[1].2 != one[2].2, "{one:?}");
        let other = event(&mut events, &mut random);
        assert_ne!(one[0].1, other[0].1, "another event draws anew");
    }

    #[test]
    fn the_columns_of_an_event_come_from_one_row() {
        let rows = Arc::new(Rows {
            columns: vec![
                (0..50).map(Cell::Integer).collect(),
                (0..50).map(|n| Cell::Integer(n * n)).collect(),
            ],
            count: 50,
            own: false,
            distribution: Distribution::Uniform,
        });
        let column = |column| Generator::Column {
            rows: rows.clone(),
            set: 0,
            column,
        };
        let statements = vec![
            sentence("DELETE", &[0], &[], 1),
            sentence("INSERT", &[1, 0], &[], 1),
        ];
        let txn = Arc::new(Txn {
            generators: vec![column(0), column(1)],
            sets: 1,
            transactions: vec![transaction(1, false, statements)],
        });
        let mut events = TxnEvents::new(&txn, Rank { number: 0, of: 1 });
        events.sent = vec![vec![Sent::Text(Vec::new()), Sent::Text(Vec::new())]];
        let mut random = Random::new(5);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..100 {
            let said = event(&mut events, &mut random);
            let (Content::Integer(key), Content::Integer(square)) = (said[1].1, said[1].2) else {
                unreachable!("they are integers")
            };
            assert!(said[0].1 == said[1].1 && square == key * key, "{said:?}");
            seen.insert(key);
        }
        assert!(seen.len() > 25, "events draw anew: {seen:?}");
    }

    #[test]
    fn kinds_come_by_weight_and_one_of_weight_nothing_never() {
        let kind = |weight| transaction(weight, false, vec![sentence("UPDATE", &[], &[], 1)]);
        let mut events = events(vec![kind(1), kind(0), kind(3)]);
        let mut random = Random::new(3);
        let mut counts = [0u32; 3];
        for _ in 0..4000 {
            counts[events.next(&mut random, &mut Vec::new()).unwrap().statement] += 1;
        }
        // n = 4000, p = 1/4: sigma = 27; six sigma is 164.
        assert!(counts[0].abs_diff(1000) < 164 && counts[1] == 0, "{counts:?}");
    }

    #[test]
    fn an_abandoned_event_begins_anew() {
        let statements = vec![sentence("INSERT", &[0], &[], 1), sentence("UPDATE", &[0], &[], 1)];
        let mut events = events(vec![transaction(1, true, statements)]);
        let mut random = Random::new(4);
        events.next(&mut random, &mut Vec::new()).unwrap();
        events.next(&mut random, &mut Vec::new()).unwrap();
        events.abandon();
        assert_eq!(event(&mut events, &mut random).len(), 4);
    }

    #[test]
    fn only_what_writes_commits() {
        let reading = || vec![sentence("SELECT", &[], &[], 1)];
        for explicit in [true, false] {
            let mut events = events(vec![transaction(1, explicit, reading())]);
            let mut random = Random::new(5);
            for _ in 0..3 {
                assert!(!events.next(&mut random, &mut Vec::new()).unwrap().commits);
            }
        }
    }

    #[test]
    fn thinking_takes_its_mean() {
        let mut random = Random::new(6);
        let constant = Think {
            mean: Duration::from_millis(5),
            exponential: false,
        };
        assert_eq!(constant.draw(&mut random), Duration::from_millis(5));
        let exponential = Think {
            exponential: true,
            ..constant
        };
        let sum: Duration = (0..10_000).map(|_| exponential.draw(&mut random)).sum();
        // n = 10,000: sigma of the mean is 1 %; six sigma.
        assert!(
            sum.abs_diff(Duration::from_secs(50)) < Duration::from_secs(3),
            "{sum:?}"
        );
    }

    #[test]
    fn a_connection_knows_its_number() {
        let mut events = events(vec![transaction(
            1,
            false,
            vec![sentence("SELECT", &[2], &[], 1)],
        )]);
        events.next(&mut Random::new(7), &mut Vec::new()).unwrap();
        assert_eq!(events.values[2].content(), Content::Integer(7));
    }
}
