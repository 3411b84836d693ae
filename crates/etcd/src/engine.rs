//! The cluster's engine on etcd: each change is one transaction.

use cluster::{
    Change, Condition, EngineError, Found, Group, Key, Moment, Outcome, Read, Stored, TimeLimit,
};
use cni::Cancellation;

use crate::client::Client;
use crate::messages::{Compare, Compared, KeyValue, Op, Range, RangeAnswer, Txn};
use crate::{Cluster, Keys};

/// Number of keys in a page, with or without their values.
const PAGE: u32 = 1000;
const PAGE_OF_KEYS: u32 = 10_000;

/// The engine of one call. It connects with the first request.
pub struct Engine<'a> {
    /// The client, for requests that only etcd has.
    pub client: Client<'a>,
    keys: &'a Keys,
}

impl<'a> Engine<'a> {
    /// The engine of a call. Nothing is read and no connection is made before the first request.
    pub fn new(cluster: &'a Cluster, cancellation: Option<&'a dyn Cancellation>) -> Self {
        Self {
            client: Client::new(&cluster.settings, cancellation),
            keys: &cluster.keys,
        }
    }

    fn range(&self, read: &Read) -> Range {
        let key = |key: &Key| Range::key(self.keys.key(key));
        let group = |group: &Group| Range::prefix(self.keys.prefix(group));
        match read {
            Read::Get(one) => key(one),
            Read::Exists(one) => Range {
                count_only: true,
                ..key(one)
            },
            Read::First(first, most) => Range {
                keys_only: true,
                limit: (*most).into(),
                ..group(first)
            },
            Read::Oldest(oldest, most) => Range {
                // Ascending, by the revision of the last change.
                sort_order: 1,
                sort_target: 3,
                limit: (*most).into(),
                ..group(oldest)
            },
            Read::Count(counted) => Range {
                count_only: true,
                ..group(counted)
            },
        }
    }

    fn found(&self, answer: RangeAnswer) -> Found {
        Found {
            number: answer.count,
            objects: answer.kvs.into_iter().map(|kv| self.stored(kv)).collect(),
        }
    }

    fn stored(&self, kv: KeyValue) -> Stored {
        Stored {
            key: self.keys.parse(&kv.key),
            value: kv.value,
            revision: kv.mod_revision,
        }
    }

    fn compare(&self, condition: &Condition) -> Compare {
        let (key, prefix) = (|key| self.keys.key(key), |group| self.keys.prefix(group));
        let after = |revision: &i64| revision.saturating_add(1);
        match condition {
            Condition::Missing(of) => Compare::equal(key(of), Compared::CreateRevision(0)),
            Condition::Value(of, value) => Compare::equal(key(of), Compared::Value(value.clone())),
            Condition::Revision(of, at) => Compare::equal(key(of), Compared::ModRevision(*at)),
            Condition::Empty(of) => Compare::all_equal(prefix(of), Compared::CreateRevision(0)),
            Condition::NoneChangedSince(of, revision) => {
                Compare::all_less(prefix(of), Compared::ModRevision(after(revision)))
            }
            Condition::NoneCreatedSince(of, revision) => {
                Compare::all_less(prefix(of), Compared::CreateRevision(after(revision)))
            }
        }
    }
}

impl cluster::Engine for Engine<'_> {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn path(&self, key: &Key) -> String {
        self.keys.key(key)
    }

    fn time(&mut self) -> &mut TimeLimit {
        &mut self.client.time
    }

    fn moment(&self) -> Option<Moment> {
        self.client.moment()
    }

    fn read(&mut self, reads: &[Read]) -> Result<Vec<Found>, EngineError> {
        let txn = Txn::read(reads.iter().map(|read| self.range(read)));
        let answer = self.client.txn(&txn)?;
        Ok(answer
            .ranges
            .into_iter()
            .map(|range| self.found(range))
            .collect())
    }

    fn list(&mut self, group: &Group, with_values: bool) -> Result<Vec<Stored>, EngineError> {
        let page = if with_values { PAGE } else { PAGE_OF_KEYS };
        let mut all = Vec::new();
        let prefix = self.keys.prefix(group);
        for kv in self.client.all(&prefix, page, !with_values)? {
            let stored = self.stored(kv);
            if let Key::Foreign(key) = &stored.key {
                tracing::warn!(key, "this key isn't ours; it is left alone");
            }
            all.push(stored);
        }
        Ok(all)
    }

    fn commit(&mut self, change: &Change) -> Result<Outcome, EngineError> {
        let write = change.write.iter();
        let write = write.map(|(key, value)| Op::put(self.keys.key(key), value.as_slice()));
        let delete = change
            .delete
            .iter()
            .map(|key| Op::delete(self.keys.key(key)));
        let mut txn = Txn {
            when: change
                .conditions
                .iter()
                .map(|condition| self.compare(condition))
                .collect(),
            then: write.chain(delete).collect(),
            otherwise: change
                .otherwise
                .iter()
                .map(|read| Op::get(self.range(read)))
                .collect(),
        };
        if let (true, Some((key, _))) = (change.dry_run, change.write.first()) {
            // No revision reaches this number, so the condition never holds.
            let never = Compared::ModRevision(i64::MAX);
            txn.when.push(Compare::equal(self.keys.key(key), never));
        }
        let answer = self.client.txn(&txn)?;
        Ok(Outcome {
            done: answer.succeeded,
            resent: answer.resent,
            found: answer
                .ranges
                .into_iter()
                .map(|range| self.found(range))
                .collect(),
        })
    }
}
