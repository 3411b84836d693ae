//! A fuzz target for each thing that the plugins read and didn't write.
//!
//! Each is an ordinary test that tries some hundred inputs; `docs/fuzzing.md` says
//! what each claims, and how to run one for hours.

mod args;
mod cache;
mod chain;
mod configuration;
mod delegates;
mod records;
mod reservations;
mod resolv_conf;
mod results;
mod seeds;
mod trace;
