//! Callers on a cluster's nodes use one pool while its engine fails. Calls and judgement are the same
//! for each engine.

mod caller;
mod judgement;
pub(crate) mod node;
pub(crate) mod run;
