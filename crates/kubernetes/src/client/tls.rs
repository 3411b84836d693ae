//! TLS settings from the kubeconfig: authorities, client certificate, server name.

use std::sync::Arc;

use cluster::EngineError;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::kubeconfig::{Identity, Kubeconfig, refused};

/// TLS to one API server.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) server_name: ServerName<'static>,
}

/// TLS to the kubeconfig's API server; `None` for an `http` URL.
///
/// # Errors
///
/// [`cluster::Kind::Settings`]: a certificate, a key or a name is invalid.
pub(super) fn tls(kubeconfig: &Kubeconfig) -> Result<Option<Tls>, EngineError> {
    if kubeconfig.server.scheme_str() != Some("https") {
        return Ok(None);
    }
    let invalid = |key: &str, why: &dyn std::fmt::Display| {
        refused(&kubeconfig.path, &format_args!("{key}: {why}"))
    };
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("server", &error))?;
    let verifying = match &kubeconfig.authorities {
        Some(pem) => builder.with_root_certificates(
            authorities(pem).map_err(|why| invalid("certificate-authority", &why))?,
        ),
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
    };
    let mut config = match &kubeconfig.identity {
        Some(Identity { certificate, key }) => {
            let certificates: Result<Vec<_>, _> =
                CertificateDer::pem_slice_iter(certificate).collect();
            let certificates =
                certificates.map_err(|error| invalid("client-certificate", &error))?;
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| invalid("client-key", &error))?;
            verifying
                .with_client_auth_cert(certificates, key)
                .map_err(|error| invalid("client-certificate, client-key", &error))?
        }
        None => verifying.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let host = kubeconfig.server.host().unwrap_or_default();
    let (key, name) = match &kubeconfig.server_name {
        Some(name) => ("tls-server-name", name.as_str()),
        None => ("server", host.trim_matches(['[', ']'])),
    };
    let server_name =
        ServerName::try_from(name.to_owned()).map_err(|error| invalid(key, &error))?;
    Ok(Some(Tls {
        config: Arc::new(config),
        server_name,
    }))
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        store.add(certificate).map_err(|error| error.to_string())?;
    }
    match store.is_empty() {
        true => Err("it has no certificate".to_owned()),
        false => Ok(store),
    }
}

/// Accepts every certificate, for `insecure-skip-tls-verify`. The signatures of the handshake are
/// still verified.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
