//! Program headers of an ELF executable.

/// The segment types of an executable for this machine.
pub fn segment_types(elf: &[u8]) -> Vec<u32> {
    assert!(elf.starts_with(b"\x7fELF"));
    let half = |at: usize| usize::from(u16::from_ne_bytes([elf[at], elf[at + 1]]));
    // The low half of a 64-bit offset; the high half is zero in files under 4 GiB.
    let low = if cfg!(target_endian = "big") { 4 } else { 0 };
    let (start, size, count) = match elf[4] {
        2 => (word(elf, 32 + low), half(54), half(56)),
        _ => (word(elf, 28), half(42), half(44)),
    };
    (0..count)
        .map(|n| word(elf, start as usize + n * size))
        .collect()
}

fn word(elf: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(elf[at..at + 4].try_into().unwrap())
}
