//! Container image of a release: an archive in OCI's image layout, made without a container
//! engine.
//!
//! It also has the `manifest.json` of `docker save`: Docker up to 24 loads nothing else.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};
use harness::{INSTALLER, MULTI_CALL, NETWORK_PLUGINS, PLUGINS, TOOL, repository};
use oci_spec::image::{
    ANNOTATION_DESCRIPTION, ANNOTATION_LICENSES, ANNOTATION_REF_NAME, ANNOTATION_REVISION,
    ANNOTATION_TITLE, ANNOTATION_VERSION, Arch, ConfigBuilder, DescriptorBuilder, Digest,
    HistoryBuilder, ImageConfigurationBuilder, ImageIndexBuilder, ImageManifestBuilder, MediaType,
    OciLayoutBuilder, Os, PlatformBuilder, RootFsBuilder, SCHEMA_VERSION,
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::archive::{Archive, compressed};
use super::{Release, hex, licences};
use crate::build::{Flavour, static_tools};

/// Name of the image without its tag. It names no registry: whoever has one gives it another.
const NAME: &str = "localhost/ipam-delegated";

/// The name of the reference for containerd, which reads no other.
const CONTAINERD_NAME: &str = "io.containerd.image.name";

/// Names of blobs, by which they are found in the archive.
struct Blobs(Archive);

impl Blobs {
    /// Adds a blob; returns a descriptor of it.
    fn add(&mut self, media_type: MediaType, content: Vec<u8>) -> Result<DescriptorBuilder> {
        let digest = hex(&Sha256::digest(&content));
        let builder = DescriptorBuilder::default()
            .media_type(media_type)
            .size(u64::try_from(content.len())?)
            .digest(format!("sha256:{digest}").parse::<Digest>()?);
        self.0.text(&format!("blobs/sha256/{digest}"), content);
        Ok(builder)
    }
}

impl Release {
    /// Tag of the image: the version, with the flavour if it isn't the normal one.
    fn tag(&self, flavour: Flavour) -> String {
        match flavour {
            Flavour::Normal => self.version.to_owned(),
            Flavour::Verbose => format!("{}-verbose", self.version),
        }
    }

    /// The image's archive.
    pub(super) fn image(&self, flavour: Flavour) -> Result<Vec<u8>> {
        let layer = self.layer(flavour)?.to_tar("", self.time)?;
        let diff_id = format!("sha256:{}", hex(&Sha256::digest(&layer)));
        let mut blobs = Blobs(Archive::default());
        let layer = blobs
            .add(MediaType::ImageLayerGzip, compressed(&layer)?)?
            .build()?;
        let config = json(&self.configuration(flavour, diff_id)?)?;
        let config = blobs.add(MediaType::ImageConfig, config)?.build()?;
        let paths = [config.digest(), layer.digest()]
            .map(|digest| format!("blobs/sha256/{}", digest.digest()));
        let manifest = ImageManifestBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageManifest)
            .config(config)
            .layers(vec![layer])
            .annotations(self.annotations(flavour))
            .build()?;
        let platform = PlatformBuilder::default()
            .architecture(self.architecture())
            .os(Os::Linux)
            .build()?;
        let tag = self.tag(flavour);
        let name = format!("{NAME}:{tag}");
        let names = [(ANNOTATION_REF_NAME, &tag), (CONTAINERD_NAME, &name)];
        let manifest = blobs
            .add(MediaType::ImageManifest, json(&manifest)?)?
            .platform(platform)
            .annotations(names.map(|(key, it)| (key.to_owned(), it.clone())))
            .build()?;
        let index = ImageIndexBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageIndex)
            .manifests(vec![manifest])
            .build()?;
        let layout = OciLayoutBuilder::default().image_layout_version("1.0.0");
        let mut archive = blobs.0;
        archive.text("index.json", json(&index)?);
        archive.text("oci-layout", json(&layout.build()?)?);
        let [config, layer] = paths;
        let of_docker = serde_json::json!([
            {"Config": config, "RepoTags": [name], "Layers": [layer]}
        ]);
        archive.text("manifest.json", json(&of_docker)?);
        archive.to_tar("", self.time)
    }

    /// Files of the image.
    fn layer(&self, flavour: Flavour) -> Result<Archive> {
        let mut layer = Archive::default();
        let read =
            |path: &std::path::Path| fs::read(path).with_context(|| path.display().to_string());
        let built = flavour.build_static(&[MULTI_CALL])?;
        let names = PLUGINS.map(|plugin| format!("plugins/{plugin}"));
        layer.executable(&names, read(&built.one_file.join(PLUGINS[0]))?);
        let built = flavour.build_static(&NETWORK_PLUGINS)?;
        for plugin in NETWORK_PLUGINS {
            let content = read(&built.separate.join(plugin))?;
            layer.executable(&[format!("network-plugins/{plugin}")], content);
        }
        let built = static_tools()?;
        for (name, path) in [
            (INSTALLER, INSTALLER.to_owned()),
            (TOOL, format!("sbin/{TOOL}")),
        ] {
            layer.executable(&[path], read(&built.separate.join(name))?);
        }
        // For a mount of /run/netns at the path that is recorded.
        layer.folder("run", 0o755);
        layer.symbolic_link("var/run", "../run");
        layer.text("LICENSE", fs::read(repository().join("LICENSE"))?);
        let executables = [TOOL, INSTALLER];
        licences::gather(&mut layer, flavour, &self.target, &executables)?;
        layer.parents();
        Ok(layer)
    }

    fn configuration(&self, flavour: Flavour, diff_id: String) -> Result<impl Serialize> {
        let config = ConfigBuilder::default()
            // Files of the node are root's.
            .user("0:0")
            .env(vec!["PATH=/sbin:/".to_owned()])
            .entrypoint(vec![format!("/{INSTALLER}")])
            .working_dir("/")
            .labels(self.annotations(flavour))
            .stop_signal("SIGTERM")
            .build()?;
        let created = UNIX_EPOCH + Duration::from_secs(self.time);
        let created = humantime::format_rfc3339_seconds(created).to_string();
        let history = HistoryBuilder::default()
            .created(created.clone())
            .created_by("cargo xtask dist")
            .build()?;
        let files = RootFsBuilder::default()
            .typ("layers")
            .diff_ids(vec![diff_id])
            .build()?;
        Ok(ImageConfigurationBuilder::default()
            .created(created)
            .architecture(self.architecture())
            .os(Os::Linux)
            .config(config)
            .rootfs(files)
            .history(vec![history])
            .build()?)
    }

    fn annotations(&self, flavour: Flavour) -> HashMap<String, String> {
        let pairs = [
            (ANNOTATION_TITLE, Some("ipam-delegated".to_owned())),
            (
                ANNOTATION_DESCRIPTION,
                Some(
                    "CNI plugins that compose a container's address, and their installer"
                        .to_owned(),
                ),
            ),
            (ANNOTATION_VERSION, Some(self.tag(flavour))),
            (ANNOTATION_REVISION, self.commit.clone()),
            (ANNOTATION_LICENSES, Some("Apache-2.0".to_owned())),
        ];
        let known = pairs.into_iter();
        known
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    }

    /// The architecture by its name in Go, which OCI's formats use.
    fn architecture(&self) -> Arch {
        match self.target.architecture() {
            "x86_64" => Arch::Amd64,
            "aarch64" => Arch::ARM64,
            other => Arch::Other(other.to_owned()),
        }
    }
}

/// JSON with the keys in order, whatever the order of a map.
fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(&serde_json::to_value(value)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_written_in_the_order_of_its_keys() {
        let keys = (0..64).map(|i| (format!("key-{i:02}"), String::new()));
        let map: HashMap<String, String> = keys.clone().collect();
        let sorted: std::collections::BTreeMap<String, String> = keys.collect();
        assert_eq!(json(&map).unwrap(), serde_json::to_vec(&sorted).unwrap());
    }
}
