//! Measures single calls, all contenders in turn.

use anyhow::Result;

use super::contender::Contender;
use super::fill::Fill;
use super::samples::Samples;
use super::side::{Side, Storage};

/// The measured commands.
pub(crate) const COMMANDS: [&str; 4] = ["ADD", "CHECK", "DEL", "VERSION"];

/// Numbers of addresses that are reserved before the measurement.
pub(crate) const RESERVED: [u32; 2] = [0, 250];

/// Times of one command of one contender.
pub(crate) struct Measured {
    pub(crate) command: &'static str,
    pub(crate) reserved: u32,
    /// Index of the contender.
    pub(crate) of: usize,
    pub(crate) times: Samples,
}

/// Calls all contenders with all commands, in this number of rounds.
pub(crate) fn measure(
    contenders: &[Contender],
    storage: &Storage,
    rounds: usize,
) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for reserved in RESERVED {
        let sides = contenders
            .iter()
            .map(|contender| Side::new(contender, storage, Fill::Count(reserved)))
            .collect::<Result<Vec<_>>>()?;
        let mut times = vec![vec![Samples::default(); COMMANDS.len()]; sides.len()];
        for round in 0..rounds {
            let container = format!("c{round:063x}");
            // The first contender finds the others' data in the processor's caches, so each round
            // begins with another one.
            for i in 0..sides.len() {
                let of = (i + round) % sides.len();
                let (side, times) = (&sides[of], &mut times[of]);
                times[0].push(side.add(&container)?);
                times[1].push(side.check(&container)?);
                times[2].push(side.call("DEL", &container)?);
                times[3].push(side.call("VERSION", &container)?);
            }
        }
        for (of, times) in times.into_iter().enumerate() {
            for (command, times) in COMMANDS.into_iter().zip(times) {
                all.push(Measured {
                    command,
                    reserved,
                    of,
                    times,
                });
            }
        }
    }
    Ok(all)
}
