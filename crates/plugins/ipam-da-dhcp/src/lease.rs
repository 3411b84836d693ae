//! What a server grants: a lease, as the key `lease` of a result has it, with routes and DNS.

use std::net::IpAddr;
use std::time::SystemTime;

use cni::{Dns, Error, Object};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Client;

/// The key of a result that lists the leases.
pub(crate) const KEY: &str = "lease";

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
    /// Who holds it.
    #[serde(flatten)]
    pub client: Client,
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
    /// A lease that begins now. Where the server hasn't said T1 or T2, or says what makes no
    /// sense, T1 is a half and T2 seven eighths of it (RFC 2131, section 4.4.5).
    pub(crate) fn new(
        address: IpAddr,
        server: String,
        client: &Client,
        (seconds, renew, rebind): (u32, Option<u32>, Option<u32>),
    ) -> Self {
        let rebind = rebind.filter(|rebind| (1..seconds).contains(rebind));
        let rebind = rebind.unwrap_or(seconds - seconds / 8);
        let renew = renew.filter(|renew| (1..=rebind).contains(renew));
        Self {
            address,
            server,
            client: client.clone(),
            start: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            seconds,
            renew: renew.unwrap_or(seconds / 2).min(rebind),
            rebind,
        }
    }

    /// The leases of a result, such as a chain's recorded answer; none if it lacks the key.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key that is wrong.
    pub fn of_answer(answer: Option<&RawValue>) -> Result<Vec<Self>, Error> {
        let answer: Option<Object> = answer.map(|raw| cni::read("result", raw)).transpose()?;
        let leases = answer.unwrap_or_default().read("result", KEY)?;
        Ok(leases.unwrap_or_default())
    }
}

/// What a server has granted.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The lease.
    pub lease: Lease,
    /// The length of the prefix of the address's subnet.
    pub prefix_len: u8,
    /// The first router.
    pub gateway: Option<IpAddr>,
    /// The routes, as a result has them.
    pub(crate) routes: Vec<Object>,
    pub(crate) dns: Dns,
}

/// Addresses as text, or names without the dot of the root, as a result has them.
pub(crate) fn texts<T: ToString>(all: &[T]) -> Vec<String> {
    let text = |one: &T| one.to_string().trim_end_matches('.').to_owned();
    all.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(times: (u32, Option<u32>, Option<u32>)) -> Lease {
        let client = Client {
            provide: vec![(12, "web-0".to_owned())],
            request: vec![1, 3],
            ..Client::default()
        };
        let address = "10.0.0.2".parse().unwrap();
        Lease::new(address, "10.0.0.1".to_owned(), &client, times)
    }

    #[test]
    fn times_that_a_server_has_not_said_or_that_make_no_sense_are_the_defaults() {
        let of = |renew, rebind| {
            let lease = lease((80, renew, rebind));
            (lease.renew, lease.rebind)
        };
        assert_eq!(of(None, None), (40, 70));
        assert_eq!(of(Some(20), Some(60)), (20, 60));
        assert_eq!(of(Some(0), Some(0)), (40, 70));
        assert_eq!(of(Some(75), Some(90)), (40, 70));
    }

    #[test]
    fn a_result_remembers_leases_and_what_their_clients_say() {
        let all = vec![lease((80, None, None)), lease((FOREVER, None, None))];
        assert_eq!(Lease::of_answer(None), Ok(Vec::new()));
        let mut result = Object::new();
        result.set(KEY, &all);
        let json = result.get(KEY).unwrap().get();
        assert!(
            json.contains(r#""clientId":"","provide":[[12,"web-0"]],"request":[1,3],"start":"#)
        );
        let raw = serde_json::value::to_raw_value(&result).unwrap();
        assert_eq!(Lease::of_answer(Some(&raw)), Ok(all));
        // One of an older version.
        let old = r#"[{"address":"10.0.0.2","server":"10.0.0.1","clientId":"00","start":"","seconds":8,"renew":4,"rebind":7}]"#;
        let old: Vec<Lease> = serde_json::from_str(old).unwrap();
        assert_eq!(old[0].client.id(), [0]);
    }
}
