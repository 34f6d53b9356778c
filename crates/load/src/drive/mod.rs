//! Who waits for the connections. Measured in docs/decisions/0006-load-engine.md.

pub(crate) mod blocking;
pub(crate) mod polling;
