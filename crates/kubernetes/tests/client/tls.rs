//! TLS: which certificates client and server accept.

use std::sync::Arc;

use cluster::Kind;
use kubernetes::Client;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::POOL;
use crate::fake_server::{FakeServer, Reply};
use crate::setting::{Setting, pool};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for this host and its key, PEM.
    fn sign(&self, host: &str) -> (String, String) {
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A server with a certificate for this host. If there are `clients`, it requires their
    /// certificate.
    fn server(&self, host: &str, clients: Option<&Self>) -> FakeServer {
        self.server_that(Reply::object(200, &pool("blue", 1)), host, clients)
    }

    fn server_that(&self, reply: Reply, host: &str, clients: Option<&Self>) -> FakeServer {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(clients.0.der().clone()).unwrap();
                let roots = Arc::new(roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let (certificate, key) = self.sign(host);
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = builder.with_single_cert(vec![certificate], key).unwrap();
        FakeServer::start_with([reply], Some(Arc::new(config)))
    }
}

/// A kubeconfig beside `ca.pem`, `cert.pem` and `key.pem`.
fn setting(server: &FakeServer, authority: &Authority, cluster: &Value, user: &Value) -> Setting {
    let mut all = json!({"server": format!("https://{}", server.address)});
    let cluster = cluster.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(cluster);
    let setting = Setting::new(&all, user);
    setting.write("ca.pem", &authority.0.pem());
    let (certificate, key) = authority.sign("client");
    setting.write("cert.pem", &certificate);
    setting.write("key.pem", &key);
    setting
}

#[test]
fn a_server_is_trusted_by_its_authority_or_not_at_all() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let ca = json!({"certificate-authority": "ca.pem"});
    for (cluster, authority, host, refusal) in [
        (ca.clone(), &ours, "127.0.0.1", None),
        (
            ca.clone(),
            &other,
            "127.0.0.1",
            Some("hasn't signed the API server's certificate"),
        ),
        (
            ca.clone(),
            &ours,
            "api.example",
            Some("must be a name of the certificate"),
        ),
        (
            json!({"certificate-authority": "ca.pem", "tls-server-name": "api.example"}),
            &ours,
            "api.example",
            None,
        ),
        (
            json!({"insecure-skip-tls-verify": true}),
            &ours,
            "other.example",
            None,
        ),
    ] {
        let server = ours.server(host, None);
        let setting = setting(&server, authority, &cluster, &json!({}));
        let mut client = Client::new(&setting.settings, None);
        match (client.get(POOL, "blue"), refusal) {
            (Ok(Some(_)), None) => {}
            (Err(error), Some(refusal)) => {
                assert_eq!(error.kind, Kind::Refused, "{error}");
                assert!(error.msg.contains(refusal), "{error}");
                assert!(server.received().is_empty());
            }
            (answer, _) => panic!("{answer:?}"),
        }
    }
}

#[test]
fn a_client_sends_its_certificate() {
    let ours = Authority::new("ours");
    let cluster = json!({"certificate-authority": "ca.pem"});
    let server = ours.server("127.0.0.1", Some(&ours));
    let user = json!({"client-certificate": "cert.pem", "client-key": "key.pem"});
    let setting_with = setting(&server, &ours, &cluster, &user);
    let mut client = Client::new(&setting_with.settings, None);
    assert!(client.get(POOL, "blue").unwrap().is_some());
    let server = ours.server("127.0.0.1", Some(&ours));
    let setting_without = setting(&server, &ours, &cluster, &json!({}));
    let mut client = Client::new(&setting_without.settings, None);
    let error = client.get(POOL, "blue").unwrap_err();
    assert_eq!(error.kind, Kind::Refused, "{error}");
    assert!(error.msg.contains("CertificateRequired"), "{error}");
}

#[test]
fn a_write_whose_answer_has_no_tls_may_have_been_executed() {
    let ours = Authority::new("ours");
    let server = ours.server_that(Reply::WithoutTls, "127.0.0.1", None);
    let cluster = json!({"certificate-authority": "ca.pem"});
    let setting = setting(&server, &ours, &cluster, &json!({}));
    let mut client = Client::new(&setting.settings, None);
    let error = client.create(POOL, &pool("blue", 1), false).unwrap_err();
    assert_eq!(server.received().len(), 1);
    assert_eq!(error.kind, Kind::Lost, "{error}");
}

#[test]
fn a_clusters_id_depends_on_its_url_and_its_authorities() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let server = ours.server("127.0.0.1", None);
    let id = |authority: &Authority, cluster: Value| {
        let setting = setting(&server, authority, &cluster, &json!({}));
        Client::new(&setting.settings, None).cluster_id().unwrap()
    };
    let ca = json!({"certificate-authority": "ca.pem"});
    assert_eq!(id(&ours, ca.clone()), id(&ours, ca.clone()));
    assert_ne!(id(&ours, ca.clone()), id(&other, ca.clone()));
    let moved = json!({"certificate-authority": "ca.pem", "server": "https://moved:1"});
    assert_ne!(id(&ours, ca), id(&ours, moved));
}
