//! A lease, as the key `lease` of a result has it.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use cni::{Error, IpamResult};
use serde::{Deserialize, Serialize};

/// The key of a result that lists the leases.
const KEY: &str = "lease";

/// The lease time that never ends.
pub const FOREVER: u32 = u32::MAX;

/// A lease of one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The address.
    pub address: IpAddr,
    /// The server: its address, or the digits of its DUID with DHCPv6.
    pub server: String,
    /// The digits of the client ID, or of the DUID with DHCPv6.
    pub client_id: String,
    /// True if the client ID is a workload's, so that DEL doesn't release the lease.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sticky: bool,
    /// Time of the server's answer to ADD, in RFC 3339.
    pub start: String,
    /// Duration of the lease in seconds; [`FOREVER`] has no end.
    pub seconds: u32,
    /// T1: the seconds after which the server is asked again.
    pub renew: u32,
    /// T2: the seconds after which any server is asked.
    pub rebind: u32,
}

impl Lease {
    /// The leases of a result; none if it lacks the key.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key that is wrong.
    pub fn of_result(path: &str, result: &IpamResult) -> Result<Vec<Self>, Error> {
        let raw = result.other(KEY);
        let read = raw.map(|raw| cni::read(&format!("{path}.{KEY}"), raw));
        Ok(read.transpose()?.unwrap_or_default())
    }

    /// Puts leases into a result, after those that it has.
    pub(crate) fn append(result: &mut IpamResult, leases: Vec<Self>) -> Result<(), Error> {
        let mut all = Self::of_result("prevResult", result)?;
        all.extend(leases);
        result.set_other(KEY, &all);
        Ok(())
    }

    /// The end, by the clock of the ADD's node; `None` without one.
    pub fn end(&self) -> Option<SystemTime> {
        if self.seconds == FOREVER {
            return None;
        }
        let start = humantime::parse_rfc3339(&self.start).ok()?;
        start.checked_add(Duration::from_secs(self.seconds.into()))
    }
}

/// The times of a lease: its duration, T1 and T2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) seconds: u32,
    pub(crate) renew: u32,
    pub(crate) rebind: u32,
}

impl Times {
    /// The times that a server has said. Where it hasn't, T1 is a half and T2 seven eighths
    /// (RFC 2131, section 4.4.5).
    pub(crate) fn new(seconds: u32, renew: Option<u32>, rebind: Option<u32>) -> Self {
        let rebind = rebind.filter(|rebind| (1..seconds).contains(rebind));
        let rebind = rebind.unwrap_or(seconds - seconds / 8);
        let renew = renew.filter(|renew| (1..=rebind).contains(renew));
        Self {
            seconds,
            renew: renew.unwrap_or(seconds / 2).min(rebind),
            rebind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_a_server_has_not_said_or_that_make_no_sense_are_the_defaults() {
        let of = |renew, rebind| {
            let times = Times::new(80, renew, rebind);
            (times.renew, times.rebind)
        };
        assert_eq!(of(None, None), (40, 70));
        assert_eq!(of(Some(20), Some(60)), (20, 60));
        assert_eq!(of(Some(0), Some(0)), (40, 70));
        assert_eq!(of(Some(75), Some(90)), (40, 70));
    }

    #[test]
    fn leases_of_two_delegates_are_one_list_and_each_has_its_end() {
        let lease = |address: &str| Lease {
            address: address.parse().unwrap(),
            server: "10.0.0.1".into(),
            client_id: "00".into(),
            sticky: false,
            start: "2026-01-01T00:00:00Z".into(),
            seconds: 60,
            renew: 30,
            rebind: 52,
        };
        let mut result = IpamResult::default();
        for address in ["10.0.0.2", "fd00::2"] {
            Lease::append(&mut result, vec![lease(address)]).unwrap();
        }
        let all = Lease::of_result("result", &result).unwrap();
        assert_eq!(all, [lease("10.0.0.2"), lease("fd00::2")]);
        let end = humantime::parse_rfc3339("2026-01-01T00:01:00Z").unwrap();
        assert_eq!(all[0].end(), Some(end));
    }
}
