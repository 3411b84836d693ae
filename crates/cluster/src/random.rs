//! An address at random.

use std::net::IpAddr;

use ipam::Interval;

/// An address of these intervals, at random; `size` is the number of all.
pub fn random_address(intervals: &[Interval], size: u128) -> Option<IpAddr> {
    let mut at = (size > 0).then(|| fastrand::u128(..size))?;
    for interval in intervals {
        if let Some(ip) = interval.nth(at) {
            return Some(ip);
        }
        at -= interval.size();
    }
    None
}
