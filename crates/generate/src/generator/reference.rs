use std::sync::Arc;

use super::column::Column;
use crate::draw::Draw;
use crate::index::Index;

/// A foreign key: the value that a row of the parent table has, made again from its number.
#[derive(Debug)]
pub(crate) struct Reference {
    pub parent: Arc<Column>,
    pub index: Index,
    /// Whether the parent is in the same table; then it is an earlier row, and for the first row that row itself.
    pub own_table: bool,
}

impl Reference {
    #[inline]
    fn parent_row(&self, row: u64, draw: &mut Draw) -> u64 {
        let parent = self.index.of(row, draw);
        if self.own_table && parent >= row {
            parent % row.max(1)
        } else {
            parent
        }
    }

    pub fn is_null(&self, row: u64, draw: &mut Draw) -> bool {
        self.parent.can_be_null() && self.parent.is_null(self.parent_row(row, draw))
    }

    #[inline]
    pub fn put(&self, row: u64, draw: &mut Draw, out: &mut Vec<u8>) {
        self.parent.put(self.parent_row(row, draw), out);
    }
}
