/// Refusal of a call: its HTTP status and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The HTTP status: 200 if the request is understood, but can't be done.
    pub(crate) status: u16,
    /// The reason.
    pub(crate) why: String,
}

impl Refusal {
    /// A refusal with this HTTP status.
    pub(crate) fn new(status: u16, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { status, why }
    }
}

impl From<anyhow::Error> for Refusal {
    /// The details of a CNI error are only logged: Docker prints the reason in one line.
    fn from(error: anyhow::Error) -> Self {
        if let Some(error) = error.downcast_ref::<cni::Error>()
            && !error.details.is_empty()
        {
            tracing::info!(error.code, error.msg, error.details);
        }
        Self::new(200, message(&error))
    }
}

/// The message of an error in one line, without the code and the details of a CNI error.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let causes = error.chain().map(|cause| match cause.downcast_ref() {
        Some(cni::Error { msg, .. }) => msg.clone(),
        None => cause.to_string(),
    });
    causes.collect::<Vec<_>>().join(": ")
}
