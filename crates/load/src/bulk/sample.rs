//! Single rows of a plan, to compare with what a server has.

use flushlab_generate::{Format, Plan};

use super::spec::unwritable;
use crate::Error;

/// Those rows of a table, as the VALUES of one INSERT.
///
/// # Errors
/// [`crate::ErrorKind::Usage`]: the plan cannot be read, or has no such table or row.
pub fn sample_rows(plan: &str, table: &str, rows: &[u64]) -> Result<Vec<u8>, Error> {
    let plan = Plan::parse(plan.as_bytes()).map_err(unwritable)?;
    let found = plan.tables().iter().find(|one| one.name() == table);
    let found = found.ok_or_else(|| Error::usage(format!("the plan has no table {table:?}")))?;
    let mut out = Vec::new();
    for &row in rows {
        if row >= found.rows() {
            return Err(Error::usage(format!("the table {table:?} has no row {row}")));
        }
        if !out.is_empty() {
            out.push(b',');
        }
        found
            .write_row(row, Format::Values, &mut out)
            .map_err(unwritable)?;
    }
    Ok(out)
}
