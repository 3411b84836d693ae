//! Fuzz target of the file that `ipam.resolvConf` names.

use std::fs;

use bolero::{TypeGenerator, check};
use fuzz::{Bytes, Sandbox, TEST_TIME, Variables, call};
use serde_json::{Value, json};

/// The content of the file.
#[derive(Clone, Debug, TypeGenerator)]
struct Input(Bytes);

const SEEDS: &[&str] = &[
    "",
    "# made by hand\nnameserver 10.0.0.1\nnameserver fd00::1\nsearch a.example b.example\n",
    "domain a.example\r\noptions ndots:2 rotate\r\n; end\r\nsortlist 10.0.0.0\nnameserver\n",
];

/// What the lines say: the words after each keyword.
fn dns(text: &str) -> Value {
    let mut dns = json!({});
    let lines = text
        .split('\n')
        .map(|line| line.split_whitespace().collect());
    for words in lines.collect::<Vec<Vec<&str>>>() {
        match words.as_slice() {
            [first, ..] if first.starts_with(['#', ';']) => {}
            ["domain", domain, ..] => dns["domain"] = json!(domain),
            ["nameserver", server, ..] => append(&mut dns["nameservers"], &[server]),
            ["search", domains @ ..] => append(&mut dns["search"], domains),
            ["options", options @ ..] => append(&mut dns["options"], options),
            _ => {}
        }
    }
    dns.as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    dns
}

fn append(list: &mut Value, words: &[&str]) {
    let all = list.as_array().cloned().unwrap_or_default();
    let more = words.iter().map(|word| json!(word));
    let all: Vec<Value> = all.into_iter().chain(more).collect();
    *list = if all.is_empty() {
        Value::Null
    } else {
        all.into()
    };
}

#[test]
fn any_content_is_read_and_the_result_has_what_its_lines_say() {
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
            // What the input before this one was given.
            call(plugin, &add.clone().with("CNI_COMMAND", "DEL"), &config);
            let outcome = call(plugin, &add, &config);
            let result = outcome.result().unwrap_or_else(|| panic!("{outcome:?}"));
            assert_eq!(result["dns"], dns(&String::from_utf8_lossy(&content)));
        });
}
