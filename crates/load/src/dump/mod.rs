//! A dump on its way into a server: what of it is run, in what order, and on which of several connections.
//!
//! Sits between [`crate::ScriptStream`], which splits it, and the connections. `session` is the loop; `rules` leave
//! statements out; `late_indexes` takes the indexes of a large table away until its rows are there; `literals` and
//! `meanwhile` decide what need not wait for what came before it; `workers` are the connections beside the dump's own,
//! which `session_state` makes equal to it; `queue` is what all of them share.

pub(crate) mod late_indexes;
mod literals;
mod meanwhile;
pub(crate) mod queue;
pub(crate) mod rules;
pub(crate) mod session;
mod session_state;
pub(crate) mod workers;
