//! The project's tasks, as a library for the benchmark, which builds the plugins as a
//! release does.

pub mod build;
pub mod cargo;
pub mod compiler;
pub mod demo;
pub mod dist;
pub mod install;
mod left_out;
mod link_flags;
mod packages;
mod service_policy;
mod target;
pub mod test;
