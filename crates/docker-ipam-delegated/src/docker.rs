//! Docker's API: asks what Docker has, and judges by the answer what Docker has lost.

mod answers;
mod api;
pub(crate) mod whole_answer;
