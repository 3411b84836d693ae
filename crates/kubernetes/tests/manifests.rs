//! The manifests in `docs` are those of the types.

use std::fs;
use std::path::Path;

#[test]
fn the_manifests_are_made_from_the_kinds() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubernetes-cluster-pool/crds");
    for (name, content) in kubernetes::manifests() {
        let file = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert_eq!(file, content, "{name} is old: cargo manifests");
    }
}
