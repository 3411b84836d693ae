//! Container image of a release: an archive in OCI's image layout, made without a container
//! engine.
//!
//! It also has the `manifest.json` of `docker save`: Docker up to 24 loads nothing else.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use shipped::{DHCP_RENEWER, INSTALLER, IPAMCTL, repository};

use super::archive::{Archive, compressed};
use super::{Executables, Release, licences};
use crate::build::Flavour;

/// Name of the image without its tag. It names no registry: whoever has one gives it another.
const NAME: &str = "localhost/ipam-delegated";

/// Media types of OCI's image format.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Adds a blob, which is named by its digest; returns its descriptor and its path.
fn blob(archive: &mut Archive, media_type: &str, content: Vec<u8>) -> (Value, String) {
    let digest = hex::encode(Sha256::digest(&content));
    let descriptor = json!({
        "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len(),
    });
    let path = format!("blobs/sha256/{digest}");
    archive.text(&path, content);
    (descriptor, path)
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
    pub(super) fn image(&self, flavour: Flavour, executables: &Executables) -> Result<Vec<u8>> {
        let layer = self.layer(flavour, executables)?.to_tar("", self.time)?;
        let diff_id = format!("sha256:{}", hex::encode(Sha256::digest(&layer)));
        let mut image = Archive::default();
        let (layer, layer_path) = blob(&mut image, LAYER, compressed(&layer)?);
        let config = self.configuration(flavour, &diff_id).to_string();
        let (config, config_path) = blob(&mut image, CONFIG, config.into());
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
            "annotations": self.annotations(flavour),
        });
        let (mut manifest, _) = blob(&mut image, MANIFEST, manifest.to_string().into());
        let tag = self.tag(flavour);
        let name = format!("{NAME}:{tag}");
        manifest["platform"] =
            json!({"architecture": self.target.short_architecture(), "os": "linux"});
        manifest["annotations"] = json!({
            "org.opencontainers.image.ref.name": tag,
            // containerd reads the name only here.
            "io.containerd.image.name": name,
        });
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
        image.text("index.json", index.to_string());
        image.text(
            "oci-layout",
            json!({"imageLayoutVersion": "1.0.0"}).to_string(),
        );
        let docker = json!([{"Config": config_path, "RepoTags": [name], "Layers": [layer_path]}]);
        image.text("manifest.json", docker.to_string());
        image.to_tar("", self.time)
    }

    /// Files of the image.
    fn layer(&self, flavour: Flavour, executables: &Executables) -> Result<Archive> {
        let mut layer = Archive::default();
        layer.plugins(["plugins", "network-plugins"], executables);
        layer.executable(&[INSTALLER.to_owned()], &executables[INSTALLER]);
        for tool in [IPAMCTL, DHCP_RENEWER] {
            layer.executable(&[format!("sbin/{tool}")], &executables[tool]);
        }
        // For a mount of /run/netns at the path that is recorded.
        layer.folder("run");
        layer.symbolic_link("var/run", "../run");
        layer.text("LICENSE", fs::read(repository().join("LICENSE"))?);
        licences::gather(
            &mut layer,
            flavour,
            &self.target,
            &[IPAMCTL, DHCP_RENEWER, INSTALLER],
        )?;
        layer.parents();
        Ok(layer)
    }

    fn configuration(&self, flavour: Flavour, diff_id: &str) -> Value {
        let created = UNIX_EPOCH + Duration::from_secs(self.time);
        let created = humantime::format_rfc3339_seconds(created).to_string();
        json!({
            "created": created,
            "architecture": self.target.short_architecture(),
            "os": "linux",
            "config": {
                // Files of the node are root's.
                "User": "0:0",
                "Env": ["PATH=/sbin:/"],
                "Entrypoint": [format!("/{INSTALLER}")],
                "WorkingDir": "/",
                "Labels": self.annotations(flavour),
                "StopSignal": "SIGTERM",
            },
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
            "history": [{"created": created, "created_by": "cargo xtask dist"}],
        })
    }

    /// OCI's predefined keys, as labels of the configuration and annotations of the manifest.
    fn annotations(&self, flavour: Flavour) -> Value {
        let mut annotations = json!({
            "org.opencontainers.image.title": "ipam-delegated",
            "org.opencontainers.image.description":
                "CNI plugins that compose a container's address, and their installer",
            "org.opencontainers.image.version": self.tag(flavour),
            "org.opencontainers.image.licenses": "Apache-2.0",
        });
        if let Some(commit) = &self.commit {
            annotations["org.opencontainers.image.revision"] = json!(commit);
        }
        annotations
    }
}
