//! Stages of ordered group commit: a queue whose first becomes the leader of those behind.

use crate::sync::{locked, Mutex};

/// A queue before a stage.
#[derive(Debug)]
pub(crate) struct Stage {
    queue: Mutex<Vec<u32>>,
}

impl Stage {
    /// An empty queue with room for everybody.
    pub(crate) fn new(room: usize) -> Self {
        Self {
            queue: Mutex::new(Vec::with_capacity(room)),
        }
    }

    /// Queues up a group in its order. `true`: it is the first, and its leader leads all that come before
    /// [`take`](Self::take); `false`: somebody else does.
    pub(crate) fn enter(&self, group: &[u32]) -> bool {
        let mut queue = locked(&self.queue);
        let first = queue.is_empty();
        queue.extend_from_slice(group);
        first
    }

    /// Takes over the queue: the leader's part, once. The next to enter leads again.
    pub(crate) fn take(&self, group: &mut Vec<u32>) {
        group.clear();
        std::mem::swap(&mut *locked(&self.queue), group);
    }
}
