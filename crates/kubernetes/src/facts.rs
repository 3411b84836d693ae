//! The plugin `ipam-df-kubernetes`: facts of a pod, of its namespace and of its node, as the API
//! server has them.
//!
//! Behind Multus, a runtime passes neither labels nor annotations, and whoever starts a container
//! writes `CNI_ARGS`. So of the families of facts that are read here, only what is found counts:
//! `"label:*": null` and its like tell that to the selectors.

use std::collections::BTreeMap;

use cluster::{TimeLimit, until_answered};
use cni::{About, Attachment, Call, Error, Object, Plugin, Reply, code};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, GetParams};
use serde::de::IgnoredAny;

use crate::Kubernetes;
use crate::client::Requests;
use crate::engine::Settings;
use crate::failure::is_missing;
use crate::names::is_dns_subdomain;

/// The annotation of the pod that stands for a static pod: the UID that the kubelet knows it by.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// URL paths of what is read, of pods in one namespace for all.
const READ: [&str; 3] = [
    "/api/v1/namespaces/kube-system/pods",
    "/api/v1/namespaces",
    "/api/v1/nodes",
];

/// Facts by their names. `None` decides that there is no such fact.
type Facts = BTreeMap<String, Option<String>>;

/// The plugin. Only ADD finds facts: afterwards, the chain uses the record of its result.
pub struct FactsOfPod {
    /// The plugin's name, version and purpose.
    pub about: About,
}

impl Plugin for FactsOfPod {
    fn about(&self) -> About {
        self.about
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let wanted = Wanted::of(call)?;
        let annotations = annotations(&call.config.ipam()?)?;
        let mut store = open(call)?;
        let found = until_answered(&mut store, |store| {
            store.read_with(|kube| read(kube, &wanted))
        })?;
        let found = found
            .ok_or_else(|| Error::config(format!("{wanted}: the API server has no such pod")))?;
        ipam::Facts::append(&call.config, found.facts(&annotations)).map(Reply::Result)
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        annotations(&call.config.ipam()?)?;
        let mut store = open(call)?;
        for collection in READ {
            // It needn't exist: whether this client may read it is decided first.
            let read = until_answered(&mut store, |store| {
                store.get::<IgnoredAny>(collection, "ipam-df-kubernetes", &GetParams::any())
            });
            read.map_err(|error| Error::new(code::UNAVAILABLE, Error::from(error).msg))?;
        }
        Ok(Reply::Nothing)
    }
}

fn open<'a>(call: &Call<'a>) -> Result<Kubernetes<'a>, Error> {
    let settings = Settings::read(&call.config.ipam()?)?;
    let time = TimeLimit::new(settings.timeout, call.cancellation);
    let opened = Kubernetes::open(&settings.kubeconfig, false, Requests::AtOnce, time);
    Ok(opened?)
}

/// The keys of annotations that `ipam.facts` names.
fn annotations(ipam: &Object) -> Result<Vec<String>, Error> {
    let names: Vec<String> = ipam.read("ipam", "facts")?.unwrap_or_default();
    let key = |(i, name): (usize, &String)| match name.strip_prefix("annotation:") {
        Some(key) if !key.is_empty() => Ok(key.to_owned()),
        _ => Err(Error::config(format!(
            "ipam.facts[{i}]: {name:?} must be annotation:KEY; all labels are facts"
        ))),
    };
    names.iter().enumerate().map(key).collect()
}

/// The pod of a call.
struct Wanted {
    namespace: String,
    name: String,
    /// `None` if the runtime doesn't pass it.
    uid: Option<String>,
}

impl Wanted {
    fn of(call: &Call<'_>) -> Result<Self, Error> {
        let args = call.args()?;
        let name = |key: &str| match args.get(key) {
            // It becomes a part of a path.
            Some(name) if is_dns_subdomain(name) => Ok(name.to_owned()),
            given => {
                let given = given.unwrap_or_default();
                let wrong =
                    format!("CNI_ARGS: {key}={given:?} is no name of an object in Kubernetes");
                Err(Error::environment(wrong))
            }
        };
        let uid = args.get("K8S_POD_UID").filter(|uid| !uid.is_empty());
        Ok(Self {
            namespace: name("K8S_POD_NAMESPACE")?,
            name: name("K8S_POD_NAME")?,
            uid: uid.map(str::to_owned),
        })
    }

    /// The pod with its node's name, if the answer has it as it is now: with its UID, and on a node.
    async fn get(
        &self,
        pods: &Api<Pod>,
        parameters: &GetParams,
    ) -> kube::Result<Option<(Pod, String)>> {
        let pod = match pods.get_with(&self.name, parameters).await {
            Err(error) if is_missing(&error, &self.name) => return Ok(None),
            answer => answer?,
        };
        let uids = [pod.metadata.uid.as_ref(), pod.annotations().get(MIRROR)];
        let uid = self.uid.as_ref();
        let is_it = uid.is_none_or(|uid| uids.contains(&Some(uid)));
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        Ok(node.filter(|_| is_it).map(|node| (pod, node)))
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pod {}/{}", self.namespace, self.name)?;
        self.uid
            .as_ref()
            .map_or(Ok(()), |uid| write!(f, " with the UID {uid}"))
    }
}

/// What the API server has of a pod.
struct Found {
    pod: Pod,
    node: String,
    namespace_labels: BTreeMap<String, String>,
    node_labels: BTreeMap<String, String>,
}

impl Found {
    fn facts(&self, annotations: &[String]) -> Facts {
        let mut facts = Facts::new();
        for (family, labels) in [
            ("label", self.pod.labels()),
            ("namespace-label", &self.namespace_labels),
            ("node-label", &self.node_labels),
        ] {
            let fact =
                |(key, label): (&String, &String)| (format!("{family}:{key}"), Some(label.clone()));
            facts.extend(labels.iter().map(fact));
            facts.insert(format!("{family}:*"), None);
        }
        for key in annotations {
            let annotation = self.pod.annotations().get(key).cloned();
            facts.insert(format!("annotation:{key}"), annotation);
        }
        facts.insert("annotation:*".to_owned(), None);
        facts.insert("node".to_owned(), Some(self.node.clone()));
        facts
    }
}

/// Reads the pod, then its namespace and its node at once, from the API server's cache. A pod that
/// the cache hasn't yet is asked for once more, without it. `None` if there is no such pod.
async fn read(kube: kube::Client, wanted: &Wanted) -> kube::Result<Option<Found>> {
    let pods: Api<Pod> = Api::namespaced(kube.clone(), &wanted.namespace);
    let mut found = wanted.get(&pods, &GetParams::any()).await?;
    if found.is_none() {
        found = wanted.get(&pods, &GetParams::default()).await?;
    }
    let Some((pod, node)) = found else {
        return Ok(None);
    };
    let (namespaces, nodes) = (Api::<Namespace>::all(kube.clone()), Api::<Node>::all(kube));
    let cached = GetParams::any();
    let (namespace, of_node) = tokio::try_join!(
        namespaces.get_metadata_with(&wanted.namespace, &cached),
        nodes.get_metadata_with(&node, &cached),
    )?;
    Ok(Some(Found {
        pod,
        node,
        namespace_labels: namespace.labels().clone(),
        node_labels: of_node.labels().clone(),
    }))
}
