//! Starts and ends faults of a cluster.

use super::member::{address, name};
use super::{CLIENT, Cluster, MEMBERS};

/// A network path that is cut. Its packets are dropped silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All traffic from and to a member.
    All(usize),
    /// Traffic between a member and the other members. Clients still reach it.
    Peers(usize),
    /// Traffic from a member to clients.
    Clients(usize),
}

impl Cluster {
    /// Starts a member that isn't running.
    pub fn start_member(&mut self, member: usize) {
        let authority = self.authority();
        self.members[member].start(&authority);
    }

    /// Kills a member.
    pub fn kill_member(&mut self, member: usize) {
        self.members[member].kill();
    }

    /// Stops a member with SIGSTOP: it keeps its connections, and sends no answers.
    pub fn stop_member(&self, member: usize) {
        self.members[member].signal("STOP");
    }

    /// Continues a stopped member.
    pub fn continue_member(&self, member: usize) {
        self.members[member].signal("CONT");
    }

    /// Fills a member's disk.
    pub fn fill_disk(&self, member: usize) {
        let fill = "dd if=/dev/zero of=/var/lib/etcd/filler bs=4k 2>/dev/null || true";
        self.members[member].node().sh(fill);
    }

    /// Frees a member's disk again.
    pub fn free_disk(&self, member: usize) {
        self.members[member].node().sh("rm -f /var/lib/etcd/filler");
    }

    /// True if a member's process has ended without being killed.
    pub fn has_ended(&mut self, member: usize) -> bool {
        self.members[member].has_ended()
    }

    /// Cuts a network path.
    pub fn cut(&self, cut: Cut) {
        self.route(cut, true);
    }

    /// Restores a network path.
    pub fn join(&self, cut: Cut) {
        self.route(cut, false);
    }

    fn route(&self, cut: Cut, is_cut: bool) {
        let drop = |from: usize, to: &str| {
            let verb = if is_cut { "add" } else { "del" };
            let node = self.members[from].node();
            node.sh(&format!("ip route {verb} blackhole {to}/32"));
        };
        match cut {
            Cut::All(member) => {
                let state = if is_cut { "down" } else { "up" };
                let port = name(member);
                self.clients.sh(&format!("ip link set {port} {state}"));
            }
            Cut::Peers(member) => {
                for peer in (0..MEMBERS).filter(|peer| *peer != member) {
                    drop(member, &address(peer));
                    drop(peer, &address(member));
                }
            }
            Cut::Clients(member) => drop(member, CLIENT),
        }
    }

    /// Compacts the history of all keys, and defragments every member.
    pub fn compact_and_defragment(&self) {
        let revision = self.revision().to_string();
        self.etcdctl(&["compact", &revision]);
        self.etcdctl(&["defrag"]);
    }
}
