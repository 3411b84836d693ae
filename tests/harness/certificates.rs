//! Test certificates: an authority, and the certificates that it signs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate authority, with a folder for its files.
pub struct Authority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The files of a certificate.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate, PEM.
    pub cert: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// The server's side of TLS. Clients need no certificate.
    pub(crate) fn server_config(&self) -> Arc<ServerConfig> {
        let certificate = CertificateDer::from_pem_file(&self.cert).unwrap();
        let key = PrivateKeyDer::from_pem_file(&self.key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key);
        Arc::new(config.unwrap())
    }
}

impl Authority {
    /// Creates an authority and this folder. The authority's certificate is `ca.pem` in the
    /// folder.
    pub fn new(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, folder.display().to_string());
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        Self {
            folder: folder.to_owned(),
            issuer,
        }
    }

    /// The file of its certificate.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Signs a certificate with this common name, for these host names and addresses.
    pub fn sign(&self, name: &str, hosts: &[&str]) -> CertificateFiles {
        self.sign_until(name, hosts, 2100)
    }

    /// Signs a certificate that is valid until this year.
    pub fn sign_until(&self, name: &str, hosts: &[&str], year: i32) -> CertificateFiles {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        // etcd is also its own client.
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let file = |end: &str| self.folder.join(format!("{name}-{year}.{end}"));
        let files = CertificateFiles {
            cert: file("pem"),
            key: file("key"),
        };
        fs::write(&files.cert, cert.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }
}
