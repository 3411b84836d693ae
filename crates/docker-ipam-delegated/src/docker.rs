//! Docker's API: asks what Docker has, and judges by the answer what Docker has lost. Also calls a
//! running daemon.

mod answers;
mod api;
pub mod engine;
pub mod judgement;
pub mod plugin_calls;
#[cfg(test)]
mod tests;
