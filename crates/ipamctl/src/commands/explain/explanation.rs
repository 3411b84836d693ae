//! The explanation: its JSON, and its text for people.

use std::net::IpAddr;

use ipam_ds_rules::explain::{Tried, Unmet};
use serde::{Serialize, Serializer};
use serde_json::json;
use serde_json::value::RawValue;

use crate::node::large;
use crate::output::{Output, Style, joined};

/// The explanation. The keys are documented, and don't change their meaning.
#[derive(Debug, Default, Serialize)]
pub(super) struct Explanation {
    pub(super) network: String,
    pub(super) delegates: Vec<String>,
    /// The rules that were tried, up to the one that holds.
    #[serde(serialize_with = "rules")]
    pub(super) rules: Vec<Tried>,
    /// The answer of each selector.
    pub(super) selectors: Vec<Selector>,
    pub(super) pools: Vec<ChosenPool>,
    /// The reason why the pools or the addresses are unknown.
    pub(super) unknown: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Selector {
    pub(super) name: String,
    pub(super) answer: Option<Box<RawValue>>,
    pub(super) error: Option<String>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct ChosenPool {
    pub(super) pool: Option<String>,
    pub(super) ranges: String,
    #[serde(serialize_with = "as_text")]
    pub(super) size: u128,
    #[serde(serialize_with = "as_text")]
    pub(super) reserved: u128,
    #[serde(serialize_with = "as_text")]
    pub(super) free: u128,
    pub(super) sticky: Option<String>,
    /// The address that an ADD would get now.
    pub(super) address: Option<IpAddr>,
    pub(super) gateway: Option<IpAddr>,
    /// The reason why it would get none.
    pub(super) refusal: Option<String>,
}

impl Explanation {
    /// True if an ADD would be refused.
    pub(super) fn is_refused(&self) -> bool {
        let mut selectors = self.selectors.iter();
        selectors.any(|selector| selector.error.is_some())
            || self.pools.iter().any(|pool| pool.refusal.is_some())
    }

    /// The explanation for people, with the facts of the question.
    pub(super) fn lines(&self, facts: &[(String, String)], output: Output) -> Vec<String> {
        let facts = facts.iter().map(|(key, value)| format!("{key}={value}"));
        let facts = joined(facts, ", ");
        let facts = if facts.is_empty() { "none" } else { &facts };
        let mut lines = vec![
            output.styled(Style::Bold, &format!("network {}", self.network)),
            format!("  chain      {}", self.delegates.join(" → ")),
            format!("  facts      {facts}"),
        ];
        lines.extend(self.rules.iter().map(text));
        for Selector { name, error, .. } in &self.selectors {
            let refusal = error.iter();
            lines.extend(refusal.map(|error| format!("  {name} refuses: {error}")));
        }
        lines.extend(self.pools.iter().flat_map(ChosenPool::lines));
        let unknown = self.unknown.iter();
        lines.extend(unknown.map(|unknown| format!("  not known: {unknown}")));
        lines
    }
}

/// The rules as JSON.
fn rules<S: Serializer>(rules: &[Tried], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(rules.iter().map(|Tried { rule, unmet }| {
        let unmet = unmet.as_ref();
        json!({
            "rule": rule,
            "holds": unmet.is_none(),
            // The first condition that isn't met.
            "fact": unmet.map(|unmet| &unmet.fact),
            "is": unmet.and_then(|unmet| unmet.is.as_ref()),
            "mustBe": unmet.map(|unmet| &unmet.must_be),
        })
    }))
}

/// A rule for people.
fn text(tried: &Tried) -> String {
    let rule = &tried.rule;
    let Some(Unmet { fact, is, must_be }) = &tried.unmet else {
        return format!("  {rule}: holds");
    };
    let is = is.as_ref().map(|is| format!("{is:?}"));
    let is = is.as_deref().unwrap_or("missing");
    format!("  {rule}: doesn't hold: {fact} is {is}, and must be {must_be}")
}

/// A number as text: it may exceed 2^53.
fn as_text<S: Serializer>(number: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

impl ChosenPool {
    fn lines(&self) -> Vec<String> {
        let name = self.pool.iter().map(|name| format!("{name}, "));
        let (name, ranges): (String, _) = (name.collect(), &self.ranges);
        let [reserved, size, free] = [self.reserved, self.size, self.free].map(large);
        let mut lines = vec![format!(
            "  pool       {name}{ranges}: {reserved} of {size} reserved, {free} free"
        )];
        lines.extend(self.sticky.iter().map(|key| {
            format!("    sticky   {key}: the address that this key had last, if it is free")
        }));
        if let Some(ip) = self.address {
            let gateway = self.gateway.iter().map(|ip| format!(", gateway {ip}"));
            let gateway: String = gateway.collect();
            lines.push(format!("    an ADD would get {ip} now{gateway}"));
        }
        let refusal = self.refusal.iter();
        lines.extend(refusal.map(|refusal| format!("    an ADD would be refused: {refusal}")));
        lines
    }
}
