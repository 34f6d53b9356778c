//! Who waits for the connections. Measured in docs/decisions/0006-load-engine.md.

pub(crate) mod blocking;
pub(crate) mod polling;

use std::time::Duration;

/// Longest wait without a look at what has changed.
const NAP: Duration = Duration::from_millis(100);
