//! The addresses that a store has given last: of a pool, and to a sticky key.

use std::io;
use std::net::IpAddr;

use super::Store;
use crate::last_reserved::{self, LastReserved};
use crate::reservation_cache::Noted;
use crate::sticky_keys::{StickyKeys, StickyPool};

impl Store<'_> {
    /// The address that the pool of this index gave last.
    pub fn last_reserved(&mut self, pool: usize) -> Option<IpAddr> {
        let opened = LastReserved::open(&self.directory, pool);
        let ip = match &opened {
            Ok(file) => file.ip(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // The file may be read-only.
            Err(_) => last_reserved::read(&self.directory, pool)
                .inspect_err(|error| tracing::warn!(pool, %error, "the rotation starts again"))
                .unwrap_or_default(),
        };
        self.last_reserved = Some((pool, opened.ok()));
        ip
    }

    /// Notes the address that the pool of this index gives. If it can't be noted, the
    /// rotation starts again, and no address need be refused.
    pub fn set_last_reserved(&mut self, pool: usize, ip: IpAddr) {
        let directory = &self.directory;
        let file = match self.last_reserved.take() {
            Some((asked, file)) if asked == pool => file,
            _ => LastReserved::open(directory, pool).ok(),
        };
        if file.is_some_and(|file| file.overwrite(ip)) {
            return;
        }
        let noted = self.cache.change(directory, || {
            last_reserved::replace(directory, pool, ip)?;
            Ok(((), Noted::Nothing))
        });
        if let Err(error) = noted {
            let path = directory.path().join(last_reserved::file_name(pool));
            tracing::warn!(path = %path.display(), %error, "can't note the address given last");
        }
    }

    /// The address of the pool that a sticky key was given last.
    pub fn address_of_key(&mut self, key: &str, pool: StickyPool<'_>) -> Option<IpAddr> {
        self.sticky_keys()
            .and_then(|keys| keys.address_of(key, pool))
    }

    /// Remembers that a sticky key was given this address, if it can be written.
    pub fn remember_key(&mut self, key: &str, ip: IpAddr, pool: StickyPool<'_>) {
        self.sticky_keys();
        if let Some(Some(keys)) = &mut self.sticky_keys {
            keys.remember(&self.directory, &mut self.cache, key, ip, pool);
        }
    }

    /// The sticky keys. `None` if they can't be read, which is logged: nothing is known of
    /// them, and nothing is written.
    fn sticky_keys(&mut self) -> Option<&StickyKeys> {
        let directory = &self.directory;
        let read = || {
            let path = directory.path();
            let warn = |error: &io::Error| {
                tracing::warn!(path = %path.display(), %error, "no sticky key is known");
            };
            StickyKeys::read(directory).inspect_err(warn).ok()
        };
        self.sticky_keys.get_or_insert_with(read).as_ref()
    }
}
