//! Faults of the API server and of its etcd: starts and ends them.

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
    ///
    /// # Panics
    ///
    /// If it doesn't become ready.
    pub fn start_api_server(&mut self) {
        self.control_plane.start_api_server();
        self.control_plane.wait_until_ready();
    }

    /// Stops the API server with SIGSTOP: it accepts connections and doesn't answer.
    pub fn pause_api_server(&self) {
        self.control_plane.signal(API_SERVER, "STOP");
    }

    /// Continues the API server.
    pub fn continue_api_server(&self) {
        self.control_plane.signal(API_SERVER, "CONT");
    }

    /// Stops etcd with SIGSTOP: the API server runs, and can't read or write.
    pub fn pause_etcd(&self) {
        self.control_plane.signal(ETCD, "STOP");
    }

    /// Continues etcd.
    pub fn continue_etcd(&self) {
        self.control_plane.signal(ETCD, "CONT");
    }

    /// Saves the state of etcd, for [`Self::restore`]. Both daemons are stopped and started again.
    pub fn snapshot(&mut self) -> Snapshot {
        self.snapshots += 1;
        let folder = format!("/run/snapshot-{}", self.snapshots);
        self.replace_data(&format!("cp -a /run/etcd {folder}"));
        Snapshot(folder)
    }

    /// Sets etcd back to a snapshot. Its revisions are those of then, and grow from there.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        let folder = &snapshot.0;
        self.replace_data(&format!("rm -rf /run/etcd; cp -a {folder} /run/etcd"));
    }

    fn replace_data(&mut self, script: &str) {
        self.control_plane.kill(API_SERVER);
        self.control_plane.kill(ETCD);
        self.control_plane.node().sh(script);
        self.control_plane.start_etcd();
        self.start_api_server();
    }
}
