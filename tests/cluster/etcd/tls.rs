//! Certificates of etcd and of the node, invalid ones and expired ones.

use std::path::Path;

use harness::{Authority, CertificateFiles, ETCD, ETCDCTL, EtcdMember, needs};
use serde_json::{Value, json};

use super::Cluster;
use crate::pool_cluster::PoolCluster;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A member with this certificate, which requires clients' certificates.
fn member(
    authority: &Authority,
    server: &CertificateFiles,
    client: &CertificateFiles,
) -> EtcdMember {
    let ca = authority.ca();
    let server = [
        "--cert-file",
        text(&server.cert),
        "--key-file",
        text(&server.key),
        "--trusted-ca-file",
        text(&ca),
        "--client-cert-auth",
        // With the gateway, etcd would be its own client, and refuse its expired certificate.
        "--enable-grpc-gateway=false",
    ];
    let client = [
        "--cert",
        text(&client.cert),
        "--key",
        text(&client.key),
        "--cacert",
        text(&ca),
    ];
    EtcdMember::start_with_tls(&server, &client)
}

/// An ADD of a container with these certificates.
fn config(
    cluster: &Cluster,
    name: &str,
    authority: &Authority,
    client: Option<&CertificateFiles>,
) -> Value {
    // A server's alert may be lost with its connection, and comes with one of the next attempts.
    let mut settings = json!({
        "endpoints": [cluster.etcd.url()], "ca": authority.ca(), "timeout": "30s",
    });
    if let Some(client) = client {
        settings["cert"] = json!(client.cert);
        settings["key"] = json!(client.key);
    }
    let pools = json!([{"name": "blue"}]);
    let mut config = cluster.config("n1", &pools);
    config["ipam"]["etcd"] = json!(cluster.settings(name, &settings));
    config
}

#[test]
fn certificates_prove_who_is_who_and_a_common_name_is_etcds_user() {
    needs!(ETCD, ETCDCTL);
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(&folder.path().join("ours"));
    let other = Authority::new(&folder.path().join("other"));
    let root = authority.sign("root", &[]);
    let node = authority.sign("node", &[]);
    let stranger = authority.sign("stranger", &[]);
    let server = authority.sign("server", &["127.0.0.1"]);
    let cluster = Cluster::with(member(&authority, &server, &root));
    cluster.define("blue", &json!({"subnet": "10.0.0.0/24"}));
    let good = config(&cluster, "good", &authority, Some(&node));
    cluster.add("a", &good).result();
    let expired = authority.sign_until("node", &[], 2001);
    let foreign = other.sign("node", &[]);
    let alert = "received fatal alert: ";
    for (name, by, client, text) in [
        (
            "b1",
            &other,
            Some(&node),
            "invalid peer certificate: UnknownIssuer",
        ),
        ("b2", &authority, Some(&foreign), alert),
        ("b3", &authority, Some(&expired), alert),
        ("b4", &authority, None, alert),
    ] {
        let config = config(&cluster, name, by, client);
        cluster.add(name, &config).refused(113, text);
    }
    let mut wrong = json!({"endpoints": [cluster.etcd.url()], "ca": "/etc/hostname"});
    wrong["ca"] = json!("/etc/hostname");
    let mut no_pem = good.clone();
    no_pem["ipam"]["etcd"] = json!(cluster.settings("wrong", &wrong));
    let text = "etcd-wrong.json.ca: /etc/hostname: it is no PEM file";
    cluster.add("c", &no_pem).refused(7, text);
    // The users are the common names of the certificates.
    cluster.etcd.enable_authentication("node");
    cluster.add("d", &good).result();
    let stranger = config(&cluster, "stranger", &authority, Some(&stranger));
    assert_eq!(cluster.add("e", &stranger).code(), 113);
}

#[test]
fn an_expired_server_certificate_is_refused() {
    needs!(ETCD, ETCDCTL);
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    let node = authority.sign("node", &[]);
    let expired = authority.sign_until("server", &["127.0.0.1"], 2001);
    let cluster = Cluster::with(member(&authority, &expired, &node));
    let config = config(&cluster, "n1", &authority, Some(&node));
    cluster
        .add("a", &config)
        .refused(113, "certificate expired");
}
