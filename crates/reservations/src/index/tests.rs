use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

const ID: FileId = FileId {
    device: 1,
    inode: 2,
};

fn version(n: i64) -> Version {
    Version([n, 1, 2, 3])
}

struct Place {
    _root: tempfile::TempDir,
    folder: StateFolder,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let folder = StateFolder::create(&root.path().join("cache")).unwrap();
        Self {
            _root: root,
            folder,
        }
    }

    fn build(&self, n: i64, entries: Vec<Entry>) {
        self.save(Index::of_files(entries), n);
    }

    fn save(&self, index: Index, n: i64) {
        index.save(&self.folder, ID, version(n)).unwrap();
    }

    fn open(&self, n: i64) -> Option<Index> {
        Index::open(&self.folder, ID, version(n))
    }

    fn bytes(&self) -> Vec<u8> {
        self.folder.read(&file_name(ID)).unwrap()
    }

    fn write(&self, bytes: &[u8]) {
        self.folder.replace(&file_name(ID), bytes).unwrap();
    }
}

fn pages_read(index: &Index) -> usize {
    index.stored.as_ref().unwrap().tables.pages_read()
}

fn v4(n: u32) -> IpAddr {
    Ipv4Addr::from(0x0a00_0000 + n).into()
}

fn container(n: u16) -> String {
    format!("c{n}")
}

fn entry(ip: IpAddr, n: u16) -> Entry {
    (ip, HolderKey::of(&container(n)))
}

/// Addresses of both families, near each other and far apart, at the ends, and IPv6 ones
/// that embed those of IPv4.
fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0u32..600).prop_map(v4),
        (0u128..600).prop_map(|n| IpAddr::from(Ipv6Addr::from((0xfd00_u128 << 112) | n))),
        (0u32..600).prop_map(|n| IpAddr::from(Ipv4Addr::from(0x0a00_0000 + n).to_ipv6_mapped())),
        any::<u128>().prop_map(|n| IpAddr::from(Ipv6Addr::from(n))),
        (0u128..9).prop_map(|n| IpAddr::from(Ipv6Addr::from(u128::MAX - n))),
        (0u32..9).prop_map(|n| IpAddr::from(Ipv4Addr::from(u32::MAX - n))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Some reservations are in the tables, the others in the journal, over several calls.
    #[test]
    fn the_index_says_what_a_list_of_all_reservations_says(
        first in proptest::collection::btree_map(address(), 0u16..40, 0..300),
        calls in proptest::collection::vec(
            proptest::collection::vec((address(), 0u16..40, any::<bool>()), 1..80), 0..5),
        asked in proptest::collection::vec((address(), address()), 20),
    ) {
        let place = Place::new();
        let mut truth: BTreeMap<IpAddr, u16> = first;
        place.build(0, truth.iter().map(|(ip, n)| entry(*ip, *n)).collect());
        let mut now = 0;
        for call in calls {
            let mut index = place.open(now).unwrap();
            for (ip, n, reserve) in call {
                match (truth.get(&ip).copied(), reserve) {
                    (None, true) => {
                        index.note(ip, Some(HolderKey::of(&container(n))));
                        truth.insert(ip, n);
                    }
                    (Some(_), false) => {
                        index.note(ip, None);
                        truth.remove(&ip);
                    }
                    _ => {}
                }
            }
            now += 1;
            place.save(index, now);
        }
        let of_files = Index::of_files(truth.iter().map(|(ip, n)| entry(*ip, *n)));
        for mut index in [place.open(now).unwrap(), of_files] {
            for (a, b) in &asked {
                if let Some(interval) = Interval::new(*a.min(b), *a.max(b)) {
                    let free = interval.iter().find(|ip| !truth.contains_key(ip));
                    prop_assert_eq!(index.first_free(interval).unwrap(), free);
                }
            }
            for n in 0..40 {
                let mut candidates = index.candidates(HolderKey::of(&container(n))).unwrap();
                candidates.sort_unstable();
                let held = truth.iter().filter(|(_, holder)| **holder == n);
                let held: Vec<IpAddr> = held.map(|(ip, _)| *ip).collect();
                prop_assert_eq!(candidates, held);
            }
            }
    }
}

#[test]
fn a_full_run_of_addresses_has_none_free() {
    let place = Place::new();
    place.build(0, (0..10_000).map(|n| entry(v4(n), 1)).collect());
    let mut index = place.open(0).unwrap();
    let mut free = |a, b| {
        index
            .first_free(Interval::new(v4(a), v4(b)).unwrap())
            .unwrap()
    };
    assert_eq!(free(0, 9_999), None);
    assert_eq!(free(5, 9_999), None);
    assert_eq!(free(0, 10_000), Some(v4(10_000)));
    index.note(v4(7_000), None);
    let mut free = |a, b| {
        index
            .first_free(Interval::new(v4(a), v4(b)).unwrap())
            .unwrap()
    };
    assert_eq!(free(0, 9_999), Some(v4(7_000)));
    assert_eq!(free(7_001, 9_999), None);
}

#[test]
fn size_is_in_proportion_to_the_reservations_however_they_are_distributed() {
    let many = 20_000;
    let scattered = |n: u32| {
        let bits = (0xfd00_u128 << 112) | (u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) << 20);
        IpAddr::from(Ipv6Addr::from(bits))
    };
    let numbered = |n: u32| u16::try_from(n).unwrap();
    let distributions: [(usize, Vec<Entry>); 3] = [
        (4, (0..many).map(|n| entry(v4(n), numbered(n))).collect()),
        (20, (0..many).map(|n| entry(v4(2 * n), 7)).collect()),
        (
            4,
            (0..many)
                .map(|n| entry(scattered(n), numbered(n)))
                .collect(),
        ),
    ];
    for (most_pages, entries) in distributions {
        let place = Place::new();
        let last = *entries.last().unwrap();
        place.build(0, entries);
        let size = place.bytes().len();
        assert!(size < 4096 + 100 * many as usize, "{size} bytes");
        // The journal may have more lines than that of a small index.
        let most = place.open(0).unwrap().stored.unwrap().most;
        assert!((2 * SHORT_JOURNAL..=LONG_JOURNAL).contains(&most), "{most}");
        let mut index = place.open(0).unwrap();
        assert!(index.candidates(last.1).unwrap().contains(&last.0));
        // Few pages are read, however many entries have one holder.
        let mut index = place.open(0).unwrap();
        assert!(
            index
                .candidates(HolderKey::of("nobody"))
                .unwrap()
                .is_empty()
        );
        assert!(pages_read(&index) <= most_pages, "{}", pages_read(&index));
    }
}

#[test]
fn any_changed_byte_is_noticed() {
    let place = Place::new();
    place.build(0, (0..300).map(|n| entry(v4(2 * n), 1)).collect());
    let built = place.bytes().len();
    let mut index = place.open(0).unwrap();
    index.note(v4(1), Some(HolderKey::of(&container(1))));
    place.save(index, 1);
    let bytes = place.bytes();
    assert!(bytes.len() > built, "a line follows the tables");
    let everything = |index: &mut Index| {
        let interval = Interval::new(v4(0), v4(700)).unwrap();
        let free = index.first_free(interval)?;
        Ok::<_, io::Error>((free, index.candidates(HolderKey::of("c1"))?))
    };
    let right = everything(&mut place.open(1).unwrap()).unwrap();
    let header = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let is_line = |at: usize| at <= header || at >= built;
    for at in (0..bytes.len()).filter(|at| is_line(*at) || at % 7 == 0) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        place.write(&damaged);
        if let Some(mut index) = place.open(1)
            && let Ok(answer) = everything(&mut index)
        {
            assert_eq!(answer, right, "byte {at}");
            assert!(!is_line(at), "byte {at} went unnoticed");
        }
    }
}

#[test]
fn pages_of_two_generations_are_not_used_together() {
    let place = Place::new();
    let entries = |first: u32| (first..first + 300).map(|n| entry(v4(n), 1)).collect();
    place.build(1, entries(0));
    let old = place.bytes();
    place.build(2, entries(100));
    let new = place.bytes();
    assert_eq!(old.len(), new.len());
    // The table of runs is from before a power cut, the rest from after it.
    let mixed = [&new[..new.len() - 4096], &old[old.len() - 4096..]].concat();
    place.write(&mixed);
    let mut index = place.open(2).unwrap();
    let interval = Interval::new(v4(0), v4(700)).unwrap();
    let error = index.first_free(interval).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    // Neither is a line of another generation.
    place.build(1, entries(0));
    let built = place.bytes().len();
    let mut index = place.open(1).unwrap();
    index.note(v4(500), Some(HolderKey::of(&container(1))));
    place.save(index, 2);
    let line = &place.bytes()[built..];
    place.build(3, entries(100));
    assert!(place.open(3).is_some());
    place.write(&[&place.bytes(), line].concat());
    assert!(place.open(2).is_none() && place.open(3).is_none());
}

#[test]
fn a_journal_that_is_cut_off_is_of_an_older_version() {
    let place = Place::new();
    place.build(0, Vec::new());
    for n in 1..=2 {
        let mut index = place.open(i64::from(n) - 1).unwrap();
        index.note(v4(n), Some(HolderKey::of(&container(1))));
        place.save(index, n.into());
    }
    let bytes = place.bytes();
    let last = bytes
        .trim_ascii_end()
        .iter()
        .rposition(|byte| *byte == b'\n');
    for end in last.unwrap() + 1..bytes.len() {
        place.write(&bytes[..end]);
        assert!(place.open(2).is_none());
        let mut index = place.open(1).unwrap();
        // A further line follows the whole ones.
        index.note(v4(3), Some(HolderKey::of(&container(1))));
        place.save(index, 3);
        let index = place.open(3).unwrap();
        assert_eq!(index.changed.len(), 2, "cut off at {end}");
    }
    fs::remove_file(place.folder.path_of(&file_name(ID))).unwrap();
    assert!(place.open(1).is_none());
}

#[test]
fn the_journal_is_bounded_and_the_tables_then_say_the_same() {
    let place = Place::new();
    place.build(0, (0..10).map(|n| entry(v4(n), 1)).collect());
    let tables = place.bytes().len();
    for n in 1..=200 {
        let mut index = place.open(n - 1).unwrap();
        let ip = v4(9 + u32::try_from(n % 2).unwrap());
        match n % 4 {
            0 | 1 => index.note(ip, Some(HolderKey::of(&container(2)))),
            _ => index.note(ip, None),
        }
        place.save(index, n);
        assert!(place.bytes().len() <= tables + SHORT_JOURNAL);
        let interval = Interval::new(v4(0), v4(20)).unwrap();
        let free = place.open(n).unwrap().first_free(interval).unwrap();
        assert_eq!(
            free,
            Some(v4([10, 11, 9, 9][usize::try_from(n % 4).unwrap()])),
            "{n}"
        );
    }
}

#[test]
fn an_index_of_another_directory_is_not_used() {
    let place = Place::new();
    place.build(0, vec![entry(v4(1), 1)]);
    let other = FileId { inode: 3, ..ID };
    let folder = &place.folder;
    folder.replace(&file_name(other), &place.bytes()).unwrap();
    assert!(Index::open(folder, other, version(0)).is_none());
    assert!(place.open(0).is_some());
}

#[test]
fn entries_are_found_however_their_keys_are_distributed() {
    let keys: [fn(u64) -> HolderKey; 2] = [|n| HolderKey(n + 1), |n| HolderKey(u64::MAX - n)];
    for key in keys {
        let place = Place::new();
        let entries = (0..2_000_u32).map(|n| (v4(n), key(n.into())));
        place.build(0, entries.collect());
        for n in (0..2_000_u32).step_by(7) {
            let mut index = place.open(0).unwrap();
            assert_eq!(index.candidates(key(n.into())).unwrap(), [v4(n)]);
        }
    }
}

/// Indexes are read by later versions: if a key changes, [`FORMAT`] must change, too.
#[test]
fn the_key_of_a_container_is_the_same_in_every_build() {
    let keys = ["", "c1", "c2"].map(|container_id| HolderKey::of(container_id).0);
    assert_eq!(
        keys,
        [
            0x8570_e254_50bb_d481,
            0xf345_853b_91c2_f78d,
            0x98a3_228b_de15_d658
        ]
    );
}

#[test]
fn every_bit_of_the_seed_changes_a_checksum() {
    let of_seed = |seed| checked::checksum(seed, b"c1");
    for bit in 0..64 {
        assert_ne!(of_seed(1 << bit), of_seed(0), "{bit}");
    }
}

#[test]
fn files_that_were_read_in_this_call_or_seconds_ago_have_just_been_read() {
    let place = Place::new();
    place.build(0, vec![entry(v4(1), 1)]);
    for (age, has_just_read) in [(0, true), (5, true), (11, false), (-60, false)] {
        let mut index = place.open(0).unwrap();
        index.files_read = change_detection::now() - age;
        assert_eq!(index.has_just_read(), has_just_read, "{age}");
        index.stored = None;
        assert!(index.has_just_read());
    }
}
