//! The messages of etcd's gRPC interface that the client uses, after etcd's `rpc.proto` and
//! `kv.proto`. Unused fields are omitted; the decoder skips them. The fields of a `oneof` are
//! optional ones, which is the same on the wire.

use prost::Message;

/// A key with its value.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// Revision of its creation.
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    /// The value; empty if only keys were requested.
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

/// Keys to read: one, or those of an interval.
#[derive(Clone, PartialEq, Message)]
pub struct Range {
    /// The key, or the first one of the interval.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The end of the interval, which isn't in it; empty for one key.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// Largest number of keys; 0 is no limit.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// As the member that answers has them, which may lack the latest writes.
    #[prost(bool, tag = "7")]
    pub serializable: bool,
    /// Without the values.
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
}

/// State of the cluster. A server whose answer has none isn't etcd.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
}

/// Keys that were read.
#[derive(Clone, PartialEq, Message)]
pub struct RangeAnswer {
    /// The keys, in ascending order.
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    /// True if the limit has omitted some keys.
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
}

/// One operation of a transaction: only one of these is set.
#[derive(Clone, PartialEq, Message)]
pub struct Op {
    #[prost(message, optional, tag = "1")]
    pub(crate) range: Option<Range>,
    #[prost(message, optional, tag = "2")]
    pub(crate) put: Option<PutRequest>,
    #[prost(message, optional, tag = "3")]
    pub(crate) delete: Option<DeleteRequest>,
}

/// A condition of a transaction: a key, or each of an interval, has this creation or this value.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    /// 0 is "equal", which is not sent, 2 is "less".
    #[prost(int32, tag = "1")]
    pub(crate) result: i32,
    /// 1 is the revision of the creation, 3 the value.
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) key: Vec<u8>,
    #[prost(int64, optional, tag = "5")]
    pub(crate) create_revision: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "7")]
    pub(crate) value: Option<Vec<u8>>,
    /// As [`Range::range_end`].
    #[prost(bytes = "vec", tag = "64")]
    pub(crate) range_end: Vec<u8>,
}

/// A transaction: if all conditions hold, etcd executes the operations, atomically. etcd accepts
/// 128 of them by default (`--max-txn-ops`).
#[derive(Clone, PartialEq, Message)]
pub struct Txn {
    /// The conditions.
    #[prost(message, repeated, tag = "1")]
    pub when: Vec<Compare>,
    /// Executed if all hold.
    #[prost(message, repeated, tag = "2")]
    pub then: Vec<Op>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnAnswer {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub(crate) range: Option<RangeAnswer>,
}

impl Range {
    /// One key.
    pub fn key(key: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            ..Self::default()
        }
    }

    /// The keys with this prefix.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        let key = prefix.into();
        let mut range_end = key.clone();
        // No prefix of ours ends with the highest byte.
        if let Some(last) = range_end.last_mut() {
            *last += 1;
        }
        Self {
            key,
            range_end,
            ..Self::default()
        }
    }

    /// The same keys without their values.
    #[must_use]
    pub fn without_values(self) -> Self {
        Self {
            keys_only: true,
            ..self
        }
    }
}

impl Compare {
    /// The key doesn't exist.
    pub fn is_missing(key: impl Into<Vec<u8>>) -> Self {
        Self {
            target: 1,
            key: key.into(),
            create_revision: Some(0),
            ..Self::default()
        }
    }

    /// No key of this range was created after this revision.
    pub fn has_none_after(range: Range, revision: u64) -> Self {
        let next = i64::try_from(revision).map_or(i64::MAX, |revision| revision + 1);
        Self {
            result: 2,
            target: 1,
            key: range.key,
            range_end: range.range_end,
            create_revision: Some(next),
            value: None,
        }
    }

    /// The key has this value.
    pub fn has_value(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self {
            target: 3,
            key: key.into(),
            value: Some(value.into()),
            ..Self::default()
        }
    }
}

impl Op {
    /// Sets a key's value.
    pub fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        let (key, value) = (key.into(), value.into());
        Self {
            put: Some(PutRequest { key, value }),
            ..Self::default()
        }
    }

    /// Deletes a key. A missing one is no error.
    pub fn delete(key: impl Into<Vec<u8>>) -> Self {
        Self {
            delete: Some(DeleteRequest { key: key.into() }),
            ..Self::default()
        }
    }

    /// Reads keys.
    pub fn get(range: Range) -> Self {
        Self {
            range: Some(range),
            ..Self::default()
        }
    }
}
