//! State that one process leaves in `cacheDir` for the next: the endpoint that answered, and the
//! token. The file may be deleted at any time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use state_files::StateFolder;

use crate::Settings;

/// The file's content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Remembered {
    /// The URL of the endpoint that answered last.
    #[serde(default)]
    pub(crate) endpoint: String,
    /// The token of the user.
    #[serde(default)]
    pub(crate) token: Option<String>,
}

/// The open session file, with its content.
#[derive(Debug)]
pub(crate) struct Session {
    /// `None` if the folder can't be used.
    pub(crate) folder: Option<Rc<StateFolder>>,
    name: String,
    pub(crate) remembered: Remembered,
}

impl Session {
    pub(crate) fn open(settings: &Settings) -> Self {
        let mut hasher = DefaultHasher::new();
        for endpoint in &settings.endpoints {
            endpoint.url().hash(&mut hasher);
        }
        let user = settings.login.as_ref().map(|login| &login.username);
        user.hash(&mut hasher);
        let folder = StateFolder::create(&settings.cache_dir)
            .inspect_err(|error| {
                let path = settings.cache_dir.display();
                tracing::debug!(%path, %error, "nothing is remembered");
            })
            .ok()
            .map(Rc::new);
        let mut session = Self {
            folder,
            name: format!("session-{:016x}.json", hasher.finish()),
            remembered: Remembered::default(),
        };
        session.read();
        session
    }

    /// Reads what another process has left since.
    pub(crate) fn read(&mut self) {
        let folder = self.folder.as_ref();
        let content = folder.and_then(|folder| folder.read(&self.name).ok());
        let read = content.and_then(|content| serde_json::from_slice(&content).ok());
        self.remembered = read.unwrap_or_default();
    }

    /// Leaves the endpoint that has answered for the next process.
    pub(crate) fn remember_endpoint(&mut self, url: &str) {
        if self.remembered.endpoint == url {
            return;
        }
        url.clone_into(&mut self.remembered.endpoint);
        let Some(folder) = &self.folder else {
            return;
        };
        // If another process holds the lock, the endpoint is not saved: the next call saves it.
        let written = folder.with_lock(Duration::ZERO, || self.write());
        if let Err(error) = written {
            tracing::debug!(%error, "the endpoint is not remembered");
        }
    }

    /// Leaves a token for other processes, while this one holds the lock.
    pub(crate) fn set_token(&mut self, token: Option<String>) {
        self.remembered.token = token;
        if let Err(error) = self.write() {
            tracing::debug!(%error, "the token is not remembered");
        }
    }

    fn write(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let content = serde_json::to_vec(&self.remembered).map_err(io::Error::other)?;
        folder.replace(&self.name, &content)
    }
}
