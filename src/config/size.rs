//! Sizes as people write them: a whole number with `B`, `KiB`, `MiB`, `GiB` or `TiB`.

/// What a size may look like, for error messages.
pub const SIZE_RULE: &str = "a whole number with B, KiB, MiB, GiB or TiB, such as \"64MiB\"";

const UNITS: [(&str, u64); 5] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// The bytes that `text` spells; `None` where it is no size, or more than 64 bits hold.
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*bytes)
}

/// The size in the largest unit that needs no fraction.
pub fn show_size(bytes: u64) -> String {
    let fits = |(_, unit): &&(&str, u64)| bytes > 0 && bytes.is_multiple_of(*unit);
    let (name, unit) = UNITS.iter().rev().find(fits).unwrap_or(&UNITS[0]);
    format!("{}{name}", bytes / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_is_read_and_shown_again() {
        for (text, bytes) in
            [("0B", 0), ("17B", 17), ("1KiB", 1024), ("64MiB", 64 << 20), ("16777215TiB", 16777215 << 40)]
        {
            assert_eq!((parse_size(text), show_size(bytes).as_str()), (Some(bytes), text));
        }
    }

    #[test]
    fn other_words_and_sizes_past_64_bits_are_none() {
        for text in [
            "",
            "64",
            "MiB",
            "64MB",
            "1.5GiB",
            "-1B",
            "+1B",
            " 1B",
            "1B ",
            "16777216TiB",
            "99999999999999999999B",
        ] {
            assert_eq!(parse_size(text), None, "{text:?}");
        }
    }
}
