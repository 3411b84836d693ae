//! Which executables the delegates' names lead to, and what is to be done with
//! those that are this very file.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use cni::{DelegateName, Executable, Failure, FileId, OneFile, Plugin, SearchPath};

/// The executables in `CNI_PATH`.
pub(crate) struct Executables<'a> {
    path: SearchPath,
    /// The file that this process runs.
    ourselves: Option<FileId>,
    /// What that file is besides `ipam-delegated`.
    others: OneFile<'a>,
    /// Whether those need not be executed.
    call_directly: bool,
    /// Nothing is looked for twice within a call.
    found: RefCell<HashMap<DelegateName, Found<'a>>>,
}

#[derive(Clone)]
struct Found<'a> {
    path: PathBuf,
    what: What<'a>,
}

#[derive(Clone)]
enum What<'a> {
    /// An executable like any other.
    Another,
    /// Ours, by the name of another plugin that it is, too.
    Plugin(&'a dyn Plugin),
    /// Ours, by a name that makes it `ipam-delegated`, or nothing.
    Ourselves,
}

impl<'a> Executables<'a> {
    pub(crate) fn new(path: SearchPath, others: OneFile<'a>, call_directly: bool) -> Self {
        Self {
            path,
            ourselves: FileId::of_this_process().ok(),
            others,
            call_directly,
            found: RefCell::default(),
        }
    }

    /// What to call for this delegate.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`].
    pub(crate) fn find(&self, name: &DelegateName) -> Result<Executable<'a>, Failure> {
        let Found { path, what } = self.look_up(name)?;
        Ok(match what {
            What::Plugin(plugin) if self.call_directly => Executable::this_one(path, plugin),
            _ => Executable::file(path),
        })
    }

    /// Where the delegate is, if it is `ipam-delegated` itself.
    pub(crate) fn ourselves(&self, name: &DelegateName) -> Option<PathBuf> {
        match self.look_up(name) {
            Ok(Found {
                path,
                what: What::Ourselves,
            }) => Some(path),
            // One that isn't found fails when its turn comes.
            _ => None,
        }
    }

    fn look_up(&self, name: &DelegateName) -> Result<Found<'a>, Failure> {
        if let Some(found) = self.found.borrow().get(name) {
            return Ok(found.clone());
        }
        let path = self.path.find(name)?;
        let is_ours = self.ourselves.is_some() && FileId::of(&path).ok() == self.ourselves;
        let what = match self.others.plugin(&path) {
            _ if !is_ours => What::Another,
            Some(plugin) => What::Plugin(plugin),
            None => What::Ourselves,
        };
        let found = Found { path, what };
        self.found.borrow_mut().insert(name.clone(), found.clone());
        Ok(found)
    }
}
