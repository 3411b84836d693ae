//! Finds hidden rules: an earlier rule holds whenever they do.

use std::collections::HashMap;

use crate::condition::Condition;
use crate::rule::Rule;

/// The indexes of the hidden rules, each with the first rule that hides it.
pub(crate) fn hidden(rules: &[Rule<'_>]) -> Vec<(usize, usize)> {
    // A rule with a literal text as a condition can hide only rules with the same text for the
    // same fact. Most rules have such a condition, so few pairs must be compared.
    let mut by_text: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    let mut others = Vec::new();
    let mut hidden = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let when = rule.when.iter();
        let texts = when.filter_map(|when| Some((&*when.fact, when.must_be.literal()?)));
        let alike = texts.filter_map(|text| by_text.get(&text)).flatten();
        let earlier = alike.chain(&others).copied();
        if let Some(first) = earlier
            .filter(|earlier| is_weaker(&rules[*earlier], rule))
            .min()
        {
            hidden.push((at, first));
        }
        let text = rule.when.iter().find_map(|when| match &when.must_be {
            Condition::Text(_) => Some((&*when.fact, when.must_be.literal()?)),
            _ => None,
        });
        match text {
            Some(text) => by_text.entry(text).or_default().push(at),
            None => others.push(at),
        }
    }
    hidden
}

/// True if each condition of `earlier` is implied by one of `later`.
fn is_weaker(earlier: &Rule<'_>, later: &Rule<'_>) -> bool {
    earlier.when.iter().all(|weaker| {
        let mut later = later.when.iter();
        later.any(|when| when.fact == weaker.fact && when.must_be.implies(&weaker.must_be))
    })
}
