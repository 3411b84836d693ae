//! Archives of a release, which `cargo xtask test` creates.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Flavour, PLUGINS};

/// The folder of the archives, if `cargo xtask test` has created them.
pub fn dist() -> Option<PathBuf> {
    std::env::var_os("IPAM_DELEGATED_DIST").map(PathBuf::from)
}

/// An archive of one flavour.
pub struct Release {
    /// A `.tar.gz` file.
    pub archive: PathBuf,
}

/// The image of a flavour.
pub struct Image {
    /// The archive, in the format of `docker save`.
    pub file: PathBuf,
    /// The name of the loaded image.
    pub name: String,
}

impl Image {
    /// The image of this flavour.
    pub fn of(flavour: Flavour) -> Self {
        let archive = Release::of(flavour).archive;
        let name = archive.display().to_string();
        let file = PathBuf::from(name.replace(".tar.gz", "-image.tar"));
        assert!(file.exists(), "{}", file.display());
        let version = env!("CARGO_PKG_VERSION");
        let tag = match flavour {
            Flavour::Normal => version.to_owned(),
            Flavour::Verbose => format!("{version}-verbose"),
        };
        let name = format!("localhost/ipam-delegated:{tag}");
        Self { file, name }
    }

    /// Extracts the archive into a new folder.
    pub fn extract(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(&self.file).arg("-C").arg(folder);
        assert!(tar.status().unwrap().success(), "{tar:?}");
    }

    /// Extracts the image's files into a new folder.
    pub fn files(&self, folder: &Path) {
        let layout = tempfile::tempdir().unwrap();
        self.extract(layout.path());
        let manifest = fs::read(layout.path().join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        let layer = manifest[0]["Layers"][0].as_str().unwrap();
        fs::create_dir_all(folder).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-xzf")
            .arg(layout.path().join(layer))
            .arg("-C")
            .arg(folder);
        assert!(tar.status().unwrap().success(), "{tar:?}");
    }
}

impl Release {
    /// The archive of this flavour.
    pub fn of(flavour: Flavour) -> Self {
        let folder = dist().expect("the tests are run with: cargo xtask test");
        let mut archives: Vec<PathBuf> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
            .filter(|path| {
                path.to_string_lossy().contains("-verbose-") == (flavour == Flavour::Verbose)
            })
            .collect();
        assert_eq!(archives.len(), 1, "{archives:?}");
        Self {
            archive: archives.remove(0),
        }
    }

    /// The archive's file name, without a folder.
    pub fn name(&self) -> &str {
        self.archive.file_name().unwrap().to_str().unwrap()
    }

    /// Extracts the archive into `folder`; returns the top folder of its content.
    pub fn extract(&self, folder: &Path) -> PathBuf {
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&self.archive).arg("-C").arg(folder);
        assert!(tar.status().unwrap().success(), "{tar:?}");
        folder.join(self.name().strip_suffix(".tar.gz").unwrap())
    }
}

/// The inode to which all plugins in a folder are linked.
#[track_caller]
pub fn one_inode(folder: &Path) -> u64 {
    let inodes = PLUGINS.map(|plugin| fs::metadata(folder.join(plugin)).unwrap().ino());
    assert!(inodes.iter().all(|inode| *inode == inodes[0]), "{inodes:?}");
    inodes[0]
}
