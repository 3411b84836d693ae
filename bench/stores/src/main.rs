//! Why the allocator's index is a plain file: what each of four stores adds to a
//! process that opens one with 60,000 reservations, looks one up, writes two
//! records, and ends.
//!
//! Without an argument, it measures: it starts itself, once with each store and
//! once with none, in turn, and prints medians.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use lmdb::Transaction as _;
use redb::ReadableTable as _;

const RESERVATIONS: u32 = 60_000;
const RUNS: usize = 300;
const STORES: [(&str, Store); 5] = [
    ("none", none),
    ("plain file", plain_file),
    ("LMDB", lmdb),
    ("redb", redb),
    ("SQLite", sqlite),
];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Opens the store in this file, and fills it, or does one call's work as the
/// container of this number.
type Store = fn(&Path, Option<u32>) -> Result<()>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [store, path, rest @ ..] = arguments.as_slice() {
        let (_, work) = STORES
            .iter()
            .find(|(name, _)| name == store)
            .ok_or("which store?")?;
        let container = rest.first().map(|text| text.parse()).transpose()?;
        return work(Path::new(path), container);
    }

    let folder = PathBuf::from(format!("/dev/shm/stores-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let run = |store: &str, container: Option<u32>| -> Result<f64> {
        let mut process = Command::new(std::env::current_exe()?);
        process
            .arg(store)
            .arg(folder.join(store))
            .args(container.map(|n| n.to_string()));
        let started = Instant::now();
        if !process.status()?.success() {
            return Err(store.into());
        }
        Ok(started.elapsed().as_secs_f64() * 1e3)
    };
    for (store, _) in STORES {
        run(store, None)?;
    }
    let mut times = vec![Vec::new(); STORES.len()];
    for n in 0..RUNS {
        for (i, (store, _)) in STORES.iter().enumerate() {
            times[i].push(run(store, Some(u32::try_from(n)?))?);
        }
    }
    fs::remove_dir_all(folder)?;
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect();
    for ((store, _), median) in STORES.iter().zip(&medians) {
        println!("{store:<12} {median:.3} ms, {:+.3} ms", median - medians[0]);
    }
    Ok(())
}

/// A holder, as long as those of a container runtime are.
fn key(n: u32) -> String {
    format!("{n:064x}\r\neth0")
}

fn none(_: &Path, _: Option<u32>) -> Result<()> {
    Ok(())
}

/// What the index does: a header, a page of each of two tables, both written.
fn plain_file(path: &Path, container: Option<u32>) -> Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let Some(n) = container else {
        return Ok(file.write_all_at(&vec![1; 4 << 20], 0)?);
    };
    let mut page = [0; 4096];
    file.read_exact_at(&mut page[..64], 0)?;
    for at in [u64::from(n) * 4096, (512 + u64::from(n)) * 4096] {
        file.read_exact_at(&mut page, at)?;
        file.write_all_at(&page, at)?;
    }
    Ok(file.write_all_at(&page[..64], 0)?)
}

fn lmdb(path: &Path, container: Option<u32>) -> Result<()> {
    let flags = lmdb::EnvironmentFlags::NO_SUB_DIR
        | lmdb::EnvironmentFlags::NO_SYNC
        | lmdb::EnvironmentFlags::NO_LOCK;
    let environment = lmdb::Environment::new()
        .set_flags(flags)
        .set_map_size(64 << 20)
        .open(path)?;
    let store = environment.open_db(None)?;
    let mut transaction = environment.begin_rw_txn()?;
    let mut put = |key: &str, value: u32| {
        transaction.put(store, &key, &value.to_ne_bytes(), lmdb::WriteFlags::empty())
    };
    match container {
        None => (0..RESERVATIONS).try_for_each(|n| put(&key(n), n))?,
        Some(n) => {
            put(&format!("new {}", key(n)), n)?;
            put(&format!("page {n}"), n)?;
            transaction.get(store, &key(n * 7))?;
        }
    }
    Ok(transaction.commit()?)
}

fn redb(path: &Path, container: Option<u32>) -> Result<()> {
    const TABLE: redb::TableDefinition<'_, &str, u32> = redb::TableDefinition::new("reservations");
    let store = redb::Database::builder()
        .set_cache_size(1 << 20)
        .create(path)?;
    let transaction = store.begin_write()?;
    {
        let mut table = transaction.open_table(TABLE)?;
        match container {
            None => {
                for n in 0..RESERVATIONS {
                    table.insert(key(n).as_str(), n)?;
                }
            }
            Some(n) => {
                table.get(key(n * 7).as_str())?.ok_or("not found")?;
                table.insert(format!("new {}", key(n)).as_str(), n)?;
                table.insert(format!("page {n}").as_str(), n)?;
            }
        }
    }
    Ok(transaction.commit()?)
}

fn sqlite(path: &Path, container: Option<u32>) -> Result<()> {
    let mut store = rusqlite::Connection::open(path)?;
    store.execute_batch(
        "pragma synchronous = off; pragma journal_mode = memory; pragma locking_mode = exclusive;
         create table if not exists reservations (holder text primary key, value) without rowid",
    )?;
    let transaction = store.transaction()?;
    {
        let mut insert =
            transaction.prepare("insert or replace into reservations values (?, ?)")?;
        match container {
            None => {
                for n in 0..RESERVATIONS {
                    insert.execute((key(n), n))?;
                }
            }
            Some(n) => {
                let select = "select value from reservations where holder = ?";
                transaction.query_row(select, [key(n * 7)], |row| row.get::<_, u32>(0))?;
                insert.execute((format!("new {}", key(n)), n))?;
                insert.execute((format!("page {n}"), n))?;
            }
        }
    }
    Ok(transaction.commit()?)
}
