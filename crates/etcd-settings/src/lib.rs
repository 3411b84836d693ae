#![doc = include_str!("../README.md")]

mod endpoint;
mod settings;

pub use endpoint::Endpoint;
pub use settings::{DEFAULT_TIMEOUT, Login, Settings};
