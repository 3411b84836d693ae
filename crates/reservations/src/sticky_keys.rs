//! Remembers which address each sticky key was given last: the file `sticky_keys`.
//!
//! The file has a line for each time that a key was given an address,
//! `<address> "<key>"`, with the key as a JSON string. It is a journal: the last line of a key
//! counts.
//!
//! The file is independent of the reservations. host-local doesn't take it for one: no
//! reservation's content has a space.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;

use memchr::{memchr_iter, memmem, memrchr};
use rustix::fs::OFlags;
use state_files::{Journal, whole_lines};

use crate::directory::Directory;
use crate::new_file;

/// Name of the file.
const FILE: &str = "sticky_keys";

/// Most keys that are remembered for one pool, however large it is.
const MOST_KEYS: usize = 65_536;

/// The content of the file.
#[derive(Debug, Default)]
pub(crate) struct StickyKeys {
    content: Vec<u8>,
}

/// What sticky keys use of a pool: its addresses and their number.
#[derive(Clone, Copy)]
pub struct StickyPool<'a> {
    /// True for an address of the pool.
    pub contains: &'a dyn Fn(IpAddr) -> bool,
    /// Number of addresses that the pool gives.
    pub capacity: u128,
}

impl StickyPool<'_> {
    /// Number of keys that are remembered.
    fn keys(&self) -> usize {
        usize::try_from(self.capacity).map_or(MOST_KEYS, |all| all.min(MOST_KEYS))
    }

    /// Largest number of lines before the file is shortened.
    fn most_lines(&self) -> usize {
        self.keys() + (self.keys() / 4).max(64)
    }
}

impl StickyKeys {
    /// Reads the file. A missing one has no lines.
    pub(crate) fn read(directory: &Directory) -> io::Result<Self> {
        match directory.read_file(FILE) {
            Ok((content, _)) => Ok(Self { content }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// The address of the pool that the key was given last.
    pub(crate) fn address_of(&self, key: &str, pool: StickyPool<'_>) -> Option<IpAddr> {
        let end = [b" ", &quoted(key)[..], b"\n"].concat();
        let content = whole_lines(&self.content);
        let of_key = memmem::find_iter(content, &end).filter_map(|at| {
            let before = &content[..at];
            let start = memrchr(b'\n', before).map_or(0, |line_feed| line_feed + 1);
            address(&before[start..])
        });
        of_key.filter(|ip| (pool.contains)(*ip)).last()
    }

    /// Appends a line for the key and this address, unless it is the last line already. A
    /// missing file is an error (`NotFound`).
    pub(crate) fn append(
        &mut self,
        directory: &Directory,
        ip: IpAddr,
        key: &str,
    ) -> io::Result<()> {
        let line = line(ip, key);
        let whole = whole_lines(&self.content);
        let last = whole.strip_suffix(&line[..]);
        if last.is_some_and(|before| before.is_empty() || before.ends_with(b"\n")) {
            return Ok(());
        }
        let (file, _) = directory.open_file(FILE, Journal::ACCESS | OFlags::NOFOLLOW)?;
        Journal::already_read(file, 0, &self.content).append(&line)?;
        self.content.truncate(whole.len());
        self.content.extend(line);
        Ok(())
    }

    /// Makes the file, with one line.
    pub(crate) fn make(&mut self, directory: &Directory, ip: IpAddr, key: &str) -> io::Result<()> {
        self.replace(directory, line(ip, key))
    }

    fn replace(&mut self, directory: &Directory, content: Vec<u8>) -> io::Result<()> {
        new_file::replace(directory, FILE, &content)?;
        self.content = content;
        Ok(())
    }

    /// True if the file has many more lines than the pool has keys.
    pub(crate) fn is_long(&self, pool: StickyPool<'_>) -> bool {
        let most = pool.most_lines();
        // Line feeds are counted first, without parsing lines: most files are short.
        let all = memchr_iter(b'\n', &self.content).count();
        let is_of_pool = |ip: &[u8]| address(ip).is_some_and(pool.contains);
        all > most && self.lines().filter(|(ip, _)| is_of_pool(ip)).count() > most
    }

    /// Rewrites the file: keeps the newest line of each of the pool's newest keys, as many as
    /// are remembered, and all lines of other pools.
    pub(crate) fn shorten(
        &mut self,
        directory: &Directory,
        pool: StickyPool<'_>,
    ) -> io::Result<()> {
        let mut keys: HashSet<&[u8]> = HashSet::new();
        let mut kept: Vec<&[u8]> = Vec::new();
        for (ip, key) in self.lines().rev() {
            let Some(address) = address(ip) else { continue };
            let mut is_newest = || keys.len() < pool.keys() && keys.insert(key);
            if !(pool.contains)(address) || is_newest() {
                kept.extend::<[&[u8]; 4]>([b"\n", key, b" ", ip]);
            }
        }
        kept.reverse();
        let content = kept.concat();
        self.replace(directory, content)
    }

    /// The lines, each as the texts of the address and of the key.
    fn lines(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        whole_lines(&self.content)
            .split(|byte| *byte == b'\n')
            .filter_map(|line| {
                let at = line.iter().position(|byte| *byte == b' ')?;
                Some((&line[..at], &line[at + 1..]))
            })
    }
}

fn line(ip: IpAddr, key: &str) -> Vec<u8> {
    [ip.to_string().as_bytes(), b" ", &quoted(key), b"\n"].concat()
}

/// The key as a JSON string, which is one line.
fn quoted(key: &str) -> Vec<u8> {
    serde_json::to_vec(key).expect("a text is JSON")
}

fn address(text: &[u8]) -> Option<IpAddr> {
    str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn directory() -> (tempfile::TempDir, Directory) {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap().unwrap();
        (folder, directory)
    }

    fn ip(last: usize) -> IpAddr {
        format!("10.0.0.{last}").parse().unwrap()
    }

    fn note(directory: &Directory, last: usize, key: &str) -> StickyKeys {
        let mut keys = StickyKeys::read(directory).unwrap();
        keys.append(directory, ip(last), key)
            .or_else(|_| keys.make(directory, ip(last), key))
            .unwrap();
        keys
    }

    const ALL: StickyPool<'_> = StickyPool {
        contains: &|_| true,
        capacity: 3,
    };

    #[test]
    fn the_last_line_of_a_key_in_the_pool_counts() {
        let (_folder, directory) = directory();
        note(&directory, 2, "a");
        note(&directory, 3, "a\nb\" c");
        note(&directory, 4, "a");
        let keys = note(&directory, 130, "a");
        let lower = StickyPool {
            contains: &|address| address < ip(128),
            capacity: 126,
        };
        assert_eq!(keys.address_of("a", ALL), Some(ip(130)));
        assert_eq!(keys.address_of("a", lower), Some(ip(4)));
        assert_eq!(keys.address_of("a\nb\" c", ALL), Some(ip(3)));
        assert_eq!(keys.address_of("b\" c", ALL), None);
    }

    #[test]
    fn a_key_that_is_given_its_address_again_adds_no_line_at_once() {
        let (folder, directory) = directory();
        note(&directory, 2, "a");
        note(&directory, 2, "a");
        let path = folder.path().join(FILE);
        assert_eq!(fs::read_to_string(&path).unwrap(), "10.0.0.2 \"a\"\n");
        // The line of another address, which ends with the new line.
        fs::write(&path, "110.0.0.2 \"a\"\n").unwrap();
        assert_eq!(note(&directory, 2, "a").address_of("a", ALL), Some(ip(2)));
    }

    #[test]
    fn a_line_that_is_cut_off_was_not_written_and_spoils_no_later_one() {
        let (folder, directory) = directory();
        let path = folder.path().join(FILE);
        let whole = "10.0.0.2 \"a\"\n10.0.0.3 \"b\"\n";
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            let keys = StickyKeys::read(&directory).unwrap();
            assert_eq!(keys.address_of("a", ALL), (end >= 13).then(|| ip(2)));
            assert_eq!(keys.address_of("b", ALL), None);
            let keys = note(&directory, 4, "c");
            assert_eq!(keys.address_of("c", ALL), Some(ip(4)));
            assert_eq!(fs::read(&path).unwrap(), keys.content);
            assert_eq!(
                keys.content,
                [whole_lines(&whole.as_bytes()[..end]), &line(ip(4), "c")].concat()
            );
        }
    }

    #[test]
    fn the_newest_keys_of_the_pool_stay_and_other_pools_lose_none() {
        let (folder, directory) = directory();
        let pool = StickyPool {
            contains: &|address| address < ip(128),
            capacity: 3,
        };
        note(&directory, 200, "other");
        for round in 0..200 {
            let mut keys = note(&directory, 2 + round % 5, &format!("k{}", round % 5));
            if keys.is_long(pool) {
                keys.shorten(&directory, pool).unwrap();
            }
            let lines = fs::read_to_string(folder.path().join(FILE)).unwrap();
            assert!(lines.lines().count() <= pool.most_lines() + 1);
        }
        let mut keys = StickyKeys::read(&directory).unwrap();
        keys.shorten(&directory, pool).unwrap();
        let content = fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert_eq!(
            content,
            "10.0.0.200 \"other\"\n10.0.0.4 \"k2\"\n10.0.0.5 \"k3\"\n10.0.0.6 \"k4\"\n"
        );
        let keys = StickyKeys::read(&directory).unwrap();
        assert_eq!(keys.address_of("k1", pool), None);
    }

    #[test]
    fn a_file_may_have_a_quarter_more_lines_than_keys_and_never_less_than_64_more() {
        for (capacity, lines) in [
            (3, 67),
            (256, 320),
            (1000, 1250),
            (65_536, 81_920),
            (u128::MAX, 81_920),
        ] {
            let pool = StickyPool { capacity, ..ALL };
            assert_eq!(pool.most_lines(), lines, "{capacity}");
        }
    }

    #[test]
    fn only_lines_of_the_pool_make_its_keys_too_many() {
        let pool = StickyPool {
            contains: &|address| address < ip(128),
            capacity: 3,
        };
        let lines = |last: usize, count: usize| line(ip(last), "a").repeat(count);
        for (of_pool, others, is_long) in [
            (1, 0, false),
            (67, 0, false),
            (67, 100, false),
            (68, 0, true),
            (69, 100, true),
        ] {
            let content = [lines(2, of_pool), lines(200, others)].concat();
            assert_eq!(StickyKeys { content }.is_long(pool), is_long, "{of_pool}");
        }
    }

    #[test]
    fn keys_that_can_not_be_read_are_an_error() {
        let (folder, directory) = directory();
        fs::create_dir(folder.path().join(FILE)).unwrap();
        assert!(StickyKeys::read(&directory).is_err());
    }
}
