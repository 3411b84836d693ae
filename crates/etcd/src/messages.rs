//! The messages of etcd's gRPC interface that the client uses, after etcd's `rpc.proto` and
//! `kv.proto`. Unused fields are omitted; the decoder skips them.

use prost::{Message, Oneof};

/// A key with its value.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// Revision of the key's creation.
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    /// Revision of the last change. Each revision belongs to one transaction.
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// The value; empty if only keys were requested.
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

/// An answer of etcd. A server whose answer has no header isn't etcd.
pub(crate) trait Answer: Message + Default + 'static {
    /// The state of the cluster.
    fn header(&self) -> Option<&Header>;
}

macro_rules! answers {
    ($($answer:ty),+) => {
        $(impl Answer for $answer {
            fn header(&self) -> Option<&Header> {
                self.header.as_ref()
            }
        })+
    };
}

answers!(AuthenticateResponse, RangeAnswer, TxnResponse);

/// Keys to read: one, or those of an interval.
#[derive(Clone, PartialEq, Message)]
pub struct Range {
    /// The key, or the first one of the interval.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The end of the interval, which isn't in it.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// Largest number of keys; 0 is no limit.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// 0 is "none", 1 "ascending", 2 "descending".
    #[prost(int32, tag = "5")]
    pub sort_order: i32,
    /// 0 is the key, 3 the revision of the last change.
    #[prost(int32, tag = "6")]
    pub sort_target: i32,
    /// Without the values.
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    /// Only the number of keys.
    #[prost(bool, tag = "9")]
    pub count_only: bool,
}

/// Keys that were read.
#[derive(Clone, PartialEq, Message)]
pub struct RangeAnswer {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    /// The keys.
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    /// True if the limit has omitted some keys.
    #[prost(bool, tag = "3")]
    pub more: bool,
    /// Number of all matching keys, regardless of the limit. etcd's is signed, and never negative.
    #[prost(uint64, tag = "4")]
    pub count: u64,
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

/// One operation of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct Op {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub(crate) request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Request {
    #[prost(message, tag = "1")]
    Range(Range),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp {
    #[prost(oneof = "Response", tags = "1")]
    pub(crate) response: Option<Response>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Response {
    #[prost(message, tag = "1")]
    Range(RangeAnswer),
}

/// A condition of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    /// 0 is "equal", 1 "greater", 2 "less".
    #[prost(int32, tag = "1")]
    pub(crate) result: i32,
    /// 1 is the revision of the creation, 2 that of the last change, 3 the value.
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) key: Vec<u8>,
    #[prost(oneof = "Compared", tags = "5, 6, 7")]
    pub(crate) compared: Option<Compared>,
    #[prost(bytes = "vec", tag = "64")]
    pub(crate) range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Compared {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(bytes = "vec", tag = "7")]
    Value(Vec<u8>),
}

/// A transaction: if all conditions hold, etcd executes `then`, otherwise `otherwise`, atomically.
/// etcd accepts 128 operations in a branch by default (`--max-txn-ops`).
#[derive(Clone, PartialEq, Message)]
pub struct Txn {
    /// The conditions. Without conditions, `then` is executed.
    #[prost(message, repeated, tag = "1")]
    pub when: Vec<Compare>,
    /// Executed if all hold.
    #[prost(message, repeated, tag = "2")]
    pub then: Vec<Op>,
    /// Executed otherwise.
    #[prost(message, repeated, tag = "3")]
    pub otherwise: Vec<Op>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}
