//! The network configuration on a plugin's stdin: a typed view, and the original
//! bytes.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::excerpt::Excerpt;
use crate::{Attachment, Error, IpamResult, NetworkName, Object, SpecVersion, code, is_field};

/// The key of the result before this plugin's.
const PREV_RESULT: &str = "prevResult";

/// The key under which a runtime lists the attachments that GC must keep.
const VALID_ATTACHMENTS: &str = "cni.dev/valid-attachments";

/// A plugin's configuration object. Specification, sections 1 and 3.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// The text as it came; that of a derived configuration is written when it is needed.
    text: OnceLock<String>,
    object: Object,
    version: SpecVersion,
    name: NetworkName,
}

impl NetworkConfig {
    /// Reads the configuration that a runtime wrote to stdin.
    ///
    /// # Errors
    ///
    /// Code 6 for anything but a JSON object, code 7 for a wrong or missing `name`,
    /// code 1 for a `cniVersion` that isn't supported.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, Error> {
        let (text, object) = decode(bytes)?;
        let name = name(&object)?;
        let version = version(&object)?;
        Ok(Self {
            text: text.into(),
            object,
            version,
            name,
        })
    }

    /// Reads the configuration of a DEL or GC. A mistake that somebody has made since the ADD must
    /// not keep an address: of two spellings of a key, the last one counts, and an unusable
    /// `cniVersion` is replaced with the newest.
    ///
    /// # Errors
    ///
    /// Code 6 for anything but a JSON object, code 7 for a wrong or missing `name`.
    pub fn parse_to_release(bytes: Vec<u8>) -> Result<Self, Error> {
        let (text, object) = decode(bytes)?;
        let object = object.lenient();
        let mut config = Self {
            name: name(&object)?,
            text: text.into(),
            version: SpecVersion::LATEST,
            object,
        };
        match version(&config.object) {
            Ok(version) => config.version = version,
            Err(_) => config = config.in_version(SpecVersion::LATEST),
        }
        Ok(config)
    }

    /// The configuration of an ADD, for its DEL: as of [`Self::parse_to_release`].
    #[must_use]
    pub fn to_release(self) -> Self {
        Self {
            object: self.object.lenient(),
            ..self
        }
    }

    /// The configuration as it came, or, of a derived one, with nothing else changed.
    pub fn as_bytes(&self) -> &[u8] {
        self.text().as_bytes()
    }

    fn text(&self) -> &str {
        let write = || serde_json::to_string(&self.object).expect("an object is JSON");
        self.text.get_or_init(write)
    }

    /// The same configuration with another object.
    fn derived(&self, object: Object) -> Self {
        Self {
            text: OnceLock::new(),
            object,
            version: self.version,
            name: self.name.clone(),
        }
    }

    /// The configuration with this `prevResult`. Other spellings of the key are removed.
    #[must_use]
    pub fn with_prev_result(&self, prev_result: &RawValue) -> Self {
        let mut object = self.object.clone();
        object.set_raw(PREV_RESULT, prev_result.to_owned());
        self.derived(object)
    }

    /// The configuration without `prevResult`, in any spelling of the key; the same one if it has
    /// none.
    pub fn without_prev_result(&self) -> Cow<'_, Self> {
        if self.object.get(PREV_RESULT).is_none() {
            return Cow::Borrowed(self);
        }
        let mut object = self.object.clone();
        object.remove(PREV_RESULT);
        Cow::Owned(self.derived(object))
    }

    /// The configuration of a GC that keeps these attachments, too.
    ///
    /// # Errors
    ///
    /// Code 7 if `cni.dev/valid-attachments` is no array.
    pub fn with_more_valid(&self, more: &[Attachment]) -> Result<Self, Error> {
        let listed: Option<Vec<Box<RawValue>>> = self.read(VALID_ATTACHMENTS)?;
        let mut all = listed.unwrap_or_default();
        let raw = |attachment| to_raw_value(attachment).expect("an attachment is JSON");
        all.extend(more.iter().map(raw));
        let mut object = self.object.clone();
        object.set(VALID_ATTACHMENTS, &all);
        Ok(self.derived(object))
    }

    /// The configuration in an older version, for a delegate that supports no newer one:
    /// with this `cniVersion`, and with `prevResult` in its shape.
    #[must_use]
    pub fn in_version(&self, version: SpecVersion) -> Self {
        let mut object = self.object.clone();
        object.set("cniVersion", version.as_str());
        // A `prevResult` that we can't read is passed on: the delegate may be able to.
        if let Ok(Some(prev_result)) = self.prev_result() {
            object.set_raw(PREV_RESULT, prev_result.to_raw(version));
        }
        Self {
            version,
            ..self.derived(object)
        }
    }

    /// The configuration without the keys that a runtime adds for one call: `prevResult`
    /// and those that start with `cni.dev/`.
    #[must_use]
    pub fn without_call(&self) -> Self {
        let mut object = self.object.clone();
        object.retain(|key| !is_field(key, PREV_RESULT) && !is_of_call(key));
        self.derived(object)
    }

    /// The configuration as a JSON value.
    pub fn to_raw(&self) -> Box<RawValue> {
        RawValue::from_string(self.text().to_owned()).expect("it has been read as JSON")
    }

    /// `cniVersion`.
    pub fn version(&self) -> SpecVersion {
        self.version
    }

    /// `name`.
    pub fn name(&self) -> &NetworkName {
        &self.name
    }

    /// The object in a top-level key; `None` where it is missing or `null`.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn section(&self, key: &str) -> Result<Option<Object>, Error> {
        self.object.section("", key)
    }

    /// The value of a top-level key; `None` where it is missing or `null`.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key, if the value is no `T`.
    pub fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Error> {
        self.object.read("", key)
    }

    /// The `ipam` section.
    ///
    /// # Errors
    ///
    /// Code 7 if it is missing or no object.
    pub fn ipam(&self) -> Result<Object, Error> {
        self.section("ipam")?
            .ok_or_else(|| Error::config("ipam is missing"))
    }

    /// `prevResult`, as it came; its last spelling.
    pub fn raw_prev_result(&self) -> Option<&RawValue> {
        self.object
            .get(PREV_RESULT)
            .filter(|raw| raw.get() != "null")
    }

    /// `prevResult`. On DEL and GC, only what is needed must be readable.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key that is wrong.
    pub fn prev_result(&self) -> Result<Option<IpamResult>, Error> {
        let Some(raw) = self.object.field("", PREV_RESULT)? else {
            return Ok(None);
        };
        if !self.object.is_lenient() {
            IpamResult::verify_types("prevResult", raw)?;
        }
        IpamResult::read("prevResult", raw).map(Some)
    }

    /// `cni.dev/valid-attachments`: attachments that GC must keep. An empty list and
    /// `null` say that no attachment is valid: libcni is written in Go, where an empty
    /// list may be nil, and nil becomes `null`. Specification, section 2, "GC".
    ///
    /// # Errors
    ///
    /// Code 7 if the key is missing (so that nothing is known to be stale), or
    /// lists something that can't be an attachment.
    pub fn valid_attachments(&self) -> Result<Vec<Attachment>, Error> {
        if self.object.get(VALID_ATTACHMENTS).is_none() {
            return Err(Error::config(format!(
                "{VALID_ATTACHMENTS} is missing: nothing says which attachments are valid, nothing is released"
            )));
        }
        let entries: Vec<Object> = self.read(VALID_ATTACHMENTS)?.unwrap_or_default();
        let read = |(i, entry): (usize, &Object)| {
            Attachment::read(&format!("{VALID_ATTACHMENTS}[{i}]"), entry)
        };
        entries.iter().enumerate().map(read).collect()
    }
}

/// True for a key that a runtime adds for one call.
fn is_of_call(key: &str) -> bool {
    key.get(..8)
        .is_some_and(|start| is_field(start, "cni.dev/"))
}

/// The text of a JSON object, and the object.
fn decode(bytes: Vec<u8>) -> Result<(String, Object), Error> {
    let undecodable = |what: String| {
        Error::new(
            code::UNDECODABLE,
            format!("network configuration on stdin: {what}"),
        )
    };
    // Go's decoder replaces what isn't UTF-8.
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    if text.trim_ascii().is_empty() {
        return Err(undecodable("it is empty".to_owned()));
    }
    let object = serde_json::from_str(&text).map_err(|e| {
        undecodable(e.to_string()).with_details(format!("stdin was {}", Excerpt(&text)))
    })?;
    Ok((text, object))
}

fn name(object: &Object) -> Result<NetworkName, Error> {
    object
        .read("", "name")?
        .ok_or_else(|| Error::config("name is missing: it must be the network's name"))
}

fn version(object: &Object) -> Result<SpecVersion, Error> {
    let text = object
        .read::<String>("", "cniVersion")
        .map_err(|e| Error {
            code: code::UNDECODABLE,
            ..e
        })?
        // A configuration that names none is of the first version.
        .unwrap_or_else(|| "0.1.0".to_owned());
    text.parse().map_err(|_| {
        Error::new(
            code::INCOMPATIBLE_VERSION,
            format!("cniVersion: {text:?} is not supported"),
        )
        .with_details(format!("supported: {}", SpecVersion::NAMES.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<NetworkConfig, Error> {
        NetworkConfig::parse(json.as_bytes().to_vec())
    }

    #[test]
    fn what_is_forwarded_is_what_came_but_for_the_prev_result() {
        let json = r#"{"name":"n","cniVersion":"1.0.0","ipam":{"x":1.50, "y" : 12345678901234567890},"é":"\u00e9"}"#;
        let config = parse(json).unwrap();
        assert_eq!(config.as_bytes(), json.as_bytes());
        let result = RawValue::from_string(r#"{"ips":[ ]}"#.to_owned()).unwrap();
        assert_eq!(
            config.with_prev_result(&result).text(),
            format!(
                r#"{},"prevResult":{{"ips":[ ]}}}}"#,
                &json[..json.len() - 1]
            )
        );
    }

    #[test]
    fn each_refusal_has_its_code_and_names_the_key_and_the_value() {
        for (json, code, word) in [
            ("", code::UNDECODABLE, "empty"),
            (" \n", code::UNDECODABLE, "empty"),
            ("[]", code::UNDECODABLE, "expected an object"),
            (r#"{"name":"n""#, code::UNDECODABLE, "EOF"),
            (r#"{"name":"n"} x"#, code::UNDECODABLE, "trailing"),
            (
                r#"{"cniVersion":"1.0.0"}"#,
                code::INVALID_CONFIG,
                "name is missing",
            ),
            (
                r#"{"cniVersion":"1.0.0","name":"a/b"}"#,
                code::INVALID_CONFIG,
                "\"a/b\"",
            ),
            (
                r#"{"cniVersion":"1.0.0","name":7}"#,
                code::INVALID_CONFIG,
                "name: invalid type: integer `7`",
            ),
            (
                r#"{"cniVersion":"0.2.0","name":"n"}"#,
                code::INCOMPATIBLE_VERSION,
                "\"0.2.0\"",
            ),
            (r#"{"name":"n"}"#, code::INCOMPATIBLE_VERSION, "\"0.1.0\""),
            (
                r#"{"cniVersion":1,"name":"n"}"#,
                code::UNDECODABLE,
                "cniVersion: invalid type: integer `1`",
            ),
        ] {
            let error = parse(json).unwrap_err();
            assert_eq!(error.code, code, "{json}: {error}");
            assert!(error.msg.contains(word), "{json}: {error}");
        }
        let error = NetworkConfig::parse(b"{\"name\":\"\xff\"}".to_vec()).unwrap_err();
        assert_eq!(error.code, code::INVALID_CONFIG);
    }

    #[test]
    fn all_spellings_of_the_prev_result_go_and_one_is_written() {
        let json = r#"{"prevresult":1,"name":"n","PREVRESULT":2,"cniVersion":"1.0.0","prevRe\u017fult":3,"prevResults":4}"#;
        let config = parse(json).unwrap();
        let without = r#"{"name":"n","cniVersion":"1.0.0","prevResults":4}"#;
        assert_eq!(config.without_prev_result().text(), without);
        assert_eq!(config.without_call().text(), without);
        let with = config.with_prev_result(RawValue::NULL);
        let expected = without.replacen('{', r#"{"prevResult":null,"#, 1);
        assert_eq!(with.text(), expected);
        // As it came.
        let json = without.replace(',', " , ");
        let config = parse(&json).unwrap();
        assert_eq!(config.without_prev_result().text(), json);
    }

    #[test]
    fn more_valid_attachments_follow_those_of_the_runtime() {
        let more = [Attachment {
            container_id: "c2".parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        }];
        let one = r#"{"containerID": "c1", "ifname":"eth0","x":1.0}"#;
        for (listed, before) in [
            ("null", ""),
            ("[]", ""),
            (&*format!("[ {one} ]"), &*format!("{one},")),
        ] {
            let json = format!(
                r#"{{"cniVersion":"1.1.0","name":"n","cni.dev/valid-attachments":{listed},"z":1}}"#
            );
            let all = parse(&json).unwrap().with_more_valid(&more).unwrap();
            let list = format!(r#"[{before}{{"containerID":"c2","ifname":"eth0"}}]"#);
            assert_eq!(all.text(), json.replace(listed, &list));
        }
    }

    #[test]
    fn del_and_gc_need_a_network_name_and_nothing_else() {
        for (keys, version) in [
            (r#""cniVersion":"0.4.0","#, SpecVersion::V0_4_0),
            (
                r#""cniVersion":"1.0.0","CNIVersion":"0.3.1","#,
                SpecVersion::V0_3_1,
            ),
            ("", SpecVersion::LATEST),
            (r#""cniVersion":"","#, SpecVersion::LATEST),
            (r#""cniVersion":"0.2.0","#, SpecVersion::LATEST),
            (r#""cniVersion":7,"#, SpecVersion::LATEST),
        ] {
            let json = format!(r#"{{{keys}"name":"n","ipam":{{"dataDir":"/a","datadir":"/b"}}}}"#);
            let config = NetworkConfig::parse_to_release(json.into_bytes()).unwrap();
            assert_eq!(config.version(), version, "{keys}");
            let forwarded = NetworkConfig::parse_to_release(config.as_bytes().to_vec());
            assert_eq!(forwarded.unwrap().version(), version, "{keys}");
            let data_dir = config.ipam().unwrap().read("ipam", "dataDir");
            assert_eq!(data_dir, Ok(Some("/b".to_owned())));
        }
        for json in [r#"{"cniVersion":"1.0.0"}"#, "[]", ""] {
            assert!(
                NetworkConfig::parse_to_release(json.into()).is_err(),
                "{json}"
            );
        }
    }

    #[test]
    fn two_spellings_of_a_key_are_refused_except_on_del_and_gc() {
        let refused = |json: &str| parse(json).and_then(|config| config.ipam().map(drop));
        for (json, word) in [
            (
                r#"{"cniVersion":"1.0.0","CNIVERSION":"1.1.0","name":"n"}"#,
                "CNIVERSION",
            ),
            (r#"{"cniVersion":"1.0.0","name":"n","Name":"m"}"#, "Name"),
            (
                r#"{"cniVersion":"1.0.0","name":"n","ipam":{},"IPAM":{"x":1}}"#,
                "IPAM",
            ),
        ] {
            let error = refused(json).unwrap_err();
            assert!(error.msg.contains(word), "{error}");
        }
        let json = r#"{"CniVersion":"1.0.0","NAME":"n","Ipam":{},"PrevResult":{"IPs":[{"Address":"10.0.0.2/24"}]}}"#;
        let config = parse(json).unwrap();
        assert_eq!(config.prev_result().unwrap().unwrap().ips.len(), 1);
        let result = RawValue::from_string("{}".to_owned()).unwrap();
        let text = config.with_prev_result(&result).text().to_owned();
        assert_eq!(
            text,
            r#"{"CniVersion":"1.0.0","NAME":"n","Ipam":{},"prevResult":{}}"#
        );
    }

    #[test]
    fn another_version_has_another_shape() {
        let json = r#"{"cniVersion":"1.1.0","name":"n","prevResult":{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.2/24"}],"x":1}}"#;
        let older = parse(json).unwrap().in_version(SpecVersion::V0_4_0);
        assert_eq!(older.version(), SpecVersion::V0_4_0);
        assert_eq!(
            older.text(),
            concat!(
                r#"{"cniVersion":"0.4.0","name":"n","prevResult":{"cniVersion":"0.4.0","#,
                r#""ips":[{"address":"10.0.0.2/24","version":"4"}],"x":1,"routes":[],"dns":{}}}"#
            )
        );
    }

    #[test]
    fn what_is_of_one_call_can_be_left_out() {
        let json = r#"{"cniVersion":"1.1.0","prevResult":{},"name":"n","cni.dev/valid-attachments":[],"cni.dev/x":1,"y":2}"#;
        let without = parse(json).unwrap().without_call();
        assert_eq!(
            without.as_bytes(),
            br#"{"cniVersion":"1.1.0","name":"n","y":2}"#
        );
    }

    #[test]
    fn an_empty_list_of_valid_attachments_or_null_is_not_a_missing_one() {
        let base = r#""cniVersion":"1.1.0","name":"n""#;
        let valid = |rest: &str| {
            parse(&format!("{{{base}{rest}}}"))
                .unwrap()
                .valid_attachments()
        };
        assert!(valid("").is_err());
        for none in ["null", "[]"] {
            let key = format!(r#","cni.dev/valid-attachments":{none}"#);
            assert_eq!(valid(&key), Ok(vec![]));
        }
        let one = valid(r#","cni.dev/valid-attachments":[{"containerID":"c","ifname":"eth0"}]"#);
        assert_eq!(one.unwrap()[0].to_string(), "c eth0");
        let error = valid(r#","cni.dev/valid-attachments":[{"containerID":"c","ifname":"a/b"}]"#);
        assert!(error.unwrap_err().msg.contains("[0].ifname: \"a/b\""));
    }
}
