//! The one way to name an attachment on the command line.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

/// An attachment, as a person names it.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Address, owner, or container ID: whole, or the unique beginning of one that a runtime has made.
    #[arg(value_name = "ID|ADDRESS|OWNER", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) word: String,
    /// Only on this network.
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// Only this interface.
    #[arg(long, value_name = "NAME")]
    pub(crate) ifname: Option<String>,
}
