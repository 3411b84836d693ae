//! Plugins that keep a record of their calls: a wrapper in front of each, which
//! notes what goes in and what comes out.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The folders of the wrappers and of their records.
pub(crate) struct Recorder {
    plugins: PathBuf,
    records: PathBuf,
}

/// One call of a plugin.
pub(crate) struct Record {
    pub(crate) plugin: String,
    pub(crate) command: String,
    pub(crate) input: String,
    pub(crate) output: String,
}

impl Recorder {
    /// Two new folders in `root`.
    pub(crate) fn new(root: &Path) -> io::Result<Self> {
        let it = Self {
            plugins: root.join("plugins"),
            records: root.join("records"),
        };
        fs::create_dir(&it.plugins)?;
        fs::create_dir(&it.records)?;
        Ok(it)
    }

    /// Where the wrappers are: for `CNI_PATH`.
    pub(crate) fn plugins(&self) -> &Path {
        &self.plugins
    }

    /// Puts a wrapper in front of a plugin.
    pub(crate) fn wrap(&self, plugin: &Path) -> io::Result<()> {
        let name = plugin.file_name().unwrap_or_default();
        let script = format!(
            "#!/bin/sh\n\
             cd '{records}'\n\
             call=$(ls | grep -c input)-${{0##*/}}-$CNI_COMMAND\n\
             cat > $call.input\n\
             '{plugin}' < $call.input > $call.output\n\
             status=$?\n\
             cat $call.output\n\
             exit $status\n",
            records = self.records.display(),
            plugin = plugin.display(),
        );
        let wrapper = self.plugins.join(name);
        fs::write(&wrapper, script)?;
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))
    }

    /// The calls since the last time, in the order in which they began.
    pub(crate) fn take(&self) -> io::Result<Vec<Record>> {
        let mut inputs: Vec<PathBuf> = fs::read_dir(&self.records)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        inputs.retain(|path| path.extension().is_some_and(|e| e == "input"));
        inputs.sort();
        inputs
            .iter()
            .map(|input| {
                let output = input.with_extension("output");
                let name = input.file_stem().unwrap_or_default().to_string_lossy();
                let (_, call) = name.split_once('-').unwrap_or_default();
                let (plugin, command) = call.rsplit_once('-').unwrap_or_default();
                let record = Record {
                    plugin: plugin.to_owned(),
                    command: command.to_owned(),
                    input: fs::read_to_string(input)?,
                    output: fs::read_to_string(&output)?,
                };
                fs::remove_file(input)?;
                fs::remove_file(output)?;
                Ok(record)
            })
            .collect()
    }
}
