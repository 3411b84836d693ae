//! A run of a chain: one command for all of its delegates, in order.

mod add;
mod check;
mod del;
mod earlier_add;
mod gc;
mod merge;
pub(crate) mod release;
pub(crate) mod steps;
mod threading;
pub(crate) mod unfinished;

#[cfg(test)]
mod tests;
