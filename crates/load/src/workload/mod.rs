//! What one event says: one workload, one file, one arm in each `match` of [`WorkloadKind`].

mod acks;
mod event;
mod kind;
mod kind_json;
mod oltp;
mod parameter;
mod rand_json;
mod txn;
mod txn_json;
mod upsert;

pub(crate) use acks::{Acked, Acks};
pub(crate) use event::{Effect, Next, Rank, Workload};
pub(crate) use kind::WorkloadKind;
pub(crate) use kind_json::{kind, Asked, JsonOltp, JsonUpsert};
pub(crate) use rand_json::{within, JsonRand};
pub(crate) use txn_json::JsonTxn;
pub(crate) use upsert::NewKeys;
