//! DHCP: the allocator and the daemon that renews, with real servers and the reference's bridge.
//!
//! Needs: root, containernetworking-plugins, dnsmasq, isc-dhcp-server, kea-dhcp4-server,
//! kea-dhcp6-server. Takes a minute.

mod families;
mod lan;
mod refusals;
mod renewal;
mod renewal_killed;
mod servers;

harness::print_left_out_at_the_end!();
