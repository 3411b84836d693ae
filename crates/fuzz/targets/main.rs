//! Fuzz targets, one for each kind of input that somebody else wrote.
//!
//! Each is an ordinary test that tries inputs for two seconds; `docs/fuzzing.md` says what
//! each claims, and how to run one for hours.

mod args;
mod cache;
mod catalogue;
mod chain;
mod configuration;
mod delegates;
mod records;
mod reservations;
mod resolv_conf;
mod results;
mod seeds;
mod trace;
