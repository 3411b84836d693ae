//! Rules that are hidden by a rule before them: it holds whenever they do.

use std::collections::HashMap;

use crate::condition::Condition;

/// The conditions of a rule, each with the name of its fact.
pub(crate) type Conditions<'a> = Vec<(&'a str, Condition<'a>)>;

/// The hidden rules, by number, each with the first rule that hides it.
pub(crate) fn hidden(rules: &[Conditions<'_>]) -> Vec<(usize, usize)> {
    // A rule with a condition that is one text can hide only rules that name this text of
    // the same fact. Most rules have one, so that few have to be compared.
    let mut by_text: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    let mut others = Vec::new();
    let mut hidden = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let texts = rule
            .iter()
            .filter_map(|(fact, it)| Some((*fact, it.literal()?)));
        let alike = texts.filter_map(|text| by_text.get(&text)).flatten();
        let earlier = alike.chain(&others).copied();
        if let Some(first) = earlier.filter(|it| is_weaker(&rules[*it], rule)).min() {
            hidden.push((at, first));
        }
        let text = rule.iter().find_map(|(fact, it)| match it {
            Condition::Text(_) => Some((*fact, it.literal()?)),
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
fn is_weaker(earlier: &Conditions<'_>, later: &Conditions<'_>) -> bool {
    earlier.iter().all(|(fact, weaker)| {
        let mut later = later.iter();
        later.any(|(name, it)| name == fact && it.implies(weaker))
    })
}
