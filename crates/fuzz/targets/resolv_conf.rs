//! Fuzz target of the file that `ipam.resolvConf` names.

use std::{fs, slice};

use bolero::{TypeGenerator, check};
use fuzz::{Bytes, Sandbox, TEST_TIME, Variables, call};
use serde_json::json;

/// The content of the file.
#[derive(Clone, Debug, TypeGenerator)]
struct Input(Bytes);

const SEEDS: &[&str] = &[
    "",
    "# made by hand\nnameserver 10.0.0.1\nnameserver fd00::1\nsearch a.example b.example\n",
    "domain a.example\r\noptions ndots:2 rotate\r\n; end\r\nsortlist 10.0.0.0\nnameserver\n",
];

#[test]
fn any_content_is_read_and_the_result_has_only_words_of_it() {
    let sandbox = Sandbox::new();
    let config = json!({"cniVersion": "1.0.0", "name": "n", "ipam": {"resolvConf": "plain"},
        "prevResult": {"pools": [{"subnet": "10.0.0.0/29"}]}});
    let config = sandbox.confine(serde_json::to_vec(&config).unwrap());
    let plugin = &ipam_da_host_local::IpamDaHostLocal;
    check!()
        .with_type::<Input>()
        .with_test_time(TEST_TIME)
        .for_each(|Input(content): &Input| {
            let content = content.of(SEEDS);
            fs::write(sandbox.resolv_conf(), &content).unwrap();
            let add = Variables::new("ADD", &sandbox.plugins());
            // Releases the address of the input before this one.
            call(plugin, &add.clone().with("CNI_COMMAND", "DEL"), &config);
            let outcome = call(plugin, &add, &config);
            let result = outcome.result().unwrap_or_else(|| panic!("{outcome:?}"));
            // The unit tests cover the parsing. Here, each word must occur in the file.
            let content = String::from_utf8_lossy(&content);
            for value in result["dns"].as_object().unwrap().values() {
                let list = value
                    .as_array()
                    .map_or(slice::from_ref(value), Vec::as_slice);
                for word in list {
                    let word = word.as_str().unwrap();
                    assert!(
                        content.split_whitespace().any(|found| found == word),
                        "{word:?}"
                    );
                }
            }
        });
}
