//! What one process leaves for the next: the endpoint that answered, and the token.
//!
//! A file in `cacheDir`, which may be removed at any time. Its folder's lock lets one process
//! ask for a token while the others wait for it: a hundred passwords at once would keep etcd
//! busy for ten seconds.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::time::Duration;

use etcd_settings::Settings;
use serde::{Deserialize, Serialize};
use state_files::StateFolder;

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

/// The file.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// `None` if the folder can't be used.
    folder: Option<StateFolder>,
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
            .ok();
        let mut it = Self {
            folder,
            name: format!("session-{:016x}.json", hasher.finish()),
            remembered: Remembered::default(),
        };
        it.read();
        it
    }

    /// Reads what another process has left since.
    fn read(&mut self) {
        let content = self.folder.as_ref().and_then(|it| it.read(&self.name).ok());
        let read = content.and_then(|content| serde_json::from_slice(&content).ok());
        self.remembered = read.unwrap_or_default();
    }

    /// Leaves this for the next process, unless it is there already.
    pub(crate) fn remember(&mut self, change: impl FnOnce(&mut Remembered)) {
        let before = self.remembered.clone();
        change(&mut self.remembered);
        if self.remembered == before {
            return;
        }
        // A process that holds the lock writes, too; the next call will do.
        let written = self.locked(Duration::ZERO, |it| it.write());
        if let Some(Err(error)) = written {
            tracing::debug!(%error, "the session is not remembered");
        }
    }

    fn write(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let content = serde_json::to_vec(&self.remembered).map_err(io::Error::other)?;
        folder.replace(&self.name, &content)
    }

    /// Runs `f` while no other process does, if the folder can be locked in this time, and
    /// without a lock otherwise. What another process has left is read before.
    pub(crate) fn alone<T>(&mut self, at_most: Duration, f: impl FnOnce(&mut Self) -> T) -> T {
        // Opened once more: its lock is held while `self` is used.
        let folder = self
            .folder
            .as_ref()
            .map(|it| StateFolder::open(&it.path_of("")));
        let Some(Ok(folder)) = folder else {
            return f(self);
        };
        let mut f = Some(f);
        let done = folder.with_lock(at_most, || {
            self.read();
            Ok(f.take().map(|f| f(self)))
        });
        match (done, f) {
            (Ok(Some(done)), _) => done,
            (_, Some(f)) => f(self),
            (_, None) => unreachable!("it has not run, and can't be run"),
        }
    }

    /// Leaves a token for other processes, while this one is alone.
    pub(crate) fn set_token(&mut self, token: Option<String>) {
        self.remembered.token = token;
        if let Err(error) = self.write() {
            tracing::debug!(%error, "the token is not remembered");
        }
    }

    fn locked<T>(
        &mut self,
        at_most: Duration,
        f: impl FnOnce(&Self) -> io::Result<T>,
    ) -> Option<io::Result<T>> {
        let folder = self.folder.as_ref()?;
        Some(folder.with_lock(at_most, || f(self)))
    }
}
