use serde_json::value::RawValue;

use crate::{IpamResult, SpecVersion};

/// A JSON object that a plugin printed on stdout, with the bytes as they came.
#[derive(Clone, Debug)]
pub struct JsonOutput {
    bytes: Vec<u8>,
    json: Box<RawValue>,
}

impl JsonOutput {
    /// A result in the shape of `version`, as a plugin prints it.
    pub fn of_result(result: &IpamResult, version: SpecVersion) -> Self {
        let json = result.to_raw(version);
        Self {
            bytes: format!("{}\n", json.get()).into_bytes(),
            json,
        }
    }

    /// The JSON object, spelled as it was printed.
    pub fn json(&self) -> &RawValue {
        &self.json
    }

    /// The bytes as they were printed, white space included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes as they were printed, white space included.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl TryFrom<Vec<u8>> for JsonOutput {
    type Error = String;

    /// # Errors
    ///
    /// The reason why the bytes are no JSON object.
    fn try_from(bytes: Vec<u8>) -> Result<Self, String> {
        let text = std::str::from_utf8(&bytes).map_err(|e| e.to_string())?;
        let json: Box<RawValue> = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if !json.get().starts_with('{') {
            return Err("expected an object".to_owned());
        }
        Ok(Self { bytes, json })
    }
}
