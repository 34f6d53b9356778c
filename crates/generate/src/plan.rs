//! From the JSON of a plan of `fill` to tables whose rows can be written.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::draw;
use crate::generator::column::Column;
use crate::generator::{Cell, JsonGenerator, Site};
use crate::index::Index;
use crate::{Error, Table};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonPlan {
    seed: u64,
    tables: Vec<JsonTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonTable {
    name: String,
    rows: u64,
    columns: Vec<JsonColumn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonColumn {
    name: String,
    generator: JsonGenerator,
    /// Share of NULLs.
    #[serde(default)]
    null: f64,
    /// Whether no value comes twice.
    #[serde(default)]
    unique: bool,
    /// The name of a key whose columns are unique together.
    #[serde(default)]
    together: Option<String>,
    /// What those columns have in common that refer to the same row of a parent.
    #[serde(default)]
    same_row: Option<String>,
    /// Whether it is a BIT.
    #[serde(default)]
    bits: bool,
}

/// What tables to fill, and with what.
#[derive(Debug)]
pub struct Plan {
    tables: Vec<Table>,
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// It is none, refers to what is not there, or asks for more unique values than there are.
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        let plan: JsonPlan =
            serde_json::from_slice(json).map_err(|error| Error::new(format!("not a plan: {error}")))?;
        let mut builder = Builder {
            plan: &plan,
            columns: HashMap::new(),
        };
        let mut tables = Vec::new();
        for (number, table) in plan.tables.iter().enumerate() {
            let columns = (0..table.columns.len()).map(|column| builder.column(number, column));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            tables.push(Table::new(&table.name, table.rows, columns));
        }
        Ok(Self { tables })
    }

    /// Its tables, in the plan's order.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }
}

/// Builds columns after those that they refer to.
struct Builder<'a> {
    plan: &'a JsonPlan,
    /// By the numbers of table and column; `None` while it is being built.
    columns: HashMap<(usize, usize), Option<Arc<Column>>>,
}

/// A column to be built, in its place.
struct Place<'a, 'b> {
    builder: &'a mut Builder<'b>,
    table: usize,
    column: usize,
    key: u64,
}

impl Builder<'_> {
    fn column(&mut self, table: usize, column: usize) -> Result<Arc<Column>, Error> {
        let (json_table, json) = (&self.plan.tables[table], &self.plan.tables[table].columns[column]);
        match self.columns.get(&(table, column)) {
            Some(Some(built)) => return Ok(built.clone()),
            Some(None) => {
                return Err(Error::new("its value depends on itself").of(&json_table.name, &json.name));
            }
            None => {}
        }
        self.columns.insert((table, column), None);
        let drawn_as = json
            .together
            .as_ref()
            .or(json.same_row.as_ref())
            .unwrap_or(&json.name);
        let key = draw::key(self.plan.seed, &json_table.name, drawn_as);
        let mut place = Place {
            builder: self,
            table,
            column,
            key,
        };
        let built = place
            .build(json)
            .map_err(|error| error.of(&json_table.name, &json.name))?;
        let built = Arc::new(built);
        self.columns.insert((table, column), Some(built.clone()));
        Ok(built)
    }
}

impl Place<'_, '_> {
    fn build(&mut self, json: &JsonColumn) -> Result<Column, Error> {
        if !(0.0..=1.0).contains(&json.null) {
            return Err(Error::new(format!("null is {}; it takes 0 to 1", json.null)));
        }
        let index = self.unique_index(json)?;
        let cell = json.generator.build(self, index)?;
        if json.unique && !cell.unique {
            return Err(Error::new(format!(
                "{} cannot give unique values",
                json.generator.name()
            )));
        }
        Ok(Column::new(&json.name, self.key, json.null, json.bits, cell))
    }

    /// The numbers of its values, if they must not come twice and the generator does not see to that itself.
    fn unique_index(&mut self, json: &JsonColumn) -> Result<Option<Index>, Error> {
        let Some(count) = json.generator.count(self)? else {
            return Ok(None);
        };
        if json.unique {
            self.enough(count)?;
            return Ok(Some(Index::unique(count - 1, self.key)));
        }
        let Some(together) = &json.together else {
            return Ok(None);
        };
        let (mut combinations, mut divisor) = (1u64, 1);
        let mut parents: Vec<(&String, u64)> = Vec::new();
        let table = &self.builder.plan.tables[self.table];
        for (number, other) in table.columns.iter().enumerate() {
            if other.together.as_ref() != Some(together) {
                continue;
            }
            if other.unique || other.generator.is_unique()? {
                return Ok(None);
            }
            // What refers to the same row is one choice, not several.
            let shared = other
                .same_row
                .as_ref()
                .and_then(|row| parents.iter().find(|(seen, _)| *seen == row));
            if number == self.column {
                divisor = shared.map_or(combinations, |(_, divisor)| *divisor);
            }
            if shared.is_some() {
                continue;
            }
            parents.extend(other.same_row.as_ref().map(|row| (row, combinations)));
            combinations = combinations.saturating_mul(other.generator.count(self)?.unwrap_or(1));
        }
        self.enough(combinations)?;
        Ok(Some(Index::combined(count - 1, self.key, combinations, divisor)))
    }

    fn enough(&self, count: u64) -> Result<(), Error> {
        let rows = self.rows();
        if count < rows {
            return Err(Error::new(format!(
                "there are {count} different values for {rows} unique rows"
            )));
        }
        Ok(())
    }

    fn find_table(&self, name: &str) -> Result<usize, Error> {
        let tables = &self.builder.plan.tables;
        let found = tables.iter().position(|table| table.name == name);
        found.ok_or_else(|| Error::new(format!("there is no table {name} in the plan")))
    }

    fn find_column(&mut self, table: usize, name: &str) -> Result<Arc<Column>, Error> {
        let in_table = &self.builder.plan.tables[table];
        let found = in_table.columns.iter().position(|column| column.name == name);
        let column =
            found.ok_or_else(|| Error::new(format!("there is no column {name} in {}", in_table.name)))?;
        let built = self.builder.column(table, column)?;
        if built.is_given() {
            return Err(Error::new(format!(
                "{name} is made by Python, and nothing can be made of it"
            )));
        }
        Ok(built)
    }
}

impl Site for Place<'_, '_> {
    fn key(&self) -> u64 {
        self.key
    }

    fn rows(&self) -> u64 {
        self.builder.plan.tables[self.table].rows
    }

    fn rows_of(&self, table: &str) -> Result<u64, Error> {
        Ok(self.builder.plan.tables[self.find_table(table)?].rows)
    }

    fn is_own_table(&self, table: &str) -> bool {
        self.builder.plan.tables[self.table].name == table
    }

    fn column_of(&mut self, table: &str, column: &str) -> Result<Arc<Column>, Error> {
        let table = self.find_table(table)?;
        self.find_column(table, column)
    }

    fn sibling(&mut self, column: &str) -> Result<Arc<Column>, Error> {
        self.find_column(self.table, column)
    }

    fn inner(&mut self, name: &str, null: f64, json: &JsonGenerator) -> Result<Column, Error> {
        let outer = self.key;
        self.key = draw::key(outer, "", name);
        let cell: Result<Cell, Error> = json.build(self, None);
        let built = cell.map(|cell| Column::new(name, self.key, null, false, cell));
        self.key = outer;
        built
    }
}
