//! ADD of a chain with blocks, compared with the same chain with a local pool; repeated with the
//! engine stopped.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use harness::{ORCHESTRATOR, PLUGINS};
use serde_json::{Value, json};

use super::interrupt;
use super::target::Target;
use crate::process::Plugin;
use crate::samples::Samples;
use crate::{contender, folders};
use xtask::build::Flavour;

const ROUNDS: usize = 201;
const POOL: &str = "blocks";
const SUBNET: &str = "10.97.0.0/16";

/// Form in which the plugins are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The plugins without a network client as one multi-call executable, as in an installation.
    OneFile,
    /// Each as a separate file.
    Separate,
}

/// The figures of a form.
pub(crate) struct Measured {
    pub(crate) form: Form,
    pub(crate) local: Samples,
    pub(crate) blocks: Samples,
    /// The same two chains in turn while the engine is stopped. Empty if the engine can't be
    /// stopped.
    pub(crate) local_then: Samples,
    pub(crate) without_engine: Samples,
}

pub(crate) fn measure(target: &dyn Target) -> Result<Vec<Measured>> {
    let folder = folders::folder_in(&folders::in_memory())?;
    target.write_pool(POOL, &json!({"ranges": [{"subnet": SUBNET}], "block": 24}))?;
    [Form::OneFile, Form::Separate]
        .into_iter()
        .map(|form| one(target, form, folder.path()))
        .collect()
}

fn one(target: &dyn Target, form: Form, folder: &Path) -> Result<Measured> {
    let folder = folder.join(format!("{form:?}"));
    fs::create_dir(&folder)?;
    let selector = target.words().selector;
    let plugins = install(form, selector, &folder)?;
    let pool = json!([{ "name": POOL, "ranges": [{ "subnet": SUBNET }] }]);
    let local = chain(
        &["ipam-ds-static", "ipam-da-host-local"],
        &pool,
        &folder,
        "local",
    );
    let named = json!([{ "name": POOL }]);
    let delegates = ["ipam-ds-static", selector, "ipam-da-host-local"];
    let mut blocks = chain(&delegates, &named, &folder, "blocks");
    if let Value::Object(of_engine) = target.ipam(&format!("bench-{form:?}").to_lowercase())? {
        for (key, value) in of_engine {
            blocks["ipam"][key] = value;
        }
    }
    let plugin = |name: &str, config: &Value| -> Result<Plugin> {
        let file = folder.join(format!("{name}.json"));
        fs::write(&file, serde_json::to_vec(config)?)?;
        Ok(Plugin::new(&plugins.join(ORCHESTRATOR), &file))
    };
    let (local, blocks) = (plugin("local", &local)?, plugin("blocks", &blocks)?);
    let mut measured = Measured {
        form,
        local: Samples::default(),
        blocks: Samples::default(),
        local_then: Samples::default(),
        without_engine: Samples::default(),
    };
    target.inside(|| {
        in_turn([
            (&local, &mut measured.local),
            (&blocks, &mut measured.blocks),
        ])
    })?;
    if target.stop() {
        let contenders = [
            (&local, &mut measured.local_then),
            (&blocks, &mut measured.without_engine),
        ];
        let measured = target.inside(|| in_turn(contenders));
        target.go_on();
        measured?;
    }
    Ok(measured)
}

/// ADD and DEL of both chains in turn.
fn in_turn(mut contenders: [(&Plugin, &mut Samples); 2]) -> Result<()> {
    for round in 0..ROUNDS {
        interrupt::check()?;
        let container = format!("b{round}");
        for i in 0..contenders.len() {
            let count = contenders.len();
            let (plugin, times) = &mut contenders[(i + round) % count];
            let (time, success) = plugin.call("ADD", &container)?;
            ensure!(success, "ADD of {container} failed");
            // The first ADD claims a block, and isn't counted.
            if round > 0 {
                times.push(time);
            }
            let (_, success) = plugin.call("DEL", &container)?;
            ensure!(success, "DEL of {container} failed");
        }
    }
    Ok(())
}

fn chain(delegates: &[&str], pools: &Value, folder: &Path, name: &str) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": name, "type": "bridge",
        "ipam": {
            "type": ORCHESTRATOR,
            "delegates": delegates,
            "pools": pools,
            "dataDir": folder.join(name).join("networks"),
            "cacheDir": folder.join(name).join("cache"),
            "stateDir": folder.join(name).join("state"),
        },
    })
}

/// Installs the plugins in this folder; returns the folder of their executables.
fn install(form: Form, selector: &str, folder: &Path) -> Result<std::path::PathBuf> {
    let built_selector = Flavour::Normal.build_static(&[selector])?.separate;
    let plugins = match form {
        Form::OneFile => contender::one_file(folder)?,
        Form::Separate => {
            let built = Flavour::Normal.build_static(&PLUGINS)?.separate;
            let plugins = folder.join("separate");
            fs::create_dir(&plugins)?;
            for name in PLUGINS {
                fs::copy(built.join(name), plugins.join(name))?;
            }
            plugins
        }
    };
    fs::copy(built_selector.join(selector), plugins.join(selector))?;
    Ok(plugins)
}
