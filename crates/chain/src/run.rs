//! A run of a chain: one command for all of its delegates, in order.

mod add;
mod add_steps;
mod check;
mod del;
mod dry_run;
mod earlier_add;
mod failed_delegate;
mod fallback;
pub(crate) mod forward;
mod gc;
mod merge;
mod prev_result;
mod step;
mod steps;
pub(crate) mod tool_release;
