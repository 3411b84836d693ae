//! The chain, records, the allocator, selectors and rules, third-party delegates, hangs, and
//! `ipamctl`, by the real executables.
//!
//! Needs: Rust. What needs root, strace or another program is skipped without it. Takes two minutes.

mod allocator;
mod allocator_status;
mod bad_delegates;
mod bad_input;
mod borders;
mod bounds;
mod chain;
mod choosing_pools;
mod collection;
mod dialect;
mod documents;
mod example_flow;
mod facts;
mod faults;
mod flavours;
mod gateways;
mod hangs;
mod ipam_gc;
mod ipamctl;
mod killed;
mod leftovers;
mod one_file;
mod one_process;
mod pinned;
mod recorded_calls;
mod records;
mod recursion;
mod repeated_add;
mod rules;
mod runtime_ranges;
mod selector;
mod shared_pools;
mod state_files;
mod sticky;
mod traces;
mod undo;
mod unknown_directories;
mod verbose_log;
mod version_negotiation;
