//! Errors of the client. Each says whether a change was or may have been made.

use cluster::{EngineError, Kind};
use serde_json::Value;

use super::answer::Answer;
use super::request::Request;
use crate::{GROUP, Settings};

/// The user of a request without credentials.
const ANONYMOUS: &str = "User \"system:anonymous\"";

/// The error for a request that the API server refuses: nothing was changed.
pub(super) fn refusal(settings: &Settings, request: &Request, answer: &Answer) -> EngineError {
    let (verb, of) = (request.verb(), request.of.full_name());
    let path = settings.kubeconfig.display();
    let said = answer.said();
    let (kind, hint) = match answer.status.as_u16() {
        401 => (
            Kind::Refused,
            format!(
                "; the credentials in {path} are wrong or have expired; on a node, the pod of the DaemonSet ipam-delegated renews them"
            ),
        ),
        403 if said.contains(ANONYMOUS) => (
            Kind::Refused,
            format!("; the user in {path} has no tokenFile, token or client-certificate"),
        ),
        // Message of RBAC; policies refuse with other messages.
        403 if said.contains(&format!("cannot {verb} resource")) => (
            Kind::Refused,
            format!(
                "; the user of {path} needs the right to {verb} {of}, see docs/kubernetes-cluster-pool/rights-of-nodes.yaml"
            ),
        ),
        403 => (Kind::Refused, String::new()),
        404 => (
            Kind::Unable,
            match request.of.group() {
                GROUP => {
                    "; if its kinds are missing: kubectl apply -k docs/kubernetes-cluster-pool"
                        .to_owned()
                }
                group => format!("; the API server may lack the kinds of {group}"),
            },
        ),
        _ => (Kind::Unable, String::new()),
    };
    let msg = format!(
        "Kubernetes' API refuses to {}: {said}{hint}",
        request.in_words()
    );
    EngineError::new(kind, msg)
}

/// The error for an answer that can't be read.
pub(super) fn unreadable(request: &Request, why: &str) -> EngineError {
    if request.changes {
        return lost(request, why);
    }
    let msg = format!(
        "Kubernetes' API was asked to {}, and the answer can't be read: {why}",
        request.in_words()
    );
    EngineError::new(Kind::Unable, msg)
}

/// The error for an object that is deleted only after others have removed its finalizers.
pub(super) fn kept(request: &Request, finalizers: &Value) -> EngineError {
    let (of, name) = (request.of.full_name(), &request.name);
    let msg = format!(
        "{of}/{name} is not deleted yet: Kubernetes' API keeps it for metadata.finalizers {finalizers}"
    );
    EngineError::new(Kind::Unable, msg)
}

/// The error for a change that may have been made.
pub(super) fn lost(request: &Request, reason: &str) -> EngineError {
    let msg = format!(
        "Kubernetes' API was asked to {}, and has not said whether it did, so the change may have been made: {reason}",
        request.in_words()
    );
    EngineError::new(Kind::Lost, msg)
}

/// The error if client and server don't trust each other's certificates: nothing was changed.
pub(super) fn distrusted(settings: &Settings, server: &str, reason: &str) -> EngineError {
    let path = settings.kubeconfig.display();
    let hint = if reason.contains("UnknownIssuer") {
        format!("; certificate-authority in {path} hasn't signed the API server's certificate")
    } else if reason.contains("not valid for name") {
        format!("; server or tls-server-name in {path} must be a name of the certificate")
    } else if reason.contains("Certificate") || reason.contains("UnknownCA") {
        format!("; the API server refuses the client-certificate in {path}")
    } else {
        String::new()
    };
    let msg = format!("Kubernetes' API at {server} can't be used: {reason}{hint}");
    EngineError::new(Kind::Refused, msg)
}

/// The error of a call that was cancelled.
pub(super) fn cancelled() -> EngineError {
    let msg = "the call was cancelled while it waited for Kubernetes' API";
    EngineError::new(Kind::Cancelled, msg)
}
