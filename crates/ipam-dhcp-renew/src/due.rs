//! The times of a lease: what is left of it, and when a server is to be asked.

use std::time::Duration;

use ipam_da_dhcp::Lease;

/// The time until T1 of a lease that has this many seconds left. A server may have given more than
/// this lease since: then T1 isn't known, and comes no later than this lease's.
pub(crate) fn until_t1(lease: &Lease, left: u32) -> Duration {
    let after_t1 = lease.seconds.saturating_sub(lease.renew);
    Duration::from_secs(left.saturating_sub(after_t1).min(lease.renew).into())
}

/// The lease's own server; `None` after T2, when all servers are asked.
pub(crate) fn server(lease: &Lease, left: u32) -> Option<&str> {
    (left > after_t2(lease)).then_some(&lease.server)
}

/// The seconds left of a lease of this age by the clock, whose address has no lifetime yet. If it
/// seems to be over, the last part of it counts, since the clock may be wrong: the servers decide
/// until then.
pub(crate) fn left_by_clock(lease: &Lease, age: Duration) -> u32 {
    let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
    let left = lease.seconds.saturating_sub(age);
    left.max(after_t2(lease)).max(1)
}

/// A tenth of a lease, but at most a quarter of what is left: the time over which a start of the
/// daemon spreads its requests, and the pause after a request that has failed.
pub(crate) fn window(lease: &Lease, left: u32) -> Duration {
    let seconds = (lease.seconds / 10).min(left / 4);
    Duration::from_secs(seconds.clamp(1, 3600).into())
}

/// The seconds from T2 to the end.
fn after_t2(lease: &Lease) -> u32 {
    lease.seconds.saturating_sub(lease.rebind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease() -> Lease {
        Lease {
            address: "10.0.0.5".parse().unwrap(),
            server: "10.0.0.1".into(),
            client: Default::default(),
            start: "2026-01-01T00:00:00Z".into(),
            seconds: 600,
            renew: 300,
            rebind: 525,
        }
    }

    #[test]
    fn t1_and_t2_are_counted_back_from_the_end() {
        let lease = lease();
        // The last one: the server has given more time since.
        for (left, wait) in [(600, 300), (301, 1), (300, 0), (0, 0), (3600, 300)] {
            assert_eq!(until_t1(&lease, left), Duration::from_secs(wait));
        }
        assert_eq!(server(&lease, 76), Some("10.0.0.1"));
        assert_eq!(server(&lease, 75), None);
    }

    #[test]
    fn the_next_request_comes_before_the_end() {
        let long = Lease {
            seconds: 43_200,
            ..lease()
        };
        for (left, seconds) in [(43_200, 3600), (20, 5), (3, 1), (0, 1)] {
            assert_eq!(window(&long, left), Duration::from_secs(seconds));
        }
        assert_eq!(window(&lease(), 600), Duration::from_secs(60));
    }

    #[test]
    fn an_address_without_a_lifetime_gets_what_is_left_by_the_clock() {
        let of = |age| left_by_clock(&lease(), Duration::from_secs(age));
        assert_eq!(of(0), 600);
        assert_eq!(of(200), 400);
        // It seems to be over.
        assert_eq!(of(10_000_000), 75);
    }
}
