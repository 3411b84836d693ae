//! The image's entry point, and the manifests of `docs/kubernetes`.
//!
//! Needs: root, kubectl. Takes two minutes.

mod installer;
mod installer_keeping;
mod installer_killed;
mod installer_kubeconfig;
mod installer_pod_cidr;
mod installer_removal;
mod kubernetes_manifests;
mod kubernetes_nodes;
mod kustomize;

harness::print_left_out_at_the_end!();
