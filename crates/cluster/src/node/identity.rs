//! Registers the node with the engine, once in each boot. Every claim depends on the registration.
//!
//! GC releases the node's addresses whose attachments the runtime doesn't list. If two machines
//! had one name, each would release the other's addresses while their containers run. So every
//! claim and every release has the condition that the engine still has this machine's registration
//! of this boot. A registration replaces only one that was sent from this disk. Of a disk and its
//! copy, the one that registers second either gets the name or is refused. If it gets the name,
//! the first one is refused from then on, until a person decides.

use std::thread::sleep;
use std::time::Duration;

use cni::{Environment, Error, code};

use super::boot_file::BootFile;
use super::machine::{Machine, Registration};
use super::second_name::{forget_other_names, refuse_second_name};
use super::token_file::{Known, TokenFile, random};
use crate::try_again;
use crate::{Change, Condition, Engine, Key, Node, Read, Stored};

/// Interval in which a process looks whether another process has registered the node.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// This node, registered in this boot.
#[derive(Debug)]
pub struct Identity<'a> {
    node: &'a Node,
    environment: &'a Environment,
    registration: Registration,
}

impl<'a> Identity<'a> {
    /// The registration of this boot. The first call of a boot makes it; later calls read it from
    /// a file, without the engine.
    ///
    /// # Errors
    ///
    /// Those of the engine; code 5 for a file that can't be read or written; code 7 if another
    /// machine has the name, or this machine has registered another name in this boot; code 11 if
    /// another process registers for longer than the timeout.
    pub fn of(
        node: &'a Node,
        environment: &'a Environment,
        engine: &mut dyn Engine,
    ) -> Result<Self, Error> {
        Ok(Self {
            registration: registered(node, environment, engine, None)?,
            node,
            environment,
        })
    }

    /// The incarnation: random and unique for each registration.
    pub fn incarnation(&self) -> &str {
        &self.registration.incarnation
    }

    /// The condition that the engine has this registration of the node.
    pub fn is_current(&self) -> Condition {
        Condition::Value(self.key(), self.registration.to_value().into_bytes())
    }

    /// A read of the node's registration, for [`Self::verify`].
    pub fn read(&self) -> Read {
        Read::Get(self.key())
    }

    fn key(&self) -> Key {
        Key::Node(self.node.name.clone())
    }

    /// Compares the engine's registration after a condition has failed: true if it is this one.
    /// The node registers again, as after a boot, if there is none, because a person has released
    /// the node's holdings, or if it is that of an earlier boot, because the engine was restored.
    ///
    /// # Errors
    ///
    /// Code 7, naming both machines, if another one has the name; those of the engine.
    pub fn verify(
        &mut self,
        engine: &mut dyn Engine,
        found: Option<&Stored>,
    ) -> Result<bool, Error> {
        self.registration = match found {
            Some(found) if found.value == self.registration.to_value().as_bytes() => {
                return Ok(true);
            }
            Some(other) => match self.of_this_boot(engine, &other.value)? {
                Some(ours) => ours,
                None => self.again(engine)?,
            },
            None => self.again(engine)?,
        };
        Ok(false)
    }

    /// A registration that this node has made after this one was lost.
    fn again(&self, engine: &mut dyn Engine) -> Result<Registration, Error> {
        let lost = Some(self.registration.incarnation.as_str());
        registered(self.node, self.environment, engine, lost)
    }

    /// The engine's registration, if another process on this disk has made it in this boot: two
    /// networks may have different `cacheDir`s. `None` if it is of an earlier boot.
    ///
    /// # Errors
    ///
    /// As [`Self::verify`].
    fn of_this_boot(
        &self,
        engine: &mut dyn Engine,
        value: &[u8],
    ) -> Result<Option<Registration>, Error> {
        let disk = TokenFile::open(self.node)?;
        let found = disk.locked(engine.time().remaining(), |known| {
            let machine = Machine::this(self.environment)?;
            if let Some(copy) = is_others(known, &machine, value) {
                // Calls that need no request, such as those that give addresses from a block, are
                // refused from now on as well.
                BootFile::open(self.node)?.remove()?;
                let this = format!("{}{copy}", self.registration);
                return Err(refusal(self.node, engine, value, &this));
            }
            let ours = Registration::parse(value).filter(|found| found.machine == machine);
            if let Some(ours) = &ours {
                BootFile::open(self.node)?.write(ours)?;
            }
            Ok(ours)
        })?;
        found.ok_or_else(|| is_busy(&disk))
    }
}

/// Registers this machine under its name, even if another machine has it, because a person has
/// decided so.
///
/// # Errors
///
/// Those of the engine; code 5 for a file that can't be written; code 11 if another process
/// registers.
pub fn take_name(
    node: &Node,
    environment: &Environment,
    engine: &mut dyn Engine,
) -> Result<(), Error> {
    let disk = TokenFile::open(node)?;
    let left = engine.time().remaining();
    let taken = disk.locked(left, |known| {
        let found = value_of(node, engine)?;
        let machine = Machine::this(environment)?;
        replace(node, engine, found.as_deref(), machine, known)
    })?;
    taken.ok_or_else(|| is_busy(&disk))?;
    forget_other_names(node, environment)
}

/// The value of the node's registration in the engine.
fn value_of(node: &Node, engine: &mut dyn Engine) -> Result<Option<Vec<u8>>, Error> {
    let found = engine.get(Key::Node(node.name.clone()))?;
    Ok(found.map(|registration| registration.value))
}

/// The registration of this boot, unless it has the incarnation `lost`.
fn registered(
    node: &Node,
    environment: &Environment,
    engine: &mut dyn Engine,
    lost: Option<&str>,
) -> Result<Registration, Error> {
    let boot_file = BootFile::open(node)?;
    let disk = TokenFile::open(node)?;
    let of_this_boot = || -> Result<Option<Registration>, Error> {
        let Some(known) = boot_file.read(environment)? else {
            return Ok(None);
        };
        // The file may have been made by another disk.
        let is_ours = disk.token()?.is_some_and(|token| token == known.token);
        Ok(Some(known).filter(|known| is_ours && Some(known.incarnation.as_str()) != lost))
    };
    loop {
        if let Some(registration) = of_this_boot()? {
            return Ok(registration);
        }
        let left = engine.time().remaining();
        if left.is_zero() {
            return Err(is_busy(&disk));
        }
        // A thousand first calls wait for the file that one of them writes, instead of taking the
        // lock one after the other.
        let done = disk.locked(Duration::ZERO, |known| match of_this_boot()? {
            Some(registration) => Ok(registration),
            None => {
                refuse_second_name(node, environment)?;
                register(node, environment, engine, known)
            }
        })?;
        match done {
            Some(registration) => return Ok(registration),
            None => sleep(LOOK_AGAIN.min(left)),
        }
    }
}

fn is_busy(disk: &TokenFile) -> Error {
    try_again(format!(
        "another process is registering the node: {}",
        disk.path()
    ))
}

/// Tells whether a registration in the engine is another machine's: this disk has not sent it, or
/// this machine has a copy of the disk. If so, the text says what is known of the copy.
fn is_others(known: &Known<'_>, machine: &Machine, found: &[u8]) -> Option<String> {
    if !known.has_sent(found) {
        return Some(String::new());
    }
    let before = Registration::parse(found).map(|before| before.machine);
    let why = machine.differs_from(&before.unwrap_or_default())?;
    Some(format!(", with a copy of its disk ({why})"))
}

/// Replaces the registration of an earlier boot.
fn register(
    node: &Node,
    environment: &Environment,
    engine: &mut dyn Engine,
    known: &mut Known<'_>,
) -> Result<Registration, Error> {
    let found = value_of(node, engine)?;
    let machine = Machine::this(environment)?;
    if let Some(found) = &found
        && let Some(copy) = is_others(known, &machine, found)
    {
        return Err(refusal(node, engine, found, &format!("{machine}{copy}")));
    }
    replace(node, engine, found.as_deref(), machine, known)
}

fn replace(
    node: &Node,
    engine: &mut dyn Engine,
    found: Option<&[u8]>,
    machine: Machine,
    known: &mut Known<'_>,
) -> Result<Registration, Error> {
    let registration = Registration::new(known.token(), random()?, machine);
    let value = registration.to_value();
    known.sends(&value, found)?;
    let key = Key::Node(node.name.clone());
    let is_same = match found {
        Some(found) => Condition::Value(key.clone(), found.to_vec()),
        None => Condition::Missing(key.clone()),
    };
    let outcome = engine.commit(&Change {
        conditions: vec![is_same],
        write: vec![(key.clone(), value.clone().into_bytes())],
        otherwise: vec![Read::Get(key.clone())],
        ..Change::default()
    })?;
    // The change may have been made by the first attempt, whose answer was lost.
    let now = outcome.found.first().and_then(|found| found.first());
    if !outcome.done && now.is_none_or(|now| now.value != value.as_bytes()) {
        return Err(try_again(format!(
            "{} was changed just now, by another machine of this name or by a person",
            engine.path(&key)
        )));
    }
    BootFile::open(node)?.write(&registration)?;
    Ok(registration)
}

/// The error if another machine has the name.
fn refusal(node: &Node, engine: &dyn Engine, other: &[u8], this: &str) -> Error {
    let name = &node.name;
    Error::new(
        code::INVALID_CONFIG,
        format!(
            "ipam.node: {name:?} is the name of another node: {} has {}; this is {this}",
            engine.name(),
            Registration::describe(other)
        ),
    )
    .with_details(format!(
        "give one of the two another name. If this machine is to keep the name, and the other one is off or has another name: ipamctl node-register, here. If the other one doesn't come back, and nothing runs here: ipamctl node-forget {name}, on another node"
    ))
}
