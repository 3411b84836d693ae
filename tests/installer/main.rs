//! The image's entry point, and the manifests of `docs/kubernetes`.
//!
//! Needs: root, kubectl. Takes two minutes.

mod installing;
mod keeping;
mod killed;
mod kubeconfig;
mod kustomize;
mod manifests;
mod nodes;
mod pod_cidr;
mod removal;
