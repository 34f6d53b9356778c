//! What a session is set to, so that another connection can be set to the same.

use std::collections::BTreeMap;

use crate::connection::Connection;
use crate::Error;

/// What is of a connection, of the moment or of the last statement, and cannot make a difference to rows of literals
/// or to the building of an index. A timestamp that is set is asked for apart; everything here is committed.
const OF_THE_CONNECTION: [&str; 14] = [
    "autocommit",
    "error_count",
    "external_user",
    "identity",
    "in_transaction",
    "insert_id",
    "last_gtid",
    "last_insert_id",
    "proxy_user",
    "pseudo_thread_id",
    "statement_id",
    "timestamp",
    "uptime",
    "warning_count",
];

/// Beginnings of such names.
const OF_THE_MOMENT: [&str; 2] = ["rand_seed", "gtid_"];

/// The variables of a session and its default database.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionState {
    database: Option<String>,
    variables: BTreeMap<String, String>,
}

impl SessionState {
    /// As the connection's session is.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Server`]: the server does not say.
    pub fn of(connection: &mut Connection) -> Result<Self, Error> {
        let mut variables = BTreeMap::new();
        for row in connection.rows("SHOW SESSION VARIABLES")? {
            if let [Some(name), value] = &row[..] {
                let of_the_moment = OF_THE_MOMENT.iter().any(|one| name.starts_with(one));
                if !of_the_moment && !OF_THE_CONNECTION.contains(&name.as_str()) {
                    variables.insert(name.clone(), value.clone().unwrap_or_default());
                }
            }
        }
        let database = connection.rows("SELECT DATABASE()")?.into_iter().flatten().next();
        Ok(Self {
            database: database.flatten(),
            variables,
        })
    }

    /// Sets the connection's session to the same; whether it is.
    pub fn put_on(&self, connection: &mut Connection) -> bool {
        self.try_on(connection).unwrap_or(false)
    }

    fn try_on(&self, connection: &mut Connection) -> Result<bool, Error> {
        let there = Self::of(connection)?;
        if there == *self {
            return Ok(true);
        }
        if let Some(database) = self.database.as_ref().filter(|_| self.database != there.database) {
            connection.query(&format!("USE `{}`", database.replace('`', "``")))?;
        }
        for (name, value) in &self.variables {
            if there.variables.get(name) != Some(value) {
                let number = value.parse::<f64>().is_ok_and(f64::is_finite);
                let value = match number {
                    true => value.clone(),
                    false => format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''")),
                };
                // Some cannot be set; whether that matters shows below.
                match connection.query(&format!("SET SESSION {name} = {value}")) {
                    Err(error) if error.errno.is_none() => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(Self::of(connection)? == *self)
    }
}
