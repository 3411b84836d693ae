//! The real executables, called as a runtime calls them.

mod after_a_reboot;
mod allocator;
mod bad_input;
mod cache;
mod chain;
mod collection;
mod dhcp;
mod differential;
mod documents;
mod example_flow;
mod faults;
mod flavours;
mod hangs;
mod killed;
mod merged;
mod messages;
mod of_every_age;
mod on_a_bridge;
mod one_file;
mod records;
mod recursion;
mod reference_delegates;
mod selector;
mod traces;
mod under_fire;
mod with_host_local;
