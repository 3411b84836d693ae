//! Starts and ends faults of the API server and of its etcd.

use std::time::Duration;

use super::KubernetesApi;

const API_SERVER: &str = "kube-apiserver";
const ETCD: &str = "etcd36";

/// A state of etcd.
pub struct Snapshot(String);

impl KubernetesApi {
    /// Kills the API server. Its connections are closed, new ones refused.
    pub fn stop_api_server(&mut self) {
        self.control_plane.kill(API_SERVER);
    }

    /// Starts the API server again, and waits until it is ready.
    pub fn start_api_server(&mut self) {
        self.control_plane.start_api_server();
        self.control_plane.wait_until_ready();
    }

    /// Stops the API server for this time with SIGSTOP: it accepts connections and doesn't answer.
    pub fn pause_api_server(&self, time: Duration) {
        self.control_plane.pause(API_SERVER, time);
    }

    /// Kills etcd: the API server runs, and its connections to etcd are closed.
    pub fn stop_etcd(&mut self) {
        self.control_plane.kill(ETCD);
    }

    /// Starts etcd again, with its data, and waits until the API server is ready.
    pub fn start_etcd(&mut self) {
        self.control_plane.start_etcd();
        self.control_plane.wait_until_ready();
    }

    /// Stops etcd for this time with SIGSTOP: the API server runs, and can't read or write.
    pub fn pause_etcd(&self, time: Duration) {
        self.control_plane.pause(ETCD, time);
    }

    /// Saves the state of etcd, for [`Self::restore`].
    pub fn snapshot(&mut self) -> Snapshot {
        self.snapshots += 1;
        let folder = format!("/run/snapshot-{}", self.snapshots);
        self.control_plane.snapshot(&folder);
        Snapshot(folder)
    }

    /// Sets etcd back to a snapshot. Revisions continue from the snapshot's.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.control_plane.restore(&snapshot.0);
    }
}
