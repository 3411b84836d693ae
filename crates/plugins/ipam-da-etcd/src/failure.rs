//! An ADD that fails: takes back what it may have reserved, and tells whether the attachment
//! holds an address of an earlier ADD.

use std::net::IpAddr;

use cluster::Cluster;
use cni::{Error, code};
use etcd::{Client, Range};

use crate::add::Add;
use crate::choice::Choice;
use crate::release;

impl Add<'_> {
    /// Takes back what a transaction whose answer was lost may have reserved.
    pub(crate) fn undo(&self, client: &mut Client<'_>, error: etcd::Error, value: &[u8]) -> Error {
        if !error.may_have_changed() {
            return error.into();
        }
        client.keep_in_reserve(0.0);
        client.ignore_cancellation();
        let Cluster { keys, node, .. } = self.cluster;
        let undone = release::entries(client, keys, node, &self.held_prefix()).and_then(|found| {
            let made = found.into_iter().filter(|it| it.value == value);
            let made: Vec<release::Entry> = made.collect();
            let mut identity = self.identity.borrow_mut();
            release::release_as(client, &mut identity, self.cluster, &made)
        });
        let error = Error::from(error);
        match undone {
            Ok(_) => error,
            Err(why) => error.with_details(format!(
                "not undone: {}; an address may stay reserved until DEL or GC",
                why.msg
            )),
        }
    }

    /// The refusal that the attachment has an address of a pool already.
    pub(crate) fn already(&self, held: &[Option<IpAddr>], choices: &[Choice<'_>]) -> Error {
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

    /// The failure; 110, if the attachment holds an address on the network all the same.
    pub(crate) fn refuse_if_held(&self, client: &mut Client<'_>, error: Error) -> Error {
        // Asking an etcd that can't be reached would only take time.
        let answers = self.reached_etcd.get() || error.code == code::INVALID_CONFIG;
        if !answers || !error.details.is_empty() {
            return error;
        }
        client.keep_in_reserve(0.0);
        client.ignore_cancellation();
        let Cluster { keys, node, .. } = self.cluster;
        let held = client.range(&Range::prefix(self.held_prefix()).keys_only().limit(1));
        let held = held
            .ok()
            .and_then(|it| keys.parse_held(node, &it.kvs.first()?.key));
        match held {
            Some(held) => Error::new(
                code::ALREADY_ALLOCATED,
                format!(
                    "{} has {} of {} already; {}",
                    self.attachment, held.ip, held.pool, error.msg
                ),
            ),
            None => error,
        }
    }
}
