//! Fuzz targets, one for each kind of input that somebody else wrote.
//!
//! Each is an ordinary test that tries inputs for two seconds; `docs/contributing.md` says what
//! each claims, and how to run one for hours.

mod catalogue;
mod configuration;
mod records;
mod reservations;
mod results;
mod seeds;
