//! Requests and answers of etcd's key-value interface.

use crate::messages::{
    Compare, Compared, DeleteRequest, Op, PutRequest, Range, RangeAnswer, Request, Response, Txn,
    TxnResponse,
};

impl Range {
    /// One key.
    pub fn key(key: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            ..Self::default()
        }
    }

    /// The keys with this prefix, in ascending order.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        let key = prefix.into();
        let range_end = after_prefix(&key);
        Self::between(key, range_end)
    }

    /// The keys from `first` up to, but not including, `end`, in ascending order.
    pub fn between(first: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self {
            key: first.into(),
            range_end: end.into(),
            ..Self::default()
        }
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

impl Compare {
    /// The key has this revision or value. A missing key was created at revision 0.
    pub(crate) fn equal(key: impl Into<Vec<u8>>, compared: Compared) -> Self {
        Self {
            target: match compared {
                Compared::CreateRevision(_) => 1,
                Compared::ModRevision(_) => 2,
                Compared::Value(_) => 3,
            },
            key: key.into(),
            compared: Some(compared),
            ..Self::default()
        }
    }

    /// As [`Self::equal`], for all keys with this prefix.
    pub(crate) fn all_equal(prefix: impl Into<Vec<u8>>, compared: Compared) -> Self {
        let first = Self::equal(prefix, compared);
        Self {
            range_end: after_prefix(&first.key),
            ..first
        }
    }

    /// The revision of each existing key with this prefix is less than this one. Deleted keys
    /// don't count.
    pub(crate) fn all_less(prefix: impl Into<Vec<u8>>, compared: Compared) -> Self {
        Self {
            result: 2,
            ..Self::all_equal(prefix, compared)
        }
    }
}

impl Op {
    fn new(request: Request) -> Self {
        Self {
            request: Some(request),
        }
    }

    /// Sets a key's value.
    pub fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self::new(Request::Put(PutRequest {
            key: key.into(),
            value: value.into(),
        }))
    }

    /// Deletes a key. A missing one is no error.
    pub fn delete(key: impl Into<Vec<u8>>) -> Self {
        Self::new(Request::Delete(DeleteRequest { key: key.into() }))
    }

    /// Reads keys.
    pub fn get(range: Range) -> Self {
        Self::new(Request::Range(range))
    }

    fn only_reads(&self) -> bool {
        matches!(self.request, Some(Request::Range(_)))
    }
}

impl Txn {
    /// A transaction that only reads.
    pub fn read(ranges: impl IntoIterator<Item = Range>) -> Self {
        Self {
            then: ranges.into_iter().map(Op::get).collect(),
            ..Self::default()
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
            .filter_map(|operation| operation.response)
            .map(|Response::Range(range)| range)
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
    use crate::messages::ResponseOp;

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
        let answer = |succeeded, responses: &[Option<Response>]| {
            let operation = |response: &Option<Response>| ResponseOp {
                response: response.clone(),
            };
            let response = TxnResponse {
                succeeded,
                responses: responses.iter().map(operation).collect(),
                ..TxnResponse::default()
            };
            TxnAnswer::new(&txn, response, false).map(|answer| answer.ranges.len())
        };
        let read = || Some(Response::Range(RangeAnswer::default()));
        assert_eq!(answer(true, &[read(), read()]), Some(2));
        assert_eq!(answer(true, &[read()]), None);
        assert_eq!(answer(false, &[read()]), None);
        // The answer to a deletion, of which nothing is decoded.
        assert_eq!(answer(false, &[None]), Some(0));
    }

    #[test]
    fn only_a_transaction_without_changes_only_reads() {
        let mut txn = Txn::read([Range::key("a")]);
        assert!(txn.only_reads());
        txn.otherwise.push(Op::delete("a"));
        assert!(!txn.only_reads());
    }
}
