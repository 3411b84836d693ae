//! The allocator of an engine, as a plugin: an [`Engine`] opens the store that the `ipam` section
//! names, and [`Allocator`] calls the rule of the command with it (`add`, `check`, `del`, `gc`,
//! `status`). Tools open stores by the same [`Engine`].

use std::fmt::Debug;
use std::path::PathBuf;

use cni::{About, Attachment, Call, Cancellation, Command, Error, Object, Plugin, Reply};

use crate::{Inventory, Node, Store, add, check, del, gc, status};

/// How the `ipam` section of a network leads to a store.
pub trait Engine: Debug + Sync {
    /// Name of the engine in paths, such as `etcd`.
    fn name(&self) -> &'static str;

    /// Its allocator, such as `ipam-da-etcd`.
    fn allocator(&self) -> String {
        format!("ipam-da-{}", self.name())
    }

    /// The store. It connects with the first request.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value, or the file.
    fn open<'a>(
        &self,
        ipam: &Object,
        cancellation: Option<&'a dyn Cancellation>,
    ) -> Result<Box<dyn Inventory + 'a>, Error>;

    /// The file that says how the engine is reached.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    fn file(&self, ipam: &Object) -> Result<PathBuf, Error>;

    /// Name and machine of the node that calls.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    fn node(&self, ipam: &Object) -> Result<Node, Error>;
}

/// An allocator that claims addresses in a store.
pub struct Allocator {
    /// The plugin's name, version and purpose.
    pub about: About,
    /// The engine of its store.
    pub engine: &'static dyn Engine,
}

impl Allocator {
    /// Runs `rule` with the store and the node of a call.
    fn with<T>(
        &self,
        call: &Call<'_>,
        rule: impl FnOnce(&mut dyn Store, &Node) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let ipam = call.config.ipam()?;
        let node = self.engine.node(&ipam)?;
        let mut store = self.engine.open(&ipam, call.cancellation)?;
        rule(&mut *store, &node)
    }
}

impl Plugin for Allocator {
    fn about(&self) -> About {
        self.about
    }

    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let result = self.with(call, |store, node| add(store, node, attachment, call));
        result.map(Reply::Result)
    }

    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.with(call, |store, node| del(store, node, attachment, call))?;
        Ok(Reply::Nothing)
    }

    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.with(call, |store, node| check(store, node, attachment, call))?;
        Ok(Reply::Nothing)
    }

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        self.with(call, |store, node| gc(store, node, call))?;
        Ok(Reply::Nothing)
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        self.with(call, |store, _| status(store, self.about.name, call))?;
        Ok(Reply::Nothing)
    }

    /// On ADD, a signal ends the wait for the engine, and the claims are undone.
    fn handles_signals(&self, command: Command) -> bool {
        command == Command::Add
    }
}
