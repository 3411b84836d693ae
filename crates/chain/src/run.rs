//! A run of a chain: one command for all of its delegates, in order.

mod add;
mod check;
mod del;
mod dry_run;
mod earlier_add;
pub(crate) mod failed_delegate;
mod fallback;
mod gc;
mod merge;
mod prev_result;
pub(crate) mod step;
pub(crate) mod steps;
pub(crate) mod tool_release;

#[cfg(test)]
mod tests;
