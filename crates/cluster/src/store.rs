//! The store of a cluster's pools and addresses: six verbs, which an engine implements, and the lists
//! that only tools need.
//!
//! A verb asks once, and its answer is a type with names; what a lost answer means, and what is asked
//! next, the rules decide (`add`, `release`, `check`, `restore`). They hold for every engine, since
//! they see nothing else of it.

use std::collections::HashSet;
use std::net::IpAddr;

use cni::{Attachment, Object};
use ipam::Pool;

use crate::{AddressKey, CallAttachment, Held, Holder, StoreError, TimeLimit};

/// Keeps pools and addresses.
///
/// A verb repeats no request: [`crate::until_answered`] repeats the verb until its answer has come or the
/// time is up.
pub trait Store {
    /// Name of the engine in messages, such as `etcd`.
    fn name(&self) -> &'static str;

    /// Name of a pool by which a person finds it in the engine.
    fn path_of_pool(&self, name: &str) -> String;

    /// Name of an address by which a person finds it in the engine.
    fn path_of_address(&self, key: &AddressKey) -> String;

    /// Time limit of the requests.
    fn time(&self) -> &TimeLimit<'_>;

    /// Reads a pool's definition; `None` if there is none.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`], as for all verbs.
    fn pool(&mut self, name: &str) -> Result<Option<Object>, StoreError>;

    /// Claims an address: creates it if its name is free. An engine that can answers
    /// [`Claim::Taken`], too, if the owner has an address of a later revision than `latest`.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Lost`] if it may have been created.
    fn claim(
        &mut self,
        key: &AddressKey,
        holder: &Holder,
        latest: u64,
    ) -> Result<Claim, StoreError>;

    /// Reads some addresses, each as it is now. A free one is missing in the answer.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`].
    fn read(&mut self, keys: &[AddressKey]) -> Result<Vec<Held>, StoreError>;

    /// Releases an address if it is still this creation of its name.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Lost`] if it may have been released.
    fn release(&mut self, held: &Held) -> Result<Release, StoreError>;

    /// Lists the names of a node's or an owner's addresses. A store may list more of them than are selected, and
    /// others, so the caller reads each.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`].
    fn list(&mut self, selection: &Selection<'_>) -> Result<Vec<AddressKey>, StoreError>;

    /// Lists the addresses of a pool that are taken, in any order. Of [`Among::Some`], an engine may
    /// answer from a cache, since the claim decides; the others are as they are now.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`].
    fn taken(&mut self, pool: &Pool, among: Among<'_>) -> Result<Vec<IpAddr>, StoreError>;
}

/// The name of a pool, and its definition; the failure if that isn't a JSON object.
pub type ListedPool = (String, Result<Object, StoreError>);

/// Lists of everything in a store, for tools.
pub trait Inventory: Store {
    /// All pools.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`].
    fn pools(&mut self) -> Result<Vec<ListedPool>, StoreError>;

    /// The names of all addresses.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`].
    fn names(&mut self) -> Result<Vec<AddressKey>, StoreError>;

    /// Reads all addresses, page by page, and passes on each. A request that is repeated begins with
    /// the first one.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`].
    fn addresses(&mut self, each: &mut dyn FnMut(Held)) -> Result<(), StoreError>;
}

/// Answer to [`Store::claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The address was created.
    Created {
        /// As [`Held::id`].
        id: String,
    },
    /// The name is taken. [`Store::read`] tells by whom. Or the owner has another address.
    Taken,
}

/// Answer to [`Store::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The address was deleted.
    Released,
    /// This creation of the name doesn't exist any more.
    Gone,
}

/// The addresses that a list is for.
#[derive(Clone, Copy, Debug)]
pub enum Selection<'a> {
    /// All of a node.
    Node(&'a str),
    /// Those of an attachment.
    Attachment(CallAttachment<'a>),
    /// Those of a network that belong to no valid attachment.
    Stale {
        /// Name of the node.
        node: &'a str,
        /// Name of the CNI network.
        network: &'a str,
        /// Containers and interfaces that exist.
        valid: &'a HashSet<Attachment>,
    },
    /// Those of an owner's key, by its hash.
    Owner(&'a str),
}

/// Which addresses of a pool a list is for.
#[derive(Clone, Copy, Debug)]
pub enum Among<'a> {
    /// These. A list may end at the first one that is free.
    Some(&'a [IpAddr]),
    /// Those that were given under this name. A list may have others, too.
    Named(&'a str),
    /// All.
    All,
}
