#![doc = include_str!("../README.md")]

mod chain;
mod config;
mod failure;

use cni::{
    About, Answer, Attachment, Call, Command, DelegateName, Error, Plugin, Reply, SearchPath,
};

use chain::{Chain, Delegates};

/// The plugin.
pub struct IpamDelegated;

impl Plugin for IpamDelegated {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        with_chain(call, |mut chain| chain.add().map(Reply::Verbatim))
    }

    fn del(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        with_chain(call, |mut chain| chain.all(Command::Del))
    }

    fn check(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        with_chain(call, |mut chain| chain.until_error(Command::Check))
    }

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        with_chain(call, |mut chain| chain.all(Command::Gc))
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        with_chain(call, |mut chain| chain.until_error(Command::Status))
    }
}

fn with_chain(
    call: &Call<'_>,
    run: impl FnOnce(Chain<'_, Executables>) -> Result<Reply, Error>,
) -> Result<Reply, Error> {
    let names = config::delegates(&call.config)?;
    let executables = Executables(call.search_path()?);
    run(Chain::new(&call.config, &names, executables))
}

/// Delegates as executables in `CNI_PATH`.
struct Executables(SearchPath);

impl Delegates for Executables {
    fn run(&mut self, name: &DelegateName, command: Command, stdin: &[u8]) -> Answer {
        cni::delegate(name, &self.0, command, stdin)
    }
}
