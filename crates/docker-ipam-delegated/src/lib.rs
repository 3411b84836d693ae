#![doc = include_str!("../README.md")]

mod activation;
mod address_space;
mod addresses;
mod answer;
mod calls;
mod chains;
mod command_line;
mod configuration;
mod conflists;
mod connection;
mod daemon;
mod default_pools;
mod delivery;
mod facts;
mod host_routes;
mod ipam_driver;
mod journal;
mod memory;
mod narrowing;
mod pool;
mod pool_choice;
mod pools;
mod recovery;
mod refusal;
mod repeated;
mod requests;
mod shutdown;
mod socket;
mod state;
mod text;
mod unanswered;
mod wire;

pub use daemon::main;
