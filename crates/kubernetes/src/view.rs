//! This node's view of a pool: a cache of which addresses seem to be reserved. It saves requests
//! for taken addresses. No rule depends on it: only the creation of an object decides.
//!
//! A file of `cacheDir` has one bit for each of 65,536 consecutive addresses.

mod verified;

pub(crate) use verified::Verified;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use ipam::Interval;
use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};
use state_files::{StateFolder, lock_file, names_in};

use crate::names::hash;

/// Bytes of a file: one bit for each of 65,536 addresses.
const BYTES: usize = 8192;

/// Most files that one list writes for a pool. In a larger pool, nearly all addresses are free.
const MOST_FILES: usize = 64;

/// The views of all pools.
pub(crate) struct View {
    folder: Option<StateFolder>,
    /// The files as this call has read them; empty content for a missing file.
    read: RefCell<HashMap<String, Vec<u8>>>,
    /// Longest wait for a lock; zero after a wait in vain.
    wait: Cell<Duration>,
}

impl View {
    /// The view for the cluster of this kubeconfig. Clusters may share a folder, and have pools
    /// with the same name.
    ///
    /// A call waits at most `wait` for other processes that change files. Each takes a moment,
    /// unless it is stopped. Without the lock, only a creation decides.
    pub(crate) fn open(cache_dir: &Path, kubeconfig: &Path, wait: Duration) -> Self {
        let cluster = hash(&[&kubeconfig.to_string_lossy()]);
        // Nobody else may rename the folder.
        let folder = StateFolder::create(cache_dir)
            .and_then(|_| StateFolder::create(&cache_dir.join(format!("view_{cluster}"))));
        if let Err(error) = &folder {
            tracing::debug!(%error, "no view of the pools is kept");
        }
        Self::of(folder.ok(), wait)
    }

    /// A view that keeps nothing.
    pub(crate) fn none() -> Self {
        Self::of(None, Duration::ZERO)
    }

    fn of(folder: Option<StateFolder>, wait: Duration) -> Self {
        Self {
            folder,
            read: RefCell::default(),
            wait: Cell::new(wait),
        }
    }

    /// True if the address seemed to be reserved when this call read its file.
    pub(crate) fn has(&self, pool: &str, ip: IpAddr) -> bool {
        let (name, bit) = place(pool, ip);
        let mut read = self.read.borrow_mut();
        let bits = read.entry(name).or_insert_with_key(|name| {
            let content = self.folder.as_ref().map(|folder| folder.read(name));
            content.and_then(Result::ok).unwrap_or_default()
        });
        is_set(bits.get(bit / 8), bit)
    }

    /// The addresses of a pool that seem to be reserved, merged; `None` without a view.
    pub(crate) fn reserved(&self, pool: &str) -> Option<Vec<Interval>> {
        let folder = self.folder.as_ref()?;
        let mut all = Vec::new();
        for (name, start) in files_of(folder, pool).ok()? {
            let bits = folder.read(&name).ok()?;
            let runs = runs(&bits).into_iter();
            let interval =
                |(first, last)| Interval::new(address(start, first), address(start, last));
            all.extend(runs.filter_map(interval));
        }
        Some(Interval::merged(all))
    }

    /// Notes that this call requests an address; false if the address seems to be reserved, or if
    /// another call requests it.
    pub(crate) fn claim(&self, pool: &str, ip: IpAddr) -> bool {
        !self.change(pool, ip, true)
    }

    /// Notes whether an address is reserved.
    pub(crate) fn note(&self, pool: &str, ip: IpAddr, is_reserved: bool) {
        self.change(pool, ip, is_reserved);
    }

    /// Sets an address's bit; true if the address seemed to be reserved before.
    fn change(&self, pool: &str, ip: IpAddr, is_reserved: bool) -> bool {
        let Some(folder) = &self.folder else {
            return false;
        };
        let (name, bit) = place(pool, ip);
        // Other calls may have changed the file as well: the next look reads it again.
        self.read.borrow_mut().remove(&name);
        let change = || {
            let file = match (ip.is_ipv4() && is_reserved, OFlags::RDWR) {
                (true, access) => folder.create_file(&name, access)?,
                (false, access) => folder.open_file(&name, access)?,
            };
            if !lock_file(&file, Some(self.wait.get()), None)? {
                self.wait.set(Duration::ZERO);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let mut byte = [0];
            // The bits of a new file are 0.
            let _ = file.read_at(&mut byte, (bit / 8) as u64)?;
            let was_reserved = is_set(byte.first(), bit);
            match is_reserved {
                true => byte[0] |= 1 << (bit % 8),
                false => byte[0] &= !(1 << (bit % 8)),
            }
            file.write_all_at(&byte, (bit / 8) as u64)?;
            Ok(was_reserved)
        };
        change().unwrap_or_else(|error: io::Error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::debug!(%error, name, "not noted");
            }
            false
        })
    }

    /// Lists a pool's addresses with `list`, or returns the list of another process that began
    /// after this call. So if many calls find a pool full at the same time, one requests the list.
    /// The list replaces the view.
    pub(crate) fn list<E>(
        &self,
        pool: &str,
        at_most: Duration,
        mut list: impl FnMut() -> Result<Vec<IpAddr>, E>,
    ) -> Result<Vec<IpAddr>, E> {
        let Some(folder) = &self.folder else {
            return list();
        };
        self.read.borrow_mut().clear();
        let began = now();
        let file = format!("listed_{pool}");
        let known = || {
            folder
                .read(&file)
                .ok()
                .and_then(|list| read(&list, began..=now()))
        };
        one_of_many(folder, at_most, known, || {
            let at = now();
            let all = list()?;
            let lines: String = all.iter().map(|ip| format!("\n{ip}")).collect();
            let kept = replace(folder, pool, &all)
                .and_then(|()| folder.replace(&file, format!("{at}{lines}").as_bytes()));
            if let Err(error) = kept {
                tracing::debug!(%error, pool, "no view is kept");
            }
            Ok(all)
        })
    }
}

/// What is `known`, or else what `request` returns and keeps. Of many calls at the same time, one
/// requests it, and the others wait for it, for at most this time.
fn one_of_many<T, E>(
    folder: &StateFolder,
    at_most: Duration,
    known: impl Fn() -> Option<T>,
    mut request: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let requested = folder.with_lock(at_most, || Ok(known().map_or_else(&mut request, Ok)));
    // Without the lock, this process requests it as well.
    requested.unwrap_or_else(|_| request())
}

fn is_set(byte: Option<&u8>, bit: usize) -> bool {
    byte.is_some_and(|byte| byte & (1 << (bit % 8)) != 0)
}

/// The first and the last bit of each run of bits that are set.
fn runs(bits: &[u8]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut add = |first: usize, last: usize| match runs.last_mut() {
        Some((_, end)) if *end + 1 == first => *end = last,
        _ => runs.push((first, last)),
    };
    for (byte, start) in bits.iter().zip((0..).step_by(8)) {
        match byte {
            // Most bytes are one of these two.
            0 => {}
            0xff => add(start, start + 7),
            _ => (start..start + 8)
                .filter(|bit| is_set(Some(byte), *bit))
                .for_each(|bit| add(bit, bit)),
        }
    }
    runs
}

/// The addresses of a saved list; `None` if the list was not requested in this time.
fn read(list: &[u8], time: RangeInclusive<u128>) -> Option<Vec<IpAddr>> {
    let mut lines = str::from_utf8(list).ok()?.lines();
    let at: u128 = lines.next()?.parse().ok()?;
    let all = lines.map(|ip| ip.parse().ok());
    all.collect::<Option<_>>().filter(|_| time.contains(&at))
}

/// Replaces the view of a pool.
fn replace(folder: &StateFolder, pool: &str, all: &[IpAddr]) -> io::Result<()> {
    let known = files_of(folder, pool)?.into_iter();
    let mut files: BTreeMap<String, Vec<u8>> =
        known.map(|(name, _)| (name, vec![0; BYTES])).collect();
    for ip in all {
        let (name, bit) = place(pool, *ip);
        if files.len() < MOST_FILES || files.contains_key(&name) {
            files.entry(name).or_insert_with(|| vec![0; BYTES])[bit / 8] |= 1 << (bit % 8);
        }
    }
    for (name, bits) in files {
        folder
            .create_file(&name, OFlags::RDWR)?
            .write_all_at(&bits, 0)?;
    }
    Ok(())
}

/// The files of a pool, each with the start of its addresses: see [`place`].
fn files_of(folder: &StateFolder, pool: &str) -> io::Result<Vec<(String, u128)>> {
    let start = |name: &str| {
        let (of, start) = name.rsplit_once('_')?;
        let start = u128::from_str_radix(start, 16).ok()?;
        (of == pool).then_some(start)
    };
    let names = names_in(&folder.path_of(""))?.into_iter();
    let with_start = |name: String| start(&name).map(|start| (name, start));
    Ok(names.filter_map(with_start).collect())
}

/// The file of an address, and its bit there.
fn place(pool: &str, ip: IpAddr) -> (String, usize) {
    let (start, low) = match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits() >> 16), ip.to_bits() & 0xffff),
        IpAddr::V6(ip) => (ip.to_bits() >> 16, (ip.to_bits() & 0xffff) as u32),
    };
    (format!("{pool}_{start:x}"), low as usize)
}

/// The address of a bit. An IPv6 address below 2^32 is read as an IPv4 address.
fn address(start: u128, bit: usize) -> IpAddr {
    let bits = start << 16 | bit as u128;
    match u32::try_from(bits) {
        Ok(bits) => Ipv4Addr::from(bits).into(),
        Err(_) => Ipv6Addr::from(bits).into(),
    }
}

/// The time since the boot, in nanoseconds. All processes share this clock.
fn now() -> u128 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u128 * 1_000_000_000 + now.tv_nsec as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(9);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_seen_as_it_was_noted_last() {
        let folder = tempfile::tempdir().unwrap();
        let view = View::open(folder.path(), Path::new("/kubeconfig"), WAIT);
        let [a, b] = [ip("10.0.0.5"), ip("10.0.255.255")];
        assert!(!view.has("blue", a));
        view.note("blue", a, true);
        view.note("blue", b, true);
        assert!(view.has("blue", a) && view.has("blue", b) && !view.has("red", a));
        view.note("blue", a, false);
        assert!(!view.has("blue", a) && view.has("blue", b));
    }

    #[test]
    fn one_call_asks_for_an_address_and_the_pool_is_searched_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let view = View::open(folder.path(), Path::new("/kubeconfig"), WAIT);
        let [a, b] = [ip("10.0.0.5"), ip("10.1.255.255")];
        assert!(view.claim("blue", a) && !view.claim("blue", a) && view.claim("blue", b));
        view.note("blue_2", ip("10.0.0.6"), true);
        let reserved = || view.reserved("blue").unwrap();
        let one = |ip| Interval::new(ip, ip).unwrap();
        assert_eq!(reserved(), [one(a), one(b)]);
        view.note("blue", a, false);
        assert_eq!(reserved(), [one(b)]);
        assert!(view.claim("blue", a));
        assert_eq!(View::none().reserved("blue"), None);
    }

    #[test]
    fn many_calls_at_once_ask_for_different_addresses() {
        let folder = tempfile::tempdir().unwrap();
        let claims = |_| {
            let view = View::open(folder.path(), Path::new("/kubeconfig"), WAIT);
            (0..64)
                .filter(|n| view.claim("blue", ip(&format!("10.0.0.{n}"))))
                .count()
        };
        let all: usize = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..8).map(|n| scope.spawn(move || claims(n))).collect();
            calls.into_iter().map(|call| call.join().unwrap()).sum()
        });
        assert_eq!(all, 64);
    }

    #[test]
    fn a_pool_of_the_same_name_in_another_cluster_is_another_pool() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] =
            ["/one", "/other"].map(|cluster| View::open(folder.path(), Path::new(cluster), WAIT));
        one.note("blue", ip("10.0.0.5"), true);
        assert!(one.has("blue", ip("10.0.0.5")) && !other.has("blue", ip("10.0.0.5")));
    }

    #[test]
    fn runs_cross_bytes() {
        assert_eq!(runs(&[0, 0, 0]), []);
        assert_eq!(runs(&[0b1000_0000, 0xff, 0b0000_0101]), [(7, 16), (18, 18)]);
        assert_eq!(runs(&[0xff, 0b1111_1110, 0xff]), [(0, 7), (9, 23)]);
        assert_eq!(runs(&[0b0101_0000]), [(4, 4), (6, 6)]);
    }

    #[test]
    fn a_list_that_fails_is_no_empty_list() {
        let folder = tempfile::tempdir().unwrap();
        let view = View::open(folder.path(), Path::new("/kubeconfig"), WAIT);
        let failed = view.list("blue", Duration::from_secs(1), || Err("away"));
        assert_eq!(failed, Err("away"));
    }

    #[test]
    fn a_list_replaces_the_view_of_addresses_that_others_reserved_or_released() {
        let folder = tempfile::tempdir().unwrap();
        let view = View::open(folder.path(), Path::new("/kubeconfig"), WAIT);
        view.note("blue", ip("10.0.0.5"), true);
        let listed = view.list("blue", Duration::from_secs(1), || {
            Ok::<_, io::Error>(vec![ip("10.0.0.6"), ip("fd00::7")])
        });
        assert_eq!(listed.unwrap().len(), 2);
        assert!(!view.has("blue", ip("10.0.0.5")));
        assert!(view.has("blue", ip("10.0.0.6")) && view.has("blue", ip("fd00::7")));
    }

    #[test]
    fn a_list_counts_only_for_calls_that_began_before_it() {
        let list = b"7\n10.0.0.6\nfd00::7";
        for time in [7..=9, 5..=7] {
            assert_eq!(read(list, time), Some(vec![ip("10.0.0.6"), ip("fd00::7")]));
        }
        // Another call's clock may be ahead, as in another time namespace.
        for time in [8..=9, 5..=6] {
            assert_eq!(read(list, time), None);
        }
        for torn in ["", "x\n10.0.0.6", "7\n10.0.0."] {
            assert_eq!(read(torn.as_bytes(), 7..=7), None, "{torn}");
        }
    }
}
