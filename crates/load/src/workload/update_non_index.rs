use flushlab_rows::distribution::Distribution;
use flushlab_rows::shape::{write_c, C_LENGTH};
use flushlab_rows::Random;
use flushlab_wire::command::Param;

use super::{Effect, Workload};
use crate::connection::{Connection, Statement};
use crate::spec::LoadSpec;
use crate::Error;

/// sysbench 1.0.20's oltp_update_non_index.lua: one prepared UPDATE of `c`, autocommitted, without
/// BEGIN; the table uniform, the id by the default distribution.
pub(super) struct UpdateNonIndex {
    statements: Vec<Statement>,
    table_size: u32,
    distribution: Distribution,
}

impl UpdateNonIndex {
    pub fn open(connection: &mut Connection, spec: &LoadSpec) -> Result<Self, Error> {
        let statements = (1..=spec.tables)
            .map(|table| connection.prepare(&format!("UPDATE sbtest{table} SET c=? WHERE id=?")))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            statements,
            table_size: spec.table_size,
            distribution: spec.distribution,
        })
    }
}

impl Workload for UpdateNonIndex {
    #[inline]
    fn event(&mut self, connection: &mut Connection, random: &mut Random) -> Result<Effect, Error> {
        let table = random.below(self.statements.len() as u64) as usize;
        let mut c = [0; C_LENGTH];
        write_c(&mut c, random);
        let id = self.distribution.draw(random, 1, self.table_size) as i32;
        let params = [Param::Char(&c), Param::Int(id)];
        connection.execute(&mut self.statements[table], params.into_iter())?;
        Ok(Effect::TRANSACTION)
    }
}
