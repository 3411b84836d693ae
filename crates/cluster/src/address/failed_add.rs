//! Undoes the reservations of an ADD that fails.

use std::net::IpAddr;

use cni::{Error, code};

use super::add::Addition;
use super::choice::Choice;
use super::release::{Entry, entries, release_as};
use crate::{Engine, EngineError};

impl Addition<'_> {
    /// Releases the addresses that a change without an answer may have reserved.
    pub(super) fn undo(
        &mut self,
        engine: &mut dyn Engine,
        error: EngineError,
        value: &[u8],
    ) -> Error {
        match error.may_have_changed() {
            true => self.take_back(engine, error.into(), value),
            false => error.into(),
        }
    }

    /// Releases the addresses that this ADD has reserved.
    pub(super) fn take_back(
        &mut self,
        engine: &mut dyn Engine,
        error: Error,
        value: &[u8],
    ) -> Error {
        engine.time().finish();
        let undone = entries(engine, self.holding()).and_then(|mut made: Vec<Entry>| {
            made.retain(|entry| entry.value == value);
            release_as(engine, &mut self.identity, &made)
        });
        match undone {
            Ok(_) => error,
            Err(why) => error.with_details(format!(
                "not undone: {}; an address may stay reserved until DEL or GC",
                why.msg
            )),
        }
    }

    /// The error for an attachment that already has an address of a pool.
    pub(super) fn already(&self, held: &[Option<IpAddr>], choices: &[Choice<'_>]) -> Error {
        let mut both = held.iter().zip(choices);
        let found = both.find_map(|(ip, choice)| Some(((*ip)?, choice.describe())));
        let (ip, pool) = found.map_or(
            ("an address".to_owned(), "a pool".to_owned()),
            |(ip, pool)| (ip.to_string(), pool),
        );
        Error::new(
            code::ALREADY_ALLOCATED,
            format!(
                "{} has {ip} of {pool} already; a second ADD without a DEL is refused",
                self.attachment
            ),
        )
    }
}
