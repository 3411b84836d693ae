//! The real executables, called as a runtime calls them.

mod allocator;
mod bad_input;
mod chain;
mod dhcp;
mod documents;
mod example_flow;
mod flavours;
mod on_a_bridge;
mod reference_delegates;
mod selector;
mod with_host_local;
