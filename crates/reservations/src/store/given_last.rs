//! Addresses that a store has given last: of each pool, and to each sticky key.

use std::io;
use std::net::IpAddr;

use super::Store;
use crate::last_reserved::{self, LastReserved};
use crate::sticky_keys::{StickyKeys, StickyPool};

impl Store<'_> {
    /// The address that the pool with this number gave last.
    pub fn last_reserved(&mut self, pool: usize) -> Option<IpAddr> {
        let opened = LastReserved::open(&self.directory, pool);
        if let Err(error) = &opened
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(pool, %error, "can't read the last address: the rotation starts again");
        }
        let ip = opened.as_ref().ok().and_then(LastReserved::ip);
        self.last_reserved = Some((pool, opened.ok()));
        ip
    }

    /// Notes the address that the pool with this number gives. A failure is only logged: the
    /// rotation may then start again, and the reservation is valid.
    pub fn set_last_reserved(&mut self, pool: usize, ip: IpAddr) {
        let directory = &self.directory;
        let file = match self.last_reserved.take() {
            Some((asked, file)) if asked == pool => file,
            _ => LastReserved::open(directory, pool).ok(),
        };
        if file.is_some_and(|file| file.overwrite(ip)) {
            return;
        }
        let noted = self.change(|directory| last_reserved::replace(directory, pool, ip));
        if let Err(error) = noted {
            let path = self.directory.path().join(last_reserved::file_name(pool));
            tracing::warn!(path = %path.display(), %error, "can't note the address given last");
        }
    }

    /// The address of the pool that a sticky key was given last.
    pub fn address_of_key(&mut self, key: &str, pool: StickyPool<'_>) -> Option<IpAddr> {
        self.sticky_keys()
            .and_then(|keys| keys.address_of(key, pool))
    }

    /// Remembers that a sticky key was given this address. A failure is only logged: the key may
    /// then get another address next time, and the reservation is valid.
    pub fn remember_key(&mut self, key: &str, ip: IpAddr, pool: StickyPool<'_>) {
        self.sticky_keys();
        let Some(Some(mut keys)) = self.sticky_keys.take() else {
            self.sticky_keys = Some(None);
            return;
        };
        // The directory changes only if a file is made or replaced.
        let remembered = match keys.append(&self.directory, ip, key) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.change(|directory| keys.make(directory, ip, key))
            }
            Ok(()) if keys.is_long(pool) => self.change(|directory| keys.shorten(directory, pool)),
            other => other,
        };
        if let Err(error) = remembered {
            let path = self.directory.path().display();
            tracing::warn!(%path, key, %error, "can't remember the address of this key");
        }
        self.sticky_keys = Some(Some(keys));
    }

    /// The sticky keys. `None` if they can't be read, which is logged: then no key has an
    /// address, and none is written.
    fn sticky_keys(&mut self) -> Option<&StickyKeys> {
        let directory = &self.directory;
        let read = || {
            let path = directory.path();
            let warn = |error: &io::Error| {
                tracing::warn!(path = %path.display(), %error, "can't read the sticky keys");
            };
            StickyKeys::read(directory).inspect_err(warn).ok()
        };
        self.sticky_keys.get_or_insert_with(read).as_ref()
    }
}
