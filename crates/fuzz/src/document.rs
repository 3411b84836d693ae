//! Nearly valid JSON documents: a seed with changes.

use bolero::TypeGenerator;
use serde_json::Value;

use crate::{Edit, Fragment, Word};

/// A seed document with changes: first to its values, then, in some inputs, to its
/// bytes.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Document {
    seed: u8,
    #[generator(bolero::produce::<Vec<Change>>().with().len(0usize..=4))]
    changes: Vec<Change>,
    /// With most values, the bytes stay as they are: what is broken as JSON gets
    /// no further.
    torn: u8,
    #[generator(Edit::several(3))]
    edits: Vec<Edit>,
}

/// A change to a value. Places count all values of the document, and are taken
/// modulo their number.
#[derive(Clone, Debug, TypeGenerator)]
enum Change {
    /// Another value there.
    Replace(u16, Fragment),
    /// The value is removed.
    Remove(u16),
    /// One more member, or element.
    Add(u16, Word, Fragment),
    /// The same under another key.
    Rename(u16, Word),
    /// A copy of one value in the place of another.
    Copy(u16, u16),
    /// One more element that is the same.
    Repeat(u16),
}

impl Document {
    /// The bytes of it, made of one of these documents.
    pub fn of(&self, seeds: &[Value]) -> Vec<u8> {
        let mut value = seeds[usize::from(self.seed) % seeds.len()].clone();
        for change in &self.changes {
            change.apply(&mut value);
        }
        let mut bytes = Fragment::json(&value);
        if self.torn.is_multiple_of(8) {
            for edit in &self.edits {
                edit.apply(&mut bytes);
            }
        }
        bytes
    }
}

impl Change {
    fn apply(&self, value: &mut Value) {
        let all = pointers(value);
        let pointer = |at: u16| all[usize::from(at) % all.len()].as_str();
        match self {
            Self::Replace(at, fragment) => put(value, pointer(*at), fragment.value()),
            Self::Remove(at) => drop(take(value, pointer(*at))),
            Self::Add(at, word, fragment) => match value.pointer_mut(pointer(*at)) {
                Some(Value::Object(members)) => {
                    members.insert(word.text(), fragment.value());
                }
                Some(Value::Array(elements)) => elements.push(fragment.value()),
                _ => {}
            },
            Self::Rename(at, word) => {
                let pointer = pointer(*at);
                let (parent, _) = pointer.rsplit_once('/').unwrap_or_default();
                if let (Some(it), Some(Value::Object(members))) =
                    (take(value, pointer), value.pointer_mut(parent))
                {
                    members.insert(word.text(), it);
                }
            }
            Self::Copy(from, to) => {
                let copy = value.pointer(pointer(*from)).cloned().unwrap_or_default();
                put(value, pointer(*to), copy);
            }
            Self::Repeat(at) => {
                let pointer = pointer(*at);
                let (parent, _) = pointer.rsplit_once('/').unwrap_or_default();
                let copy = value.pointer(pointer).cloned().unwrap_or_default();
                if let Some(Value::Array(elements)) = value.pointer_mut(parent) {
                    elements.push(copy);
                }
            }
        }
    }
}

fn put(value: &mut Value, pointer: &str, new: Value) {
    if let Some(place) = value.pointer_mut(pointer) {
        *place = new;
    }
}

fn take(value: &mut Value, pointer: &str) -> Option<Value> {
    let (parent, key) = pointer.rsplit_once('/')?;
    match value.pointer_mut(parent)? {
        Value::Object(members) => members.remove(&key.replace("~1", "/").replace("~0", "~")),
        Value::Array(elements) => Some(elements.remove(key.parse().ok()?)),
        _ => None,
    }
}

/// The JSON pointers of all values, from the outermost on.
fn pointers(value: &Value) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut at = 0;
    while let Some(pointer) = all.get(at).cloned() {
        match value.pointer(&pointer) {
            Some(Value::Object(members)) => all.extend(members.keys().map(|key| {
                let key = key.replace('~', "~0").replace('/', "~1");
                format!("{pointer}/{key}")
            })),
            Some(Value::Array(elements)) => {
                all.extend((0..elements.len()).map(|i| format!("{pointer}/{i}")));
            }
            _ => {}
        }
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_reach_every_value() {
        let seed = json!({"a": [1, {"b/c": 2}]});
        let changed = |change: Change| {
            let mut value = seed.clone();
            change.apply(&mut value);
            value
        };
        assert_eq!(pointers(&seed), ["", "/a", "/a/0", "/a/1", "/a/1/b~1c"]);
        assert_eq!(
            changed(Change::Replace(4, Fragment::Null)),
            json!({"a": [1, {"b/c": null}]})
        );
        assert_eq!(changed(Change::Remove(4)), json!({"a": [1, {}]}));
        assert_eq!(changed(Change::Remove(2)), json!({"a": [{"b/c": 2}]}));
        assert_eq!(
            changed(Change::Rename(4, Word::Number(5))),
            json!({"a": [1, {"5": 2}]})
        );
        assert_eq!(changed(Change::Copy(2, 1)), json!({"a": 1}));
        assert_eq!(changed(Change::Repeat(2)), json!({"a": [1, {"b/c": 2}, 1]}));
    }
}
