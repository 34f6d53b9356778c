//! What rows promise, over all generators: the same bytes however they are split, and no unique value twice.

use std::collections::HashSet;

use flushlab_generate::{Format, Plan};

const FORMATS: [Format; 2] = [Format::LoadData, Format::Values];

/// A column of each generator, most of them twice: plain, and with NULLs or unique.
const ALL: &str = r#"{"seed": 7, "tables": [
  {"name": "parent", "rows": 50, "columns": [
    {"name": "id", "generator": {"kind": "sequence", "start": -3, "step": 2}},
    {"name": "name", "generator": {"kind": "pattern", "pattern": "it's \\\\ {n:03}, [a-c]{0,2}"}}]},
  {"name": "t", "rows": 1000, "columns": [
    {"name": "id", "generator": {"kind": "integer", "low": 1, "high": 1000}, "unique": true},
    {"name": "i", "generator": {"kind": "integer", "low": -9223372036854775808, "high": 9223372036854775807}, "null": 0.5},
    {"name": "d", "generator": {"kind": "decimal", "low": -500, "high": 500, "digits": 2}},
    {"name": "day", "generator": {"kind": "date", "low": 0, "high": 20000}, "unique": true},
    {"name": "at", "generator": {"kind": "datetime", "low": 0, "high": 1000000000000, "digits": 3,
      "distribution": {"name": "ascending"}}},
    {"name": "t", "generator": {"kind": "text", "low": 0, "high": 20, "alphabet": "ab\t\n\\'\",x"}},
    {"name": "u", "generator": {"kind": "text", "low": 3, "high": 5, "alphabet": "abcdefghijABCDEFGHIJ"}, "unique": true},
    {"name": "r", "generator": {"kind": "row_text", "groups": 2}},
    {"name": "c", "generator": {"kind": "choice", "values": ["a", "", 3], "weights": [1, 2, 3]}},
    {"name": "p", "generator": {"kind": "pattern", "pattern": "[A-Z]{2}-\\d{2}/{c}"}},
    {"name": "q", "generator": {"kind": "pattern", "pattern": "[A-F]{2}-\\d{2}"}, "unique": true},
    {"name": "e", "generator": {"kind": "pattern", "pattern": "user{n}@email.com"}, "unique": true},
    {"name": "f", "generator": {"kind": "foreign_key", "table": "parent", "column": "name",
      "distribution": {"name": "zipf", "exponent": 1.0}}},
    {"name": "own", "generator": {"kind": "foreign_key", "table": "t", "column": "id"}},
    {"name": "k", "generator": {"kind": "constant", "value": "k"}},
    {"name": "u4", "generator": {"kind": "uuid", "binary": false}},
    {"name": "u7", "generator": {"kind": "uuid", "start_ms": 1700000000000, "binary": true}},
    {"name": "g", "generator": {"kind": "geometry", "shape": "polygon", "low_x": -180.0, "high_x": 180.0,
      "low_y": -90.0, "high_y": 90.0, "srid": 4326}},
    {"name": "h", "generator": {"kind": "time", "low": -3020399, "high": 3020399}},
    {"name": "w", "generator": {"kind": "bcrypt", "password": "x", "cost": 4, "distinct": false}},
    {"name": "b", "generator": {"kind": "bytes", "low": 0, "high": 9}, "null": 0.1},
    {"name": "j", "generator": {"kind": "json", "fields": [
      {"name": "a\"b", "generator": {"kind": "text", "low": 0, "high": 5, "alphabet": "\"\\\u0001x"}},
      {"name": "n", "null": 0.5, "generator": {"kind": "decimal", "low": -5, "high": 5, "digits": 1}}]}}]}]}"#;

fn plan(json: &str) -> Plan {
    Plan::parse(json.as_bytes()).unwrap()
}

fn one_column(rows: u64, column: &str) -> Result<Plan, String> {
    let json = format!(r#"{{"seed":1,"tables":[{{"name":"t","rows":{rows},"columns":[{column}]}}]}}"#);
    Plan::parse(json.as_bytes()).map_err(|error| error.to_string())
}

/// The cells of a table's rows; none of them may hold what separates them.
fn cells(plan: &Plan, table: usize) -> Vec<Vec<String>> {
    let table = &plan.tables()[table];
    let mut out = Vec::new();
    table
        .write_rows(0..table.rows(), Format::LoadData, &mut out)
        .unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

#[test]
fn rows_are_the_same_however_they_are_split() {
    let plan = plan(ALL);
    for table in plan.tables() {
        for format in FORMATS {
            let mut whole = Vec::new();
            table.write_rows(0..table.rows(), format, &mut whole).unwrap();
            let part = |from: u64| {
                let mut part = Vec::new();
                table
                    .write_rows(from..table.rows().min(from + 7), format, &mut part)
                    .unwrap();
                part
            };
            // The last parts first, two at a time.
            let mut parts: Vec<Vec<u8>> = Vec::new();
            for from in (0..table.rows())
                .step_by(14)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
            {
                std::thread::scope(|scope| {
                    let (one, other) = (
                        scope.spawn(move || part(from)),
                        scope.spawn(move || part(from + 7)),
                    );
                    let (one, other) = (one.join().unwrap(), other.join().unwrap());
                    parts.extend([other, one].into_iter().filter(|part| !part.is_empty()));
                });
            }
            parts.reverse();
            let split = parts.join(if format == Format::Values { &b","[..] } else { b"" });
            let mut single = Vec::new();
            for row in 0..table.rows() {
                if format == Format::Values && row > 0 {
                    single.push(b',');
                }
                table.write_row(row, format, &mut single).unwrap();
            }
            assert!(
                whole == split && whole == single,
                "{} as {format:?}",
                table.name()
            );
        }
    }
}

#[test]
fn another_column_changes_nothing_in_those_there_are() {
    let (all, fewer) = (
        plan(ALL),
        ALL.replace(
            r#"{"name": "r", "generator": {"kind": "row_text", "groups": 2}},"#,
            "",
        ),
    );
    let (all, fewer) = (cells(&all, 1), cells(&plan(&fewer), 1));
    for (one, other) in all.iter().zip(&fewer) {
        assert_eq!((&one[..7], &one[8..]), (&other[..7], &other[7..]));
    }
}

#[test]
fn the_seed_decides_what_is_drawn() {
    let other = cells(&plan(&ALL.replace("\"seed\": 7", "\"seed\": 8")), 1);
    let one = cells(&plan(ALL), 1);
    let same = one.iter().zip(&other).filter(|(one, other)| one[7] == other[7]);
    assert_eq!(same.count(), 0);
}

#[test]
fn unique_columns_never_repeat() {
    let rows = cells(&plan(ALL), 1);
    for column in [0, 3, 6, 10, 11] {
        let seen: HashSet<String> = rows.iter().map(|row| row[column].to_lowercase()).collect();
        assert_eq!(seen.len(), rows.len(), "column {column}");
    }
}

#[test]
fn a_full_permutation_is_every_number_of_its_range() {
    let mut ids: Vec<u64> = cells(&plan(ALL), 1)
        .iter()
        .map(|row| row[0].parse().unwrap())
        .collect();
    assert!(ids.windows(2).any(|pair| pair[0] > pair[1]), "scattered");
    ids.sort_unstable();
    assert_eq!(ids, (1..=1000).collect::<Vec<_>>());
}

#[test]
fn columns_are_unique_together() {
    let plan = plan(
        r#"{"seed": 1, "tables": [{"name": "o", "rows": 9, "columns": [
            {"name": "id", "generator": {"kind": "sequence", "start": 1, "step": 1}}]},
          {"name": "line", "rows": 54, "columns": [
            {"name": "o", "generator": {"kind": "foreign_key", "table": "o", "column": "id"}, "together": "key"},
            {"name": "nr", "generator": {"kind": "integer", "low": 1, "high": 6}, "together": "key"}]}]}"#,
    );
    let seen: HashSet<Vec<String>> = cells(&plan, 1).into_iter().collect();
    assert_eq!(seen.len(), 54);
}

#[test]
fn a_foreign_key_of_two_columns_is_one_choice_in_a_key() {
    let plan = plan(
        r#"{"seed": 1, "tables": [{"name": "p", "rows": 10, "columns": [
            {"name": "a", "generator": {"kind": "integer", "low": 1, "high": 100}, "unique": true},
            {"name": "b", "generator": {"kind": "integer", "low": 1, "high": 100}, "unique": true}]},
          {"name": "c", "rows": 30, "columns": [
            {"name": "nr", "generator": {"kind": "integer", "low": 1, "high": 3}, "together": "k"},
            {"name": "a", "generator": {"kind": "foreign_key", "table": "p", "column": "a"},
              "together": "k", "same_row": "fk"},
            {"name": "b", "generator": {"kind": "foreign_key", "table": "p", "column": "b"},
              "together": "k", "same_row": "fk"}]}]}"#,
    );
    let parents: HashSet<Vec<String>> = cells(&plan, 0).into_iter().collect();
    let children = cells(&plan, 1);
    assert!(children.iter().all(|row| parents.contains(&row[1..])));
    assert_eq!(children.into_iter().collect::<HashSet<_>>().len(), 30);
}

#[test]
fn a_foreign_key_of_two_columns_is_one_row_of_the_parent() {
    let plan = plan(
        r#"{"seed": 1, "tables": [{"name": "p", "rows": 100, "columns": [
            {"name": "a", "generator": {"kind": "integer", "low": 1, "high": 1000}},
            {"name": "b", "generator": {"kind": "text", "low": 5, "high": 5, "alphabet": "abc"}}]},
          {"name": "c", "rows": 300, "columns": [
            {"name": "a", "generator": {"kind": "foreign_key", "table": "p", "column": "a"}, "same_row": "fk", "null": 0.2},
            {"name": "b", "generator": {"kind": "foreign_key", "table": "p", "column": "b"}, "same_row": "fk", "null": 0.2}]}]}"#,
    );
    let parents: HashSet<Vec<String>> = cells(&plan, 0).into_iter().collect();
    let children = cells(&plan, 1);
    let (none, some): (Vec<_>, Vec<_>) = children.into_iter().partition(|row| row[0] == "\\N");
    assert!(none.iter().all(|row| row[1] == "\\N") && (30..90).contains(&none.len()));
    assert!(some.iter().all(|row| parents.contains(row)));
}

#[test]
fn a_row_of_the_same_table_is_an_earlier_one() {
    let rows = cells(&plan(ALL), 1);
    let ids: Vec<&String> = rows.iter().map(|row| &row[0]).collect();
    for (number, row) in rows.iter().enumerate() {
        assert!(ids[..number.max(1)].contains(&&row[13]), "row {number}");
    }
}

#[test]
fn nulls_have_their_share() {
    let nulls = cells(&plan(ALL), 1).iter().filter(|row| row[1] == "\\N").count();
    // n = 1000, p = 0.5: sigma = 16; six sigma is 95.
    assert!(nulls.abs_diff(500) < 95, "{nulls}");
    for share in ["0", "1"] {
        let plan = one_column(
            100,
            &format!(r#"{{"name":"c","null":{share},"generator":{{"kind":"constant","value":7}}}}"#),
        );
        let due = if share == "1" { "\\N" } else { "7" };
        assert!(cells(&plan.unwrap(), 0).iter().all(|row| row[0] == due));
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let integer = r#"{"kind":"integer","low":1,"high":9}"#;
    for (column, why) in [
        (format!(r#"{{"name":"c","unique":true,"generator":{integer}}}"#), "t.c: there are 9 different values for 10 unique rows"),
        (r#"{"name":"c","generator":{"kind":"foreign_key","table":"x","column":"c"}}"#.to_owned(), "t.c: there is no table x"),
        (r#"{"name":"c","generator":{"kind":"foreign_key","table":"t","column":"c"}}"#.to_owned(), "depends on itself"),
        (r#"{"name":"c","generator":{"kind":"pattern","pattern":"{d}"}}"#.to_owned(), "no column d in t"),
        (r#"{"name":"c","unique":true,"generator":{"kind":"row_text","groups":1}}"#.to_owned(), "row_text cannot give unique"),
        (r#"{"name":"c","generator":{"kind":"integer","low":9,"high":1}}"#.to_owned(), "low is 9 and high is 1"),
        (r#"{"name":"c","generator":{"kind":"integer","low":1,"high":9,"distribution":{"name":"pareto","h":2.0}}}"#.to_owned(), "out of range"),
    ] {
        let error = one_column(10, &column).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
