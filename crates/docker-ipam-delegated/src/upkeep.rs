//! Work that no call asks for: what an earlier daemon left, and what has failed.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::recovery::Recovered;
use crate::releases::INTERVAL;

/// Does the work for as long as the daemon runs. The receiver hears when all that an
/// earlier daemon left was tried once.
pub(crate) fn start(recovered: Recovered, records: PathBuf) -> oneshot::Receiver<()> {
    let (first_round, is_done) = oneshot::channel();
    let Recovered {
        driver, orphans, ..
    } = recovered;
    tokio::spawn(async move {
        let it = Arc::clone(&driver);
        let first = spawn_blocking(move || {
            it.retry_releases();
            if let Some(orphans) = orphans {
                it.release_forgotten(&records, orphans);
            }
        });
        let _ = first.await;
        let _ = first_round.send(());
        loop {
            sleep(INTERVAL).await;
            let it = Arc::clone(&driver);
            let _ = spawn_blocking(move || it.retry_releases()).await;
        }
    });
    is_done
}
