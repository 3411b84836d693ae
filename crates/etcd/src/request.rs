//! Requests and answers of etcd's key-value interface.

use crate::messages::{
    CompareRequest, Compared, DeleteRequest, KeyValue, PutRequest, RangeRequest, RangeResponse,
    Request, RequestOp, Response, TxnRequest, TxnResponse,
};

/// Keys to read: one, or those of an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Range(pub(crate) RangeRequest);

impl Range {
    /// One key.
    pub fn key(key: impl Into<Vec<u8>>) -> Self {
        Self(RangeRequest {
            key: key.into(),
            ..RangeRequest::default()
        })
    }

    /// The keys with this prefix, in ascending order.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        let key = prefix.into();
        let range_end = after_prefix(&key);
        Self::between(key, range_end)
    }

    /// The keys from `first` up to, but not including, `end`, in ascending order.
    pub fn between(first: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self(RangeRequest {
            key: first.into(),
            range_end: end.into(),
            ..RangeRequest::default()
        })
    }

    /// Limits the number of keys.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.0.limit = limit.into();
        self
    }

    /// Sorts by the revision of the last change, the oldest first.
    #[must_use]
    pub fn oldest_first(mut self) -> Self {
        (self.0.sort_order, self.0.sort_target) = (1, 3);
        self
    }

    /// Without the values.
    #[must_use]
    pub fn keys_only(mut self) -> Self {
        self.0.keys_only = true;
        self
    }

    /// Only the number of keys.
    #[must_use]
    pub fn count_only(mut self) -> Self {
        self.0.count_only = true;
        self
    }
}

/// The first key after all keys with `prefix`. If there is none, a zero byte, which means "no end"
/// to etcd.
pub(crate) fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

/// Keys that were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeAnswer {
    /// The keys.
    pub kvs: Vec<KeyValue>,
    /// True if the limit has omitted some keys.
    pub more: bool,
    /// Number of all matching keys, regardless of the limit.
    pub count: u64,
}

impl From<RangeResponse> for RangeAnswer {
    fn from(response: RangeResponse) -> Self {
        Self {
            kvs: response.kvs,
            more: response.more,
            count: u64::try_from(response.count).unwrap_or_default(),
        }
    }
}

/// A condition of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Compare(CompareRequest);

impl Compare {
    /// The key doesn't exist.
    pub fn is_missing(key: impl Into<Vec<u8>>) -> Self {
        Self::equal(key, 1, Compared::CreateRevision(0))
    }

    /// No key has this prefix.
    pub fn none_starts_with(prefix: impl Into<Vec<u8>>) -> Self {
        Self::all_below(prefix, 0, 1, Compared::CreateRevision(0))
    }

    /// No existing key with this prefix was changed after `revision`. Deleted keys don't count.
    pub fn none_changed_since(prefix: impl Into<Vec<u8>>, revision: i64) -> Self {
        let compared = Compared::ModRevision(revision.saturating_add(1));
        Self::all_below(prefix, 2, 2, compared)
    }

    /// No existing key with this prefix was created after `revision`. Deleted keys don't count.
    pub fn none_created_since(prefix: impl Into<Vec<u8>>, revision: i64) -> Self {
        let compared = Compared::CreateRevision(revision.saturating_add(1));
        Self::all_below(prefix, 2, 1, compared)
    }

    /// The key exists, and was changed last at this revision.
    pub fn mod_revision(key: impl Into<Vec<u8>>, revision: i64) -> Self {
        Self::equal(key, 2, Compared::ModRevision(revision))
    }

    /// The key exists, and has this value.
    pub fn value(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self::equal(key, 3, Compared::Value(value.into()))
    }

    /// A condition that never holds, to learn whether etcd would accept a transaction.
    pub fn never(key: impl Into<Vec<u8>>) -> Self {
        // No revision reaches this number.
        Self::mod_revision(key, i64::MAX)
    }

    fn equal(key: impl Into<Vec<u8>>, target: i32, compared: Compared) -> Self {
        Self(CompareRequest {
            result: 0,
            target,
            key: key.into(),
            compared: Some(compared),
            range_end: Vec::new(),
        })
    }

    fn all_below(prefix: impl Into<Vec<u8>>, result: i32, target: i32, compared: Compared) -> Self {
        let mut all = Self::equal(prefix, target, compared);
        all.0.result = result;
        all.0.range_end = after_prefix(&all.0.key);
        all
    }
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Op(Request);

impl Op {
    /// Sets a key's value.
    pub fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self(Request::Put(PutRequest {
            key: key.into(),
            value: value.into(),
        }))
    }

    /// Deletes a key. A missing one is no error.
    pub fn delete(key: impl Into<Vec<u8>>) -> Self {
        Self(Request::Delete(DeleteRequest {
            key: key.into(),
            range_end: Vec::new(),
        }))
    }

    /// Reads keys.
    pub fn get(range: Range) -> Self {
        Self(Request::Range(range.0))
    }

    fn only_reads(&self) -> bool {
        matches!(self.0, Request::Range(_))
    }
}

/// A transaction: if all conditions hold, etcd executes `then`, otherwise `otherwise`, atomically.
/// etcd accepts 128 operations in a branch by default (`--max-txn-ops`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Txn {
    /// The conditions. Without conditions, `then` is executed.
    pub when: Vec<Compare>,
    /// Executed if all hold.
    pub then: Vec<Op>,
    /// Executed otherwise.
    pub otherwise: Vec<Op>,
}

impl Txn {
    /// A transaction that only reads.
    pub fn read(ranges: impl IntoIterator<Item = Range>) -> Self {
        Self {
            then: ranges.into_iter().map(Op::get).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn to_request(&self) -> TxnRequest {
        let operation = |op: &Op| RequestOp {
            request: Some(op.0.clone()),
        };
        TxnRequest {
            compare: self.when.iter().map(|compare| compare.0.clone()).collect(),
            success: self.then.iter().map(operation).collect(),
            failure: self.otherwise.iter().map(operation).collect(),
        }
    }

    /// True if neither branch changes anything.
    pub(crate) fn only_reads(&self) -> bool {
        self.then.iter().chain(&self.otherwise).all(Op::only_reads)
    }
}

/// The outcome of a transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxnAnswer {
    /// True if all conditions held.
    pub succeeded: bool,
    /// Answers to the reads of the branch that was executed, in order.
    pub ranges: Vec<RangeAnswer>,
    /// True if the transaction was sent more than once: an earlier attempt may have been applied.
    pub resent: bool,
}

impl TxnAnswer {
    /// `None` if the response doesn't answer each read of the branch.
    pub(crate) fn new(txn: &Txn, response: TxnResponse, resent: bool) -> Option<Self> {
        let branch = match response.succeeded {
            true => &txn.then,
            false => &txn.otherwise,
        };
        let reads = branch.iter().filter(|op| op.only_reads()).count();
        let ranges = response.responses.into_iter();
        let ranges: Vec<RangeAnswer> = ranges
            .filter_map(|operation| match operation.response {
                Some(Response::Range(range)) => Some(range.into()),
                _ => None,
            })
            .collect();
        (ranges.len() == reads).then_some(Self {
            succeeded: response.succeeded,
            ranges,
            resent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{DeleteResponse, ResponseOp};

    #[test]
    fn a_prefix_ends_before_the_first_key_that_starts_otherwise() {
        assert_eq!(after_prefix(b"/a/"), b"/a0");
        assert_eq!(after_prefix(b"a\xff\xff"), b"b");
        assert_eq!(after_prefix(b"\xff"), b"\0");
    }

    #[test]
    fn a_response_answers_each_read_of_its_branch() {
        let mut txn = Txn::read([Range::key("a"), Range::key("b")]);
        txn.otherwise.push(Op::delete("a"));
        let answer = |succeeded, responses: &[Response]| {
            let operation = |response: &Response| ResponseOp {
                response: Some(response.clone()),
            };
            let response = TxnResponse {
                succeeded,
                responses: responses.iter().map(operation).collect(),
                ..TxnResponse::default()
            };
            TxnAnswer::new(&txn, response, false).map(|answer| answer.ranges.len())
        };
        let read = || Response::Range(RangeResponse::default());
        assert_eq!(answer(true, &[read(), read()]), Some(2));
        assert_eq!(answer(true, &[read()]), None);
        assert_eq!(answer(false, &[read()]), None);
        let deleted = Response::Delete(DeleteResponse::default());
        assert_eq!(answer(false, &[deleted]), Some(0));
    }

    #[test]
    fn only_a_transaction_without_changes_only_reads() {
        let mut txn = Txn::read([Range::key("a")]);
        assert!(txn.only_reads());
        txn.otherwise.push(Op::delete("a"));
        assert!(!txn.only_reads());
    }
}
