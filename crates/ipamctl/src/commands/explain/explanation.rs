//! The explanation: its JSON, and its text for people.

use std::net::IpAddr;

use ipam_ds_rules::explain::Tried;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::node::large;
use crate::output::{Output, Style, joined};

/// The explanation. The keys are documented, and don't change their meaning.
#[derive(Debug, Default, Serialize)]
pub(super) struct Explanation {
    pub(super) network: String,
    pub(super) delegates: Vec<String>,
    /// The rules that were tried, up to the one that holds.
    pub(super) rules: Vec<Rule>,
    /// What each selector has answered.
    pub(super) selectors: Vec<Selector>,
    pub(super) pools: Vec<ChosenPool>,
    /// The reason why the pools or the addresses are not known.
    pub(super) unknown: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rule {
    rule: String,
    holds: bool,
    /// The reason why it doesn't: the fact, its value, the value that is required.
    fact: Option<String>,
    is: Option<String>,
    must_be: Option<String>,
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
        lines.extend(self.rules.iter().map(|rule| format!("  {}", rule.text())));
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

impl From<Tried> for Rule {
    fn from(tried: Tried) -> Self {
        let unmet = tried.unmet.as_ref();
        Self {
            holds: unmet.is_none(),
            fact: unmet.map(|unmet| unmet.fact.clone()),
            is: unmet.and_then(|unmet| unmet.is.clone()),
            must_be: unmet.map(|unmet| unmet.must_be.clone()),
            rule: tried.rule,
        }
    }
}

impl Rule {
    fn text(&self) -> String {
        let rule = &self.rule;
        let (Some(fact), Some(must_be)) = (&self.fact, &self.must_be) else {
            return format!("{rule}: holds");
        };
        let is = self.is.as_ref().map(|is| format!("{is:?}"));
        let is = is.as_deref().unwrap_or("missing");
        format!("{rule}: doesn't hold: {fact} is {is}, and must be {must_be}")
    }
}

/// A number as text: it may exceed 2^53.
fn as_text<S: Serializer>(number: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

impl ChosenPool {
    fn lines(&self) -> Vec<String> {
        let name = self
            .pool
            .as_ref()
            .map_or(String::new(), |name| format!("{name}, "));
        let [reserved, size, free] = [self.reserved, self.size, self.free].map(large);
        let mut lines = vec![format!(
            "  pool       {name}{}: {reserved} of {size} reserved, {free} free",
            self.ranges
        )];
        if let Some(key) = &self.sticky {
            lines.push(format!(
                "    sticky   {key}: the address that this key had last, if it is free"
            ));
        }
        if let Some(ip) = self.address {
            let gateway = self.gateway;
            let gateway = gateway.map_or(String::new(), |ip| format!(", gateway {ip}"));
            lines.push(format!("    an ADD would get {ip} now{gateway}"));
        } else if let Some(refusal) = &self.refusal {
            lines.push(format!("    an ADD would be refused: {refusal}"));
        }
        lines
    }
}
