//! Exchanges of a client with the DHCP servers of a link, in both versions of DHCP. Their errors have a code: 11 if no server
//! answers in time, 116 if one refuses or has another address than the wanted one, 5 if the link
//! can't be used.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use cni::{Error, code};

use crate::question::{Purpose, Question, refused};
use crate::socket::{INTERVAL, io_error};
use crate::{Client, Grant, Lease, Link, v4, v6};

/// The time after which a message is sent again; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Number of refusals after which no other offer is asked for. A server may offer one address to
/// several clients at once, and refuses all but the first (RFC 2131, section 3.1, item 4).
const MOST_REFUSALS: usize = 5;

/// Exchanges on a link.
pub struct Exchange<'a> {
    /// The link.
    pub link: &'a Link,
    /// The end of the patience.
    pub until: Instant,
}

impl Exchange<'_> {
    /// Asks for a lease of the wanted address; of any of its family, if it is unspecified.
    ///
    /// # Errors
    ///
    /// Nobody grants one.
    pub fn acquire(&self, client: &Client, wanted: IpAddr) -> Result<Grant, Error> {
        let mut refusals = 0;
        loop {
            let offer = self.ask(client, Purpose::Discover, wanted)?.lease;
            match self.ask(client, Purpose::Request(&offer.server), offer.address) {
                Err(error) if error.code == code::SERVER_REFUSED && refusals < MOST_REFUSALS => {
                    refusals += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Tells the server that a lease isn't needed any more, unless it is a workload's.
    pub(crate) fn release(&self, lease: &Lease) -> Result<(), Error> {
        if lease.client.sticky {
            return Ok(());
        }
        let purpose = Purpose::Release(&lease.server);
        let release = self.question(&lease.client, purpose, lease.address)?;
        release.socket.send(&release.bytes).map_err(io_error)
    }

    fn question<'a>(
        &self,
        client: &'a Client,
        purpose: Purpose<'_>,
        address: IpAddr,
    ) -> Result<Question<'a>, Error> {
        let question = match address {
            IpAddr::V4(ip) => v4::question(self.link, client, purpose, ip),
            IpAddr::V6(ip) => v6::question(self.link, client, purpose, ip),
        };
        question.map_err(io_error)
    }

    /// Sends a message about an address, which is unspecified for any, and again after each wait,
    /// until a server grants it. Another server may do so after a refusal, which counts when the wait
    /// is over, and after an offer of another address, which counts when the time is up.
    ///
    /// # Errors
    ///
    /// Nobody has granted it.
    pub fn ask(
        &self,
        client: &Client,
        purpose: Purpose<'_>,
        address: IpAddr,
    ) -> Result<Grant, Error> {
        let question = self.question(client, purpose, address)?;
        let sender = question.sender.as_ref().unwrap_or(&question.socket);
        let mut wait = FIRST_WAIT;
        let mut failure = Error::new(code::TRY_AGAIN_LATER, "no DHCP server answers");
        let mut is_refused = false;
        while !is_refused && Instant::now() < self.until {
            // The link has no address of IPv6 before it has a carrier, and then the kernel verifies
            // that nobody else has it.
            if let Err(error) = sender.send(&question.bytes) {
                let why = format!("no DHCP server answers, and sending has failed: {error}");
                failure = Error::new(code::TRY_AGAIN_LATER, why);
                thread::sleep(INTERVAL);
                continue;
            }
            let again = self.until.min(Instant::now() + wait);
            while Instant::now() < again {
                let packet = question.socket.receive().map_err(io_error)?;
                match packet.and_then(|packet| (question.read)(&packet)) {
                    Some(Ok(grant)) if address.is_unspecified() => return Ok(grant),
                    Some(Ok(grant)) if address == grant.lease.address => return Ok(grant),
                    Some(Ok(grant)) => {
                        let other = grant.lease.address;
                        failure = refused(format_args!("it has another address, {other}"));
                    }
                    Some(Err(error)) => (failure, is_refused) = (error, true),
                    None => {}
                }
            }
            wait *= 2;
        }
        Err(failure)
    }
}
