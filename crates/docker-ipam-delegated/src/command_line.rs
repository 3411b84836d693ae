use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use docker_records::records::ADDRESS_RECORDS;

use crate::ipam::default_pools::{DEFAULTS, DefaultPool};

/// Answers Docker's IPAM and network drivers with chains of CNI plugins.
#[derive(Clone, Debug, Parser)]
#[command(name = "docker-ipam-delegated", version = plugin::version_with_commit())]
pub(crate) struct CommandLine {
    /// The socket on which Docker calls. Its name is the driver's.
    ///
    /// If systemd hands over a socket, that one is used.
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/run/docker/plugins/ipam-delegated.sock"
    )]
    pub(crate) socket: PathBuf,
    /// The folder of the CNI network configurations that networks can name.
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
    pub(crate) conf_dir: PathBuf,
    /// The folders of the plugins, separated by colons.
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/opt/cni/bin:/usr/lib/cni:/usr/libexec/cni"
    )]
    pub(crate) cni_path: String,
    /// The folder of the daemon's memory.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/cni/docker-ipam-delegated"
    )]
    pub(crate) state_dir: PathBuf,
    /// The folder of the reservations of networks that name no configuration.
    #[arg(long, value_name = "DIR", default_value = reservations::DATA_DIR)]
    pub(crate) data_dir: PathBuf,
    /// A subnet, and the prefix length of the pools in it, for networks that ask for no
    /// subnet. The first that overlaps neither another pool nor a route of the host is
    /// taken.
    #[arg(long = "default-pool", value_name = "BASE,SIZE", default_values = DEFAULTS)]
    pub(crate) default_pools: Vec<DefaultPool>,
    /// Age of the addresses, subnets, endpoints and networks that are released if Docker doesn't
    /// have them.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = humantime::parse_duration)]
    pub(crate) unanswered_after: Duration,
    /// The socket on which Docker itself is asked what it has.
    #[arg(long, value_name = "PATH", default_value = "/run/docker.sock")]
    pub(crate) docker_socket: PathBuf,
    /// The longest that running calls are waited for after SIGTERM, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) stop_timeout: u64,
    /// The lowest level that is logged: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log: tracing::Level,
}

impl CommandLine {
    /// The folder of the chains' records.
    pub(crate) fn records(&self) -> PathBuf {
        self.state_dir.join(ADDRESS_RECORDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<CommandLine, String> {
        let arguments = ["docker-ipam-delegated"].iter().chain(arguments);
        CommandLine::try_parse_from(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn default_pools_are_replaced_by_those_that_are_given() {
        assert_eq!(parse(&[]).unwrap().default_pools.len(), 2);
        let given = [
            "--default-pool",
            "10.1.0.0/16,24",
            "--default-pool",
            "fd00::/48,64",
        ];
        let given = parse(&given).unwrap().default_pools;
        let expected = ["10.1.0.0/16,24", "fd00::/48,64"].map(|text| text.parse().unwrap());
        assert_eq!(given, expected);
    }

    #[test]
    fn a_wrong_default_pool_is_refused_by_its_value() {
        let error = parse(&["--default-pool", "10.1.0.0/16"]).unwrap_err();
        assert!(error.contains("\"10.1.0.0/16\" is no BASE,SIZE"), "{error}");
    }
}
