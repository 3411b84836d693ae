//! The times of a lease: what is left of it, and when a server is to be asked.

use std::time::{Duration, SystemTime};

use ipam_da_dhcp::{FOREVER, Lease};

/// The seconds left until T1 of a lease that has this many seconds left.
pub(crate) fn until_t1(lease: &Lease, left: u32) -> u32 {
    left.saturating_sub(lease.seconds.saturating_sub(lease.renew))
}

/// The lease's own server; `None` after T2, when all servers are asked.
pub(crate) fn server(lease: &Lease, left: u32) -> Option<&str> {
    (left > after_t2(lease)).then_some(&lease.server)
}

/// The seconds left of a lease whose address has no lifetime yet: those since its start, by the
/// clock. If it seems to be over, the last part of it counts, since the clock may be wrong: the
/// servers decide until then.
pub(crate) fn left_by_clock(lease: &Lease) -> u32 {
    if lease.seconds == FOREVER {
        return FOREVER;
    }
    let start = humantime::parse_rfc3339(&lease.start).unwrap_or(SystemTime::UNIX_EPOCH);
    let age = SystemTime::now().duration_since(start).unwrap_or_default();
    let age = u32::try_from(age.as_secs()).unwrap_or(FOREVER);
    let left = lease.seconds.saturating_sub(age);
    left.max(after_t2(lease)).max(1)
}

/// A tenth of a lease: the time over which a start of the daemon spreads its requests, and the
/// pause before a server is asked again, which hasn't answered.
pub(crate) fn window(lease: &Lease) -> Duration {
    seconds((lease.seconds / 10).clamp(1, 3600))
}

pub(crate) fn seconds(number: u32) -> Duration {
    Duration::from_secs(number.into())
}

/// The seconds from T2 to the end.
fn after_t2(lease: &Lease) -> u32 {
    lease.seconds.saturating_sub(lease.rebind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(start: &str) -> Lease {
        Lease {
            address: "10.0.0.5".parse().unwrap(),
            server: "10.0.0.1".into(),
            client: Default::default(),
            start: start.into(),
            seconds: 600,
            renew: 300,
            rebind: 525,
        }
    }

    #[test]
    fn t1_and_t2_are_counted_back_from_the_end() {
        let lease = lease("2026-01-01T00:00:00Z");
        // The last one: the server has given more time since.
        for (left, wait) in [(600, 300), (301, 1), (300, 0), (0, 0), (3600, 3300)] {
            assert_eq!(until_t1(&lease, left), wait);
        }
        assert_eq!(server(&lease, 76), Some("10.0.0.1"));
        assert_eq!(server(&lease, 75), None);
    }

    #[test]
    fn an_address_without_a_lifetime_gets_what_is_left_by_the_clock() {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        assert!((598..=600).contains(&left_by_clock(&lease(&now))));
        // It seems to be over, or to begin in the future.
        assert_eq!(left_by_clock(&lease("2001-01-01T00:00:00Z")), 75);
        assert_eq!(left_by_clock(&lease("2999-01-01T00:00:00Z")), 600);
        let endless = Lease {
            seconds: FOREVER,
            ..lease(&now)
        };
        assert_eq!(left_by_clock(&endless), FOREVER);
    }
}
