//! The JSON of the user's own transactions (`flushlab.record.TxnSpec`), read and checked.

use std::sync::atomic::AtomicI64;
use std::sync::Arc;
use std::time::Duration;

use flushlab_generate::Template;
use serde::Deserialize;

use super::parameter::{Cell, Choice, Generator, Rows};
use super::rand_json::{within, JsonRand};
use super::txn::{Sentence, Think, Transaction, Txn};
use crate::Error;

/// Longest text of a parameter.
const MAX_TEXT: u32 = 1 << 20;
/// Most digits behind the point.
const MAX_DIGITS: u32 = 18;
/// Most runs of a statement in one event.
const MAX_REPEAT: u32 = 10_000;
const MAX_GROUPS: u32 = 100;
/// The years 0 to 9999.
const DAYS: std::ops::RangeInclusive<i64> = -719_528..=2_932_896;
const DAY: i64 = 86_400;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonTxn {
    parameters: Vec<JsonParameter>,
    transactions: Vec<JsonTransaction>,
    #[serde(default)]
    rows: Vec<JsonRows>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRows {
    columns: Vec<Vec<JsonCell>>,
    own: bool,
    rand_type: String,
    rand: JsonRand,
}

/// A whole number, bytes in hexadecimal, or null.
#[derive(Deserialize)]
#[serde(untagged)]
enum JsonCell {
    Integer(i64),
    Bytes(String),
    Null(()),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonTransaction {
    name: String,
    weight: u32,
    explicit: bool,
    think_us: u64,
    exponential: bool,
    statements: Vec<JsonStatement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonStatement {
    name: String,
    sql: String,
    place: String,
    parameters: Vec<usize>,
    fresh: Vec<usize>,
    repeat: u32,
    writes: bool,
    think_us: u64,
    exponential: bool,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum JsonParameter {
    Integer {
        low: i64,
        high: i64,
        rand_type: String,
        rand: JsonRand,
    },
    Decimal {
        low: i64,
        high: i64,
        digits: u32,
        rand_type: String,
        rand: JsonRand,
    },
    Choice {
        values: Vec<JsonChoice>,
        weights: Vec<u32>,
    },
    Sequence {
        start: i64,
        step: i64,
        shared: bool,
    },
    Connection {},
    Text {
        low: u32,
        high: u32,
        alphabet: String,
    },
    Pattern {
        pattern: String,
    },
    RowText {
        groups: u32,
    },
    Uuid {
        ascending: bool,
        binary: bool,
    },
    Datetime {
        low: i64,
        high: i64,
    },
    Date {
        low: i64,
        high: i64,
    },
    Now {},
    Column {
        rows: usize,
        column: usize,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum JsonChoice {
    Integer(i64),
    Text(String),
}

/// The transactions, checked.
pub(crate) fn txn(json: JsonTxn) -> Result<Txn, Error> {
    let count = json.parameters.len();
    let transactions: Vec<_> = json
        .transactions
        .into_iter()
        .map(|transaction| self::transaction(transaction, count))
        .collect::<Result<_, _>>()?;
    if transactions.iter().all(|transaction| transaction.weight == 0) {
        return Err(Error::usage("no transaction has a weight above 0"));
    }
    let sets: Vec<_> = json.rows.into_iter().map(rows).collect::<Result<_, _>>()?;
    Ok(Txn {
        generators: json
            .parameters
            .into_iter()
            .map(|parameter| generator(parameter, &sets))
            .collect::<Result<_, _>>()?,
        sets: sets.len(),
        transactions,
    })
}

fn rows(json: JsonRows) -> Result<Arc<Rows>, Error> {
    let columns: Vec<Vec<Cell>> = json
        .columns
        .into_iter()
        .map(|cells| cells.into_iter().map(cell).collect())
        .collect::<Result<_, _>>()?;
    let count = columns.first().map_or(0, Vec::len);
    if count == 0 || columns.iter().any(|cells| cells.len() != count) {
        return Err(Error::usage(
            "rows have columns of the same length, which is not 0",
        ));
    }
    Ok(Arc::new(Rows {
        columns,
        count: u32::try_from(count).map_err(|_| Error::usage("too many rows"))?,
        own: json.own,
        distribution: json.rand.distribution(&json.rand_type)?,
    }))
}

fn cell(json: JsonCell) -> Result<Cell, Error> {
    let wrong = || Error::usage("bytes of a row are not hexadecimal");
    Ok(match json {
        JsonCell::Integer(integer) => Cell::Integer(integer),
        JsonCell::Null(()) => Cell::Null,
        JsonCell::Bytes(text) if text.len() % 2 == 0 => {
            let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(wrong);
            let byte = |pair: &[u8]| Ok((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
            Cell::Bytes(
                text.as_bytes()
                    .chunks(2)
                    .map(byte)
                    .collect::<Result<_, Error>>()?,
            )
        }
        JsonCell::Bytes(_) => return Err(wrong()),
    })
}

fn transaction(json: JsonTransaction, parameters: usize) -> Result<Transaction, Error> {
    if json.statements.is_empty() {
        return Err(Error::usage(format!(
            "transaction {:?} has no statement",
            json.name
        )));
    }
    Ok(Transaction {
        weight: json.weight,
        explicit: json.explicit,
        think: think(json.think_us, json.exponential),
        statements: json
            .statements
            .into_iter()
            .map(|statement| sentence(statement, parameters))
            .collect::<Result<_, _>>()?,
        name: json.name,
    })
}

fn sentence(json: JsonStatement, parameters: usize) -> Result<Sentence, Error> {
    within("repeat", json.repeat, 1, MAX_REPEAT)?;
    if json
        .parameters
        .iter()
        .chain(&json.fresh)
        .any(|&number| number >= parameters)
    {
        return Err(Error::usage(format!(
            "{}: a parameter that there is not",
            json.place
        )));
    }
    Ok(Sentence {
        name: json.name,
        sql: json.sql,
        place: json.place,
        parameters: json.parameters,
        fresh: json.fresh,
        repeat: json.repeat,
        writes: json.writes,
        think: think(json.think_us, json.exponential),
    })
}

fn think(mean_us: u64, exponential: bool) -> Think {
    Think {
        mean: Duration::from_micros(mean_us),
        exponential,
    }
}

fn generator(json: JsonParameter, sets: &[Arc<Rows>]) -> Result<Generator, Error> {
    Ok(match json {
        JsonParameter::Integer {
            low,
            high,
            rand_type,
            rand,
        } => Generator::Integer {
            low,
            high: ordered("integer", low, high)?,
            distribution: rand.distribution(&rand_type)?,
        },
        JsonParameter::Decimal {
            low,
            high,
            digits,
            rand_type,
            rand,
        } => {
            within("digits", digits, 0, MAX_DIGITS)?;
            Generator::Decimal {
                low,
                high: ordered("decimal", low, high)?,
                digits,
                distribution: rand.distribution(&rand_type)?,
            }
        }
        JsonParameter::Choice { values, weights } => choice(values, &weights)?,
        JsonParameter::Sequence {
            start,
            step,
            shared: true,
        } => Generator::SharedSequence {
            next: Arc::new(AtomicI64::new(start)),
            step,
        },
        JsonParameter::Sequence { start, step, .. } => Generator::Sequence { next: start, step },
        JsonParameter::Connection {} => Generator::Connection { number: 0 },
        JsonParameter::Text { low, high, alphabet } => {
            within("length", high, 0, MAX_TEXT)?;
            ordered("text", i64::from(low), i64::from(high))?;
            template(Template::characters(&alphabet, low, high))?
        }
        JsonParameter::Pattern { pattern } => template(Template::parse(&pattern))?,
        JsonParameter::RowText { groups } => {
            within("groups", groups, 1, MAX_GROUPS)?;
            Generator::RowText { groups }
        }
        JsonParameter::Uuid { ascending, binary } => Generator::Uuid { ascending, binary },
        JsonParameter::Datetime { low, high } => {
            of_the_calendar(low.div_euclid(DAY), high.div_euclid(DAY))?;
            Generator::DateTime {
                low,
                high: ordered("datetime", low, high)?,
            }
        }
        JsonParameter::Date { low, high } => {
            of_the_calendar(low, high)?;
            Generator::Date {
                low,
                high: ordered("date", low, high)?,
            }
        }
        JsonParameter::Now {} => Generator::Now,
        JsonParameter::Column { rows: set, column } => {
            let rows = sets.get(set).filter(|rows| column < rows.columns.len());
            let rows = rows
                .ok_or_else(|| Error::usage("a column that there is not"))?
                .clone();
            Generator::Column { rows, set, column }
        }
    })
}

fn template(parsed: Result<Template, flushlab_generate::Error>) -> Result<Generator, Error> {
    let template = parsed.map_err(|error| Error::usage(error.message))?;
    Ok(Generator::Pattern {
        template: Arc::new(template),
    })
}

fn choice(values: Vec<JsonChoice>, weights: &[u32]) -> Result<Generator, Error> {
    if values.is_empty() || values.len() != weights.len() {
        return Err(Error::usage("a choice has values, and a weight for each"));
    }
    let mut sum = 0;
    let values: Vec<_> = values
        .into_iter()
        .zip(weights)
        .map(|(value, &weight)| {
            sum += u64::from(weight);
            let choice = match value {
                JsonChoice::Integer(integer) => Choice::Integer(integer),
                JsonChoice::Text(text) => Choice::Text(text),
            };
            (sum, choice)
        })
        .collect();
    if sum == 0 {
        return Err(Error::usage("no value of a choice has a weight above 0"));
    }
    Ok(Generator::Choice {
        values: values.into(),
    })
}

fn ordered(what: &str, low: i64, high: i64) -> Result<i64, Error> {
    if low <= high {
        return Ok(high);
    }
    Err(Error::usage(format!("{what}: {low} to {high} is no range")))
}

fn of_the_calendar(low: i64, high: i64) -> Result<(), Error> {
    if DAYS.contains(&low) && DAYS.contains(&high) {
        return Ok(());
    }
    Err(Error::usage("a date is of the years 0 to 9999"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(change: impl Fn(&mut serde_json::Value)) -> Result<Txn, String> {
        let mut value = serde_json::json!({
            "parameters": [
                {"kind": "integer", "low": 1, "high": 9, "rand_type": "zipfian", "rand": {
                    "spec_iter": 12, "spec_pct": 1, "spec_res": 75, "pareto_h": 0.2, "zipfian_exp": 0.9}},
                {"kind": "choice", "values": ["a", 2], "weights": [1, 3]},
                {"kind": "now"},
            ],
            "transactions": [{
                "name": "order", "weight": 2, "explicit": true, "think_us": 1500, "exponential": true,
                "statements": [{
                    "name": "INSERT", "sql": "INSERT INTO t VALUES (?, ?)", "place": "f:1:1",
                    "parameters": [0, 1], "fresh": [1], "repeat": 3, "writes": true, "think_us": 0,
                    "exponential": false,
                }],
            }],
        });
        change(&mut value);
        let json = serde_json::from_value(value).map_err(|error| error.to_string())?;
        txn(json).map_err(|error| error.message)
    }

    #[test]
    fn transactions_as_msgspec_writes_them_are_read() {
        let txn = read(|_| ()).unwrap();
        assert_eq!((txn.generators.len(), txn.transactions.len()), (3, 1));
        let transaction = &txn.transactions[0];
        assert_eq!(transaction.think.mean, Duration::from_micros(1500));
        assert_eq!(
            (transaction.statements[0].repeat, transaction.explicit),
            (3, true)
        );
    }

    #[test]
    fn rows_are_read() {
        let with_rows = |columns: serde_json::Value, column: usize| {
            read(|v| {
                v["rows"] = serde_json::json!([{"columns": columns, "own": true, "rand_type": "uniform",
                    "rand": v["parameters"][0]["rand"]}]);
                v["parameters"][2] = serde_json::json!({"kind": "column", "rows": 0, "column": column});
            })
        };
        let txn = with_rows(serde_json::json!([[1, 2], ["00fF", null]]), 1).unwrap();
        let Generator::Column { rows, column: 1, .. } = &txn.generators[2] else {
            panic!("{:?}", txn.generators[2])
        };
        assert_eq!(rows.columns[1], [Cell::Bytes(vec![0, 255]), Cell::Null]);
        let refusal = |columns, column| with_rows(columns, column).unwrap_err();
        assert!(refusal(serde_json::json!([[1], [2]]), 2).contains("a column that there is not"));
        assert!(refusal(serde_json::json!([[1], [2, 3]]), 0).contains("the same length"));
        assert!(refusal(serde_json::json!([[], []]), 0).contains("not 0"));
        for odd in ["0", "0g", "é"] {
            assert!(refusal(serde_json::json!([[odd]]), 0).contains("not hexadecimal"));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refusal = |change: fn(&mut serde_json::Value)| read(change).unwrap_err();
        assert!(
            refusal(|v| v["transactions"][0]["weight"] = 0.into()).contains("no transaction has a weight")
        );
        assert!(
            refusal(|v| v["transactions"][0]["statements"] = serde_json::json!([])).contains("no statement")
        );
        assert!(
            refusal(|v| v["transactions"][0]["statements"][0]["fresh"] = serde_json::json!([3]))
                .contains("f:1:1: a parameter that there is not")
        );
        assert!(
            refusal(|v| v["transactions"][0]["statements"][0]["repeat"] = 0.into()).contains("repeat is 0")
        );
        assert!(refusal(|v| v["parameters"][0]["low"] = 10.into()).contains("10 to 9 is no range"));
        assert!(
            refusal(|v| v["parameters"][1]["weights"] = serde_json::json!([0, 0])).contains("weight above 0")
        );
        assert!(
            refusal(|v| v["parameters"][1]["weights"] = serde_json::json!([1])).contains("a weight for each")
        );
        assert!(refusal(|v| v["parameters"][2]["kind"] = "later".into()).contains("unknown variant"));
        assert!(refusal(|v| v["parameters"][2]["digits"] = 6.into()).contains("digits"));
    }
}
