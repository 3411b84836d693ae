//! Fuzz target of `CNI_ARGS`.

use bolero::{TypeGenerator, check};
use fuzz::{Sandbox, TEST_TIME, Text, Variables, call};
use ipam::Pool;

/// A value of the variable.
#[derive(Clone, Debug, TypeGenerator)]
struct Input(Text);

const SEEDS: &[&str] = &[
    "",
    "IP=10.0.0.3",
    "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=p",
    "IP=10.0.0.3/29;IgnoreUnknown=false;IP=10.0.0.4",
];

#[test]
fn the_selector_requests_only_what_stands_there_or_refuses_with_code_4_or_7() {
    let config =
        br#"{"cniVersion":"1.0.0","name":"n","ipam":{"ranges":[[{"subnet":"10.0.0.0/29"}]]}}"#;
    let sandbox = Sandbox::new();
    let add = Variables::new("ADD", &sandbox.plugins());
    check!()
        .with_type::<Input>()
        .with_test_time(TEST_TIME)
        .for_each(|Input(text): &Input| {
            let text = text.of(SEEDS);
            let variables = add.clone().with("CNI_ARGS", &text);
            let outcome = call(&ipam_ds_ranges::IpamDsRanges, &variables, config);
            match outcome.result() {
                Some(result) => {
                    // The unit tests cover the parsing. Here, a requested address must
                    // occur in the text and belong to the pool.
                    let text = text.to_str().expect("a result of text only");
                    if let Some(ip) = result["pools"][0]["requested-ip"].as_str() {
                        let last_byte = ip.strip_prefix("10.0.0.").expect("an address of the pool");
                        assert!(text.contains("IP=") && text.contains(last_byte), "{text:?}");
                        let pool = serde_json::from_value(result["pools"][0].clone()).unwrap();
                        // The allocator refuses the gateway.
                        let is_gateway = last_byte == "1";
                        assert_eq!(Pool::read("pool", pool).is_err(), is_gateway, "{text:?}");
                    }
                }
                None => assert!(matches!(outcome.code(), Some(4 | 7)), "{text:?}"),
            }
        });
}
