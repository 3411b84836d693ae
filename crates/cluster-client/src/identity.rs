//! Registers the node with etcd, once in each boot, and makes every claim depend on it.
//!
//! GC releases what a node holds for attachments that its runtime doesn't list. Of two
//! machines with one name, each would release the other's addresses while their containers
//! run. So a claim and a release are made on the condition that etcd still has this machine's
//! registration of this boot. A registration replaces the one before it, which this disk must
//! have sent: of a disk and its copy, whichever registers second is refused, and so is the
//! first one from then on, until a person decides.

use std::thread::sleep;
use std::time::Duration;

use cluster::{BootFile, Cluster, Machine, Registration};
use cni::{Call, Environment, Error, code};
use etcd::{Client, Compare, Op, Range, Txn};

use crate::disk::{Disk, Known, random};

/// Time after which a process that waits for another one's registration looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// This node, registered in this boot.
#[derive(Debug)]
pub struct Identity<'a> {
    cluster: &'a Cluster,
    environment: &'a Environment,
    key: String,
    registration: Registration,
    value: String,
}

impl<'a> Identity<'a> {
    /// The registration of this boot. The first call of a boot makes it; others read it from a
    /// file, and don't ask etcd.
    ///
    /// # Errors
    ///
    /// Those of etcd; code 5 for a file that can't be read or written; code 7 if another
    /// machine has the name; code 11 if another process registers for longer than the client
    /// may take.
    pub fn of(
        cluster: &'a Cluster,
        call: &Call<'a>,
        client: &mut Client<'_>,
    ) -> Result<Self, Error> {
        Self::on(cluster, call.environment, client)
    }

    /// The same for a tool, which is called with this environment.
    ///
    /// # Errors
    ///
    /// As [`Self::of`].
    pub fn on(
        cluster: &'a Cluster,
        environment: &'a Environment,
        client: &mut Client<'_>,
    ) -> Result<Self, Error> {
        let registration = registered(cluster, environment, client, None)?;
        Ok(Self {
            cluster,
            environment,
            key: cluster.keys.token(&cluster.node),
            value: registration.to_value(),
            registration,
        })
    }

    /// The incarnation: random, and new for each registration.
    pub fn incarnation(&self) -> &str {
        &self.registration.incarnation
    }

    /// The condition of a transaction: etcd has this registration for the node.
    pub fn is_current(&self) -> Compare {
        Compare::value(self.key.as_str(), self.value.as_str())
    }

    /// A read of etcd's registration, for the else-branch.
    pub fn read(&self) -> Range {
        Range::key(self.key.as_str())
    }

    /// Looks at etcd's registration after a condition has failed: true if it is this one. If
    /// etcd has none, because a person has released what the node held, the node registers
    /// again, as after a boot.
    ///
    /// # Errors
    ///
    /// Code 7, naming both machines, if another one has the name; those of etcd.
    pub fn verify(&mut self, client: &mut Client<'_>, found: Option<&[u8]>) -> Result<bool, Error> {
        let (cluster, environment) = (self.cluster, self.environment);
        let now = match found {
            Some(found) if found == self.value.as_bytes() => return Ok(true),
            Some(other) => match of_this_disk(cluster, environment, client, other)? {
                Some(ours) => ours,
                None => {
                    // What needs no etcd, such as giving from a block, ends as well.
                    BootFile::open(cluster)?.remove()?;
                    return Err(refusal(cluster, other, &self.registration.to_string()));
                }
            },
            None => {
                let lost = self.registration.incarnation.as_str();
                registered(cluster, environment, client, Some(lost))?
            }
        };
        self.value = now.to_value();
        self.registration = now;
        Ok(false)
    }
}

/// Registers this machine under its name, whoever has it in etcd: a person has decided. Returns
/// the registration that it replaces, if there is one.
///
/// # Errors
///
/// Those of etcd; code 5 for a file that can't be written; code 11 if another process
/// registers.
pub fn take_name(
    cluster: &Cluster,
    environment: &Environment,
    client: &mut Client<'_>,
) -> Result<Option<Vec<u8>>, Error> {
    let boot_file = BootFile::open(cluster)?;
    let key = cluster.keys.token(&cluster.node);
    let disk = Disk::open(cluster)?;
    let taken = disk.alone(client.remaining(), |known| {
        let found = client.get(key.as_str())?.map(|it| it.value);
        let machine = Machine::this(environment)?;
        replace(client, &key, found.as_deref(), machine, known, &boot_file)?;
        Ok(found)
    })?;
    taken.ok_or_else(|| is_busy(&disk))
}

/// The registration of this boot, but not the one with the incarnation that was lost.
fn registered(
    cluster: &Cluster,
    environment: &Environment,
    client: &mut Client<'_>,
    lost: Option<&str>,
) -> Result<Registration, Error> {
    let boot_file = BootFile::open(cluster)?;
    let disk = Disk::open(cluster)?;
    let of_this_boot = || -> Result<Option<Registration>, Error> {
        let Some(it) = boot_file.read(environment)? else {
            return Ok(None);
        };
        // The folder may be that of another disk, too.
        let is_ours = disk.token()?.is_some_and(|token| token == it.token);
        Ok(Some(it).filter(|it| is_ours && Some(it.incarnation.as_str()) != lost))
    };
    loop {
        if let Some(registration) = of_this_boot()? {
            return Ok(registration);
        }
        let left = client.remaining();
        if left.is_zero() {
            return Err(is_busy(&disk));
        }
        // A thousand first calls wait for one of them: for the file that it makes, and not for
        // the lock after each other.
        let done = disk.alone(Duration::ZERO, |known| match of_this_boot()? {
            Some(registration) => Ok(registration),
            None => register(cluster, environment, client, known, &boot_file),
        })?;
        match done {
            Some(registration) => return Ok(registration),
            None => sleep(LOOK_AGAIN.min(left)),
        }
    }
}

fn is_busy(disk: &Disk) -> Error {
    Error::new(
        code::TRY_AGAIN_LATER,
        format!("another process is registering the node: {}", disk.path()),
    )
}

/// The registration that etcd has, if another process of this disk has made it in this boot:
/// two networks may have a `cacheDir` each.
fn of_this_disk(
    cluster: &Cluster,
    environment: &Environment,
    client: &Client<'_>,
    value: &[u8],
) -> Result<Option<Registration>, Error> {
    let disk = Disk::open(cluster)?;
    let found = disk.alone(client.remaining(), |known| {
        let machine = Machine::this(environment)?;
        let ours =
            Registration::parse(value).filter(|it| known.has_sent(value) && it.machine == machine);
        if let Some(ours) = &ours {
            BootFile::open(cluster)?.write(ours)?;
        }
        Ok(ours)
    })?;
    found.ok_or_else(|| is_busy(&disk))
}

/// Puts a registration of this boot in the place of the one before.
fn register(
    cluster: &Cluster,
    environment: &Environment,
    client: &mut Client<'_>,
    known: &mut Known<'_>,
    boot_file: &BootFile,
) -> Result<Registration, Error> {
    let key = cluster.keys.token(&cluster.node);
    let found = client.get(key.as_str())?.map(|it| it.value);
    let machine = Machine::this(environment)?;
    if let Some(found) = &found {
        if !known.has_sent(found) {
            return Err(refusal(cluster, found, &machine.to_string()));
        }
        let before = Registration::parse(found).map(|it| it.machine);
        if let Some(why) = machine.differs_from(&before.unwrap_or_default()) {
            let this = format!("{machine}, with a copy of its disk ({why})");
            return Err(refusal(cluster, found, &this));
        }
    }
    replace(client, &key, found.as_deref(), machine, known, boot_file)
}

fn replace(
    client: &mut Client<'_>,
    key: &str,
    found: Option<&[u8]>,
    machine: Machine,
    known: &mut Known<'_>,
    boot_file: &BootFile,
) -> Result<Registration, Error> {
    let registration = Registration::new(known.token(), random()?, machine);
    let value = registration.to_value();
    known.sends(&value)?;
    let is_same = match found {
        Some(found) => Compare::value(key, found),
        None => Compare::is_missing(key),
    };
    let answer = client.txn(&Txn {
        when: vec![is_same],
        then: vec![Op::put(key, value.as_str())],
        otherwise: vec![Op::get(Range::key(key))],
    })?;
    let now = answer.ranges().next().and_then(|it| it.kvs.first());
    // An earlier transaction, whose answer was lost, may have been applied.
    if !answer.succeeded && now.is_none_or(|it| it.value != value.as_bytes()) {
        return Err(Error::new(
            code::TRY_AGAIN_LATER,
            format!("{key} was changed just now, by another machine of this name or by a person"),
        ));
    }
    boot_file.write(&registration)?;
    if let Err(error) = known.confirmed(&value) {
        // The disk knows the value all the same, and the one before it.
        tracing::warn!(%error, "the disk doesn't know that etcd has confirmed the registration");
    }
    Ok(registration)
}

/// The refusal: another machine has the name.
fn refusal(cluster: &Cluster, other: &[u8], this: &str) -> Error {
    let node = &cluster.node;
    Error::new(
        code::INVALID_CONFIG,
        format!(
            "ipam.node: {node:?} is the name of another node: etcd has {}; this is {this}",
            Registration::describe(other)
        ),
    )
    .with_details(format!(
        "give one of the two another name. If this machine is to keep the name, and the other one is off or has another name: ipamctl node-register, here. If the other one doesn't come back, and nothing runs here: ipamctl node-forget {node}, on another node"
    ))
}
