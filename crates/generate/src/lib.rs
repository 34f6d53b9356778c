//! Rows of tables from a plan, as bytes that a server loads.
//!
//! * [`Plan`]: JSON of `flushlab.record.FillPlan`, checked.
//! * [`Extent`]: the widest of a column's values, to be held against its type.
//! * [`Given`]: a value from a function of the user, which [`set_caller`] makes callable.
//! * [`Template`]: texts of a pattern that stands by itself.
//! * [`Table`]: writes any row by its number, in any [`Format`].
//!
//! Promises: the bytes of a row depend on the plan, its seed and the row's number alone: not on the thread, the rows
//! before it or the other columns. A unique column never has a value twice, and nothing is drawn anew for that.

#![forbid(unsafe_code)]

mod draw;
mod error;
mod extent;
mod format;
mod generator;
mod given;
mod index;
mod plan;
mod table;

pub use error::Error;
pub use extent::Extent;
pub use format::Format;
pub use generator::Template;
pub use given::{set_caller, spent, Caller, Given};
pub use plan::Plan;
pub use table::Table;
