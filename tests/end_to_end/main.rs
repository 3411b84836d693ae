//! The real executables, called as a runtime calls them.

mod after_a_reboot;
mod allocator;
mod bad_input;
mod cache;
mod chain;
mod dhcp;
mod differential;
mod documents;
mod example_flow;
mod faults;
mod flavours;
mod on_a_bridge;
mod reference_delegates;
mod selector;
mod under_fire;
mod with_host_local;
