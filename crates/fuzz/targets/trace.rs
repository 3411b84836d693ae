//! Fuzz target of `TRACEPARENT`.

use bolero::{TypeGenerator, check};
use cni::{Environment, TRACEPARENT, TraceContext};
use fuzz::{TEST_TIME, Text};

/// A value of the variable.
#[derive(Clone, Debug, TypeGenerator)]
struct Input(Text);

const SEEDS: &[&str] = &[
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-brings",
    "00-00000000000000000000000000000001-0000000000000001-00",
    "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
];

/// True if it is valid: by the places of its characters, as the specification's
/// version 00 has them.
fn is_valid(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hex = |from: usize, to: usize| {
        bytes.len() >= to
            && bytes[from..to]
                .iter()
                .all(|b| b"0123456789abcdef".contains(b))
    };
    let zero = |from: usize, to: usize| bytes[from..to].iter().all(|b| *b == b'0');
    let dash = |at: usize| bytes[at] == b'-';
    hex(0, 2)
        && hex(3, 35)
        && hex(36, 52)
        && hex(53, 55)
        && dash(2)
        && dash(35)
        && dash(52)
        && !zero(3, 35)
        && !zero(36, 52)
        && &bytes[..2] != b"ff"
        && (bytes.len() == 55 || &bytes[..2] != b"00" && dash(55))
}

#[test]
fn a_valid_one_is_kept_and_any_other_replaced_by_a_valid_one() {
    check!()
        .with_type::<Input>()
        .with_test_time(TEST_TIME)
        .for_each(|Input(text): &Input| {
            let text = text.of(SEEDS);
            let trace =
                TraceContext::of_call(&Environment::default().with(TRACEPARENT, text.clone()));
            assert!(is_valid(&trace.to_string()), "{trace}");
            assert_eq!(trace.trace_id().len(), 32);
            let kept = text.to_str() == Some(trace.to_string().as_str());
            assert_eq!(kept, text.to_str().is_some_and(is_valid), "{text:?}");
        });
}
