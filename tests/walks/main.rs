//! Walks: a call is killed at each of its system calls, or each of them fails in turn; and many
//! callers at once.
//!
//! Needs: strace, host-local. Takes ten seconds; whole walks, some minutes.

mod chain_faults;
mod under_fire;
