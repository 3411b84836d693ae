#![doc = include_str!("../README.md")]

mod add;
mod ages;
mod chain;
mod config;
mod context;
mod delegates;
#[cfg(test)]
mod example;
mod executables;
mod failure;
mod gc;
mod interrupt;
mod merge;
mod orphans;
mod record;
mod records;
mod recursion;
mod undo;

use cni::{About, Attachment, Call, Command, Error, OneFile, Plugin, Reply};

use chain::{Chain, OnFailure, Turn};
use context::Context;

/// The plugin.
#[derive(Default)]
pub struct IpamDelegated<'a> {
    /// The other plugins of this executable, which need not be executed once more to
    /// be called.
    pub others: OneFile<'a>,
}

impl Plugin for IpamDelegated<'_> {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        add::add(&Context::new(call, self.others)?, attachment).map(Reply::Verbatim)
    }

    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let context = Context::new(call, self.others)?;
        // The runtime must say the same as on ADD, but some don't.
        let args = |record: Option<&record::Record>| match record {
            Some(record) if context.text("CNI_ARGS").is_empty() && !record.args.is_empty() => {
                vec![("CNI_ARGS", record.args.as_str().into())]
            }
            _ => Vec::new(),
        };
        let failures = undo::attachment(&context, attachment, &call.config, args);
        match failure::of_all(failures) {
            None => Ok(Reply::Nothing),
            Some(error) => Err(context.with_record(attachment, error)),
        }
    }

    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        until_error(
            &Context::new(call, self.others)?,
            Command::Check,
            Some(attachment),
        )
    }

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        gc::gc(&Context::new(call, self.others)?).map(|()| Reply::Nothing)
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        until_error(&Context::new(call, self.others)?, Command::Status, None)
    }
}

/// CHECK and STATUS: every delegate until one fails.
fn until_error(
    context: &Context<'_>,
    command: Command,
    attachment: Option<&Attachment>,
) -> Result<Reply, Error> {
    let names = context.settings.delegates.iter();
    let turns: Vec<Turn<'_>> = names
        .map(|name| Turn::new(name, &context.call.config))
        .collect();
    let mut delegates = context.delegates(&context.id, Vec::new(), None);
    let failures =
        Chain::new(&mut delegates, attachment).run_all(command, &turns, None, OnFailure::Stop);
    failure::of_all(failures).map_or(Ok(Reply::Nothing), Err)
}
