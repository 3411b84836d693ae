//! The archives, the images and the Debian packages of a release.
//!
//! Needs: the archives, which `cargo xtask test` makes; root, podman, docker.io.
//! Takes two minutes.

mod image;
mod image_under_traffic;
mod image_with_docker;
mod image_with_podman;
mod in_an_empty_root;
mod installing;
mod package_with_podman;
mod releases;
mod traffic;
