//! Lists in the form that has least of what isn't needed: names and metadata at once, whole objects
//! page by page.

use cluster::{Kind, Store as _, StoreError};
use http::header::ACCEPT;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Kubernetes;

/// Form of a list's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Tables without objects: a [`Row`] with a name and a few short cells for each object.
    Names,
    /// Objects with nothing but metadata.
    Metadata,
    /// Whole objects.
    Whole,
}

impl Form {
    /// The header `Accept`, what is added to the query, and the largest number of items in a page. API
    /// servers answer all pages but the first from etcd, at ten times the cost of their cache, so only
    /// what would need much memory here has pages.
    fn request(self) -> (&'static str, &'static str, Option<u32>) {
        match self {
            Self::Names => (
                "application/json;as=Table;g=meta.k8s.io;v=v1",
                "&includeObject=None",
                None,
            ),
            Self::Metadata => (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                "",
                None,
            ),
            Self::Whole => ("application/json", "", Some(2_000)),
        }
    }
}

/// A row of a table. The first cell is the object's name.
#[derive(Deserialize)]
pub(crate) struct Row {
    pub(crate) cells: Vec<serde_json::Value>,
}

/// What is read of an object's metadata: the rest is larger than all other content.
#[derive(Deserialize)]
pub(crate) struct Meta {
    pub(crate) name: String,
    pub(crate) uid: String,
    #[serde(rename = "resourceVersion")]
    pub(crate) revision: String,
    #[serde(default)]
    pub(crate) labels: Labels,
}

/// The label that a list needs.
#[derive(Default, Deserialize)]
pub(crate) struct Labels {
    #[serde(rename = "ipam-delegated.io/attachment")]
    pub(crate) attachment: Option<String>,
}

/// An object of which only the metadata is read.
#[derive(Deserialize)]
pub(crate) struct Labelled {
    pub(crate) metadata: Meta,
}

/// An answer to a list.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    metadata: ListMeta,
    #[serde(default, rename = "columnDefinitions")]
    columns: Vec<Column>,
    /// Without items, it may be `null`. It is never missing.
    #[serde(alias = "rows", deserialize_with = "Option::deserialize")]
    items: Option<Vec<T>>,
}

/// A column of a table.
#[derive(Deserialize)]
struct Column {
    format: String,
}

impl Kubernetes<'_> {
    /// Lists the objects of a collection as of one moment, and passes on each.
    ///
    /// # Errors
    ///
    /// Those of a read; [`Kind::Unable`] if the answer has no names.
    pub(crate) fn each<T: DeserializeOwned>(
        &self,
        collection: &str,
        form: Form,
        mut list: ListParams,
        mut each: impl FnMut(T),
    ) -> Result<(), StoreError> {
        (.., list.limit) = form.request();
        loop {
            let left = self.time().left();
            let page: Page<T> = self.read_with(|kube| request(kube, collection, form, &list))?;
            self.time().set_left(left);
            let first = page.columns.first();
            if form == Form::Names && first.is_none_or(|column| column.format != "name") {
                let msg = format!("the API server's list of {collection} has no names");
                return Err(StoreError::new(Kind::Unable, msg));
            }
            page.items.into_iter().flatten().for_each(&mut each);
            list.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if list.continue_token.is_none() {
                return Ok(());
            }
        }
    }
}

/// Requests a page of a list.
async fn request<T: DeserializeOwned>(
    kube: kube::Client,
    collection: &str,
    form: Form,
    list: &ListParams,
) -> kube::Result<Page<T>> {
    let (accept, more, _) = form.request();
    let listed = Request::new(collection).list(list);
    let uri = format!("{}{more}", listed.map_err(kube::Error::BuildRequest)?.uri());
    let request = http::Request::get(uri)
        .header(ACCEPT, accept)
        .body(Vec::new());
    kube.request(request.map_err(kube::Error::HttpError)?).await
}
