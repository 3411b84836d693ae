//! Starts and ends faults of the API server and of its etcd.

use std::thread;
use std::time::Duration;

use super::control_plane::ControlPlane;

const API_SERVER: &str = "kube-apiserver";
const ETCD: &str = "etcd36";

impl ControlPlane {
    /// Kills the API server. Its connections are closed, new ones refused.
    pub fn stop_api_server(&mut self) {
        self.kill(API_SERVER);
    }

    /// Starts the API server again, and waits until it is ready.
    pub fn start_api_server(&mut self) {
        self.launch_api_server();
        self.wait_until_ready();
    }

    /// Stops the API server for this time with SIGSTOP: it accepts connections and doesn't answer.
    pub fn pause_api_server(&self, time: Duration) {
        self.pause(API_SERVER, time);
    }

    /// Kills etcd: the API server runs, and its connections to etcd are closed.
    pub fn stop_etcd(&mut self) {
        self.kill(ETCD);
    }

    /// Starts etcd again, with its data, and waits until the API server is ready.
    pub fn start_etcd(&mut self) {
        self.launch_etcd();
        self.wait_until_ready();
    }

    /// Stops etcd for this time with SIGSTOP: the API server runs, and can't read or write.
    pub fn pause_etcd(&self, time: Duration) {
        self.pause(ETCD, time);
    }

    fn pause(&self, program: &str, time: Duration) {
        self.signal(program, "STOP");
        thread::sleep(time);
        self.signal(program, "CONT");
    }

    /// Saves the state of etcd, for [`Self::restore`]. Its files are copied while it is paused: they
    /// are those that a killed etcd would leave.
    pub fn snapshot(&self) {
        self.signal(ETCD, "STOP");
        self.node().sh("cp -a /run/etcd /run/older");
        self.signal(ETCD, "CONT");
    }

    /// Sets etcd back to the snapshot, whose revisions continue, and waits until the API server is
    /// ready.
    pub fn restore(&mut self) {
        self.stop_api_server();
        self.stop_etcd();
        self.node()
            .sh("rm -r /run/etcd; cp -a /run/older /run/etcd");
        self.launch_etcd();
        self.start_api_server();
    }
}
