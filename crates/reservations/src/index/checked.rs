//! Checksums of an index's parts, and the format of its lines: a checksum, then JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a line in front of the JSON: the checksum in hexadecimal digits, and a space.
const PREFIX: usize = 17;

/// A checksum against accidents, not against malice: FNV-1a over words of 64 bits. The seed
/// is the checksum of the part before it, so that parts of different files don't match.
pub(super) fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    bytes
        .chunks(8)
        .fold(0xcbf2_9ce4_8422_2325 ^ seed, |sum, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            (sum ^ u64::from_ne_bytes(word))
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(23)
        })
}

/// A value as a line, and the line's checksum.
pub(super) fn to_line(seed: u64, value: &impl Serialize) -> serde_json::Result<(Vec<u8>, u64)> {
    let json = serde_json::to_vec(value)?;
    let sum = checksum(seed, &json);
    let line = [format!("{sum:016x} ").as_bytes(), &json, b"\n"].concat();
    Ok((line, sum))
}

/// The value in a line, and the line's checksum; `None` if the line is damaged.
pub(super) fn from_line<T: DeserializeOwned>(seed: u64, line: &[u8]) -> Option<(T, u64)> {
    let (prefix, json) = line.strip_suffix(b"\n")?.split_at_checked(PREFIX)?;
    let sum = u64::from_str_radix(str::from_utf8(prefix).ok()?.strip_suffix(' ')?, 16).ok()?;
    if sum != checksum(seed, json) {
        return None;
    }
    Some((serde_json::from_slice(json).ok()?, sum))
}
