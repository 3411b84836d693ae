//! DHCP: the allocator and the daemon that renews, with real servers and the reference's main
//! plugins.
//!
//! Needs: root, containernetworking-plugins, dnsmasq, isc-dhcp-server, kea-dhcp4-server,
//! kea-dhcp6-server. Takes a minute.

mod boot;
mod families;
mod lan;
mod main_plugins;
mod many;
mod reference;
mod refusals;
mod renewal;
mod renewal_killed;
mod servers;
mod tools;
