//! Docker's API: asks what Docker has, and judges by the answer what Docker has lost. `api` sends one
//! request, `answers` has the types of what comes, and `whole_answer` is the only place where something
//! that Docker doesn't name becomes a release.

mod answers;
mod api;
pub(crate) mod whole_answer;
