//! Decides what is due for a lease: nothing, a renewal, or a rebinding.

use std::time::{Duration, SystemTime};

use ipam_da_dhcp::{FOREVER, Lease};

/// What is due for a lease whose address is at the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing, for this time.
    Nothing(Duration),
    /// The lease's server is to be asked: T1 is over.
    Renewal,
    /// All servers are to be asked: T2 is over.
    Rebinding,
}

/// What is due for a lease with this many seconds left.
pub(crate) fn due(lease: &Lease, left: u32) -> Due {
    if left == FOREVER || lease.seconds == FOREVER {
        return Due::Nothing(Duration::from_secs(3600));
    }
    let after_renew = lease.seconds.saturating_sub(lease.renew);
    let after_rebind = lease.seconds.saturating_sub(lease.rebind);
    match left.checked_sub(after_renew) {
        Some(wait) if wait > 0 => Due::Nothing(seconds(wait)),
        _ if left > after_rebind => Due::Renewal,
        _ => Due::Rebinding,
    }
}

/// The seconds left of a lease whose address has no lifetime yet: those since its start, by the
/// clock. If it seems to be over, the last part of it counts, since the clock may be wrong: the
/// servers decide until then.
pub(crate) fn first_left(lease: &Lease) -> u32 {
    let Some(end) = lease.end() else {
        return FOREVER;
    };
    let left = end.duration_since(SystemTime::now()).unwrap_or_default();
    let left = u32::try_from(left.as_secs()).unwrap_or(FOREVER);
    let last = lease.seconds.saturating_sub(lease.rebind).max(1);
    left.clamp(last, lease.seconds)
}

/// The pause before a server is asked again, which hasn't answered: half of the time to T2, or to
/// the end (RFC 2131, section 4.4.5), and a tenth of the lease at least. Then the lease may be
/// over.
pub(crate) fn pause(lease: &Lease, left: u32) -> Duration {
    let after_rebind = lease.seconds.saturating_sub(lease.rebind);
    let to_next_state = left.checked_sub(after_rebind).filter(|wait| *wait > 0);
    let half = to_next_state.unwrap_or(left) / 2;
    let pause = half.max(window(lease));
    seconds(if pause < left { pause } else { left + 1 })
}

/// A tenth of a lease in seconds: the time over which a start of the daemon spreads its requests,
/// and the shortest time between two for one lease.
pub(crate) fn window(lease: &Lease) -> u32 {
    (lease.seconds / 10).clamp(1, 3600)
}

pub(crate) fn seconds(number: u32) -> Duration {
    Duration::from_secs(number.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(start: &str) -> Lease {
        Lease {
            address: "10.0.0.5".parse().unwrap(),
            server: "10.0.0.1".into(),
            client_id: "00".into(),
            sticky: false,
            start: start.into(),
            seconds: 600,
            renew: 300,
            rebind: 525,
        }
    }

    #[test]
    fn t1_and_t2_are_counted_back_from_the_end() {
        let lease = lease("2026-01-01T00:00:00Z");
        assert_eq!(due(&lease, 600), Due::Nothing(seconds(300)));
        assert_eq!(due(&lease, 301), Due::Nothing(seconds(1)));
        assert_eq!(due(&lease, 300), Due::Renewal);
        assert_eq!(due(&lease, 76), Due::Renewal);
        assert_eq!(due(&lease, 75), Due::Rebinding);
        assert_eq!(due(&lease, 0), Due::Rebinding);
        // The server has given more time since.
        assert_eq!(due(&lease, 3600), Due::Nothing(seconds(3300)));
        assert!(matches!(due(&lease, FOREVER), Due::Nothing(_)));
    }

    #[test]
    fn an_address_without_a_lifetime_gets_what_is_left_by_the_clock() {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        assert!((598..=600).contains(&first_left(&lease(&now))));
        // It seems to be over, or to begin in the future.
        assert_eq!(first_left(&lease("2001-01-01T00:00:00Z")), 75);
        assert_eq!(first_left(&lease("2999-01-01T00:00:00Z")), 600);
    }

    #[test]
    fn pauses_halve_the_time_and_are_a_tenth_of_the_lease_at_least() {
        let lease = lease("2026-01-01T00:00:00Z");
        let of = |left| pause(&lease, left).as_secs();
        assert_eq!((of(300), of(187), of(75)), (112, 60, 60));
        assert_eq!(of(50), 51);
    }
}
