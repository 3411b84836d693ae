//! Certificates of etcd and of the node, invalid ones and expired ones.

use std::path::Path;

use harness::{Authority, CertificateFiles, ETCD, ETCDCTL, EtcdMember, needs};
use serde_json::{Value, json};

use super::Cluster;

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
    let server = [text(&server.cert), text(&server.key), text(&ca)];
    let client = [text(&client.cert), text(&client.key), text(&ca)];
    let [cert, key, ca] = server;
    let server = [
        "--cert-file",
        cert,
        "--key-file",
        key,
        "--trusted-ca-file",
        ca,
        "--client-cert-auth",
    ];
    let [cert, key, ca] = client;
    EtcdMember::start_with_tls(&server, &["--cert", cert, "--key", key, "--cacert", ca])
}

fn config(cluster: &Cluster, authority: &Authority, client: Option<&CertificateFiles>) -> Value {
    let pools = json!([{"name": "blue", "subnet": "10.0.0.0/24"}]);
    let mut config = cluster.config("n1", &["ipam-da-etcd"], &pools);
    let keys = &mut config["ipam"]["etcd"];
    keys["ca"] = json!(authority.ca());
    if let Some(client) = client {
        keys["cert"] = json!(client.cert);
        keys["key"] = json!(client.key);
    }
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
    let cluster = Cluster::with(member(
        &authority,
        &authority.sign("server", &["127.0.0.1"]),
        &root,
    ));
    let good = config(&cluster, &authority, Some(&node));
    cluster.add("a", &good).result();
    // A failed DEL leaves a record, so each case has a new container.
    for (i, (config, text)) in [
        (
            config(&cluster, &other, Some(&node)),
            "invalid peer certificate: UnknownIssuer",
        ),
        (
            config(&cluster, &authority, Some(&other.sign("node", &[]))),
            "received fatal alert: ",
        ),
        (
            config(
                &cluster,
                &authority,
                Some(&authority.sign_until("node", &[], 2001)),
            ),
            "received fatal alert: ",
        ),
        (config(&cluster, &authority, None), "received fatal alert: "),
    ]
    .into_iter()
    .enumerate()
    {
        cluster.add(&format!("b{i}"), &config).refused(113, text);
    }
    let mut wrong = good.clone();
    wrong["ipam"]["etcd"]["ca"] = json!("/etc/hostname");
    cluster
        .add("c", &wrong)
        .refused(7, "ipam.etcd.ca: /etc/hostname: it is no PEM file");
    // The users are the common names of the certificates.
    cluster.etcd.enable_authentication("node");
    cluster.add("d", &good).result();
    let error = cluster
        .add("e", &config(&cluster, &authority, Some(&stranger)))
        .error();
    assert_eq!(error["code"], 113, "{error}");
}

#[test]
fn an_expired_server_certificate_is_refused() {
    needs!(ETCD, ETCDCTL);
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    let node = authority.sign("node", &[]);
    let expired = authority.sign_until("server", &["127.0.0.1"], 2001);
    let ca = authority.ca();
    let server = [
        "--cert-file",
        text(&expired.cert),
        "--key-file",
        text(&expired.key),
        "--trusted-ca-file",
        text(&ca),
        // With the gateway, etcd would be its own client, and refuse its expired certificate.
        "--enable-grpc-gateway=false",
    ];
    let cluster = Cluster::with(EtcdMember::start_with_tls(&server, &[]));
    cluster
        .add("a", &config(&cluster, &authority, Some(&node)))
        .refused(113, "certificate expired");
}
