//! Encodes and decodes messages of `prost` for `tonic`.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Codec for requests `Q` and answers `A`.
pub(crate) struct Messages<Q, A>(PhantomData<(Q, A)>);

/// Encoder or decoder of messages `T`.
pub(crate) struct Direction<T>(PhantomData<T>);

impl<Q, A> Default for Messages<Q, A> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Q: Message + 'static, A: Message + Default + 'static> Codec for Messages<Q, A> {
    type Encode = Q;
    type Decode = A;
    type Encoder = Direction<Q>;
    type Decoder = Direction<A>;

    fn encoder(&mut self) -> Direction<Q> {
        Direction(PhantomData)
    }

    fn decoder(&mut self) -> Direction<A> {
        Direction(PhantomData)
    }
}

impl<Q: Message> Encoder for Direction<Q> {
    type Item = Q;
    type Error = Status;

    fn encode(&mut self, message: Q, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message
            .encode(into)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

impl<A: Message + Default> Decoder for Direction<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        let message = A::decode(from);
        message
            .map(Some)
            .map_err(|error| Status::internal(error.to_string()))
    }
}
