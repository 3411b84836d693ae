use serde_json::{Value, json};

use super::*;

fn verified(result: &Value) -> Result<(), Error> {
    verify(
        "result",
        &serde_json::from_str(&result.to_string()).unwrap(),
    )
}

/// A valid value of a type.
fn valid(of: FieldType) -> Value {
    match of {
        Text => json!("x"),
        Integer => json!(7),
        Address => json!("10.0.0.1"),
        Subnet | NeededSubnet => json!("10.0.0.2/24"),
    }
}

/// Values that Go's decoder refuses for a type.
fn wrong(of: FieldType) -> Vec<&'static str> {
    let all = ["true", "[]", "{}", r#"["x"]"#];
    let more: &[&str] = match of {
        Text => &["7", "1.5"],
        Integer => &[
            r#""1400""#,
            r#""main""#,
            r#""""#,
            "1400.0",
            "1e3",
            "9223372036854775808",
        ],
        Address => &["7", r#""x""#, r#""10.0.0.1/24""#, r#""10.0.0""#],
        Subnet | NeededSubnet => &[
            "7",
            r#""x""#,
            r#""""#,
            "null",
            r#""10.0.0.2""#,
            r#""10.0.0.2/33""#,
            r#""10.0.0.2/+8""#,
        ],
    };
    all.iter().chain(more).copied().collect()
}

#[test]
fn a_wrong_value_of_each_field_is_refused_by_its_key() {
    for (list, fields) in LISTS {
        for (key, of) in fields {
            let result = |value: &Value| {
                let mut entry = json!({});
                for (key, of) in fields {
                    entry[key] = valid(*of);
                }
                entry[key] = value.clone();
                json!({ list: [entry] })
            };
            assert_eq!(verified(&result(&valid(*of))), Ok(()));
            for value in wrong(*of) {
                let placed = result(&json!("HERE"))
                    .to_string()
                    .replace("\"HERE\"", value);
                let refused = verify("result", &serde_json::from_str(&placed).unwrap());
                let error = refused.expect_err(&placed);
                assert_eq!(error.code, crate::code::INVALID_CONFIG);
                let place = format!("result.{list}[0].{key}");
                assert!(error.msg.starts_with(&place), "{placed}: {error}");
            }
        }
    }
}

#[test]
fn an_entry_of_ips_without_an_address_is_refused() {
    let error = verified(&json!({"ips": [{"gateway": "10.0.0.1"}]})).unwrap_err();
    assert_eq!(error.msg, "result.ips[0].address is missing");
}

#[test]
fn a_wrong_value_of_each_list_and_of_dns_is_refused_by_its_key() {
    let lists = LISTS.map(|(list, _)| list).into_iter().chain(["dns"]);
    for list in lists.chain(["cniVersion"]) {
        for value in [json!(7), json!(true), json!([7])] {
            let error = verified(&json!({ list: value })).expect_err(list);
            assert!(error.msg.starts_with(&format!("result.{list}")), "{error}");
        }
        assert_eq!(verified(&json!({ list: null })), Ok(()));
    }
    for key in ["nameservers", "domain", "search", "options"] {
        for value in [json!(7), json!({}), json!([7])] {
            let error = verified(&json!({"dns": {key: value}})).expect_err(key);
            assert!(
                error.msg.starts_with(&format!("result.dns.{key}")),
                "{error}"
            );
        }
    }
}

#[test]
fn what_go_accepts_is_accepted() {
    let route = json!({"dst": "::/0", "gw": "", "MTU": null, "table": 254, "scope": -1, "x": "y"});
    let ip = json!({"Address": "10.0.0.2/24", "gateway": null, "interface": null, "version": "4"});
    assert_eq!(verified(&json!({"ips": [ip], "routes": [route]})), Ok(()));
}
