//! Asks Docker what it has, and judges by the answer.

mod answers;
mod api;
pub mod engine;
pub mod judgement;
pub mod plugin_calls;
#[cfg(test)]
mod tests;
