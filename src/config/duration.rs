//! Durations as people write them: a number with `us`, `ms`, `s`, `m` or `h`.

use crate::types::Micros;

/// What a duration may look like, for error messages.
pub const DURATION_RULE: &str = "a number with us, ms, s, m or h, such as \"10ms\"";

const UNITS: [(&str, u64); 5] =
    [("us", 1), ("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000)];

/// The span that `text` spells, such as `250us`, `10ms`, `1.5s`, `5m` or `24h`.
///
/// The number is decimal, without sign or exponent, and must come to whole microseconds that fit
/// 64 bits; `None` otherwise.
pub fn parse_duration(text: &str) -> Option<Micros> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let (_, unit_us) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) =
        number.split_once('.').map_or((number, "0"), |(whole, fraction)| (whole, fraction));
    let whole_us = parse_digits(whole)?.checked_mul(*unit_us)?;
    whole_us.checked_add(fraction_us(fraction, *unit_us)?).map(Micros::from_us)
}

/// `0.fraction` of a unit, where that is whole microseconds.
fn fraction_us(fraction: &str, unit_us: u64) -> Option<u64> {
    // An hour divides into at most 11 decimals of whole microseconds: 3.6e9 = 2^11·3^2·5^8.
    let digits = parse_digits(fraction)?;
    let scale = u32::try_from(fraction.len()).ok().and_then(|decimals| 10_u128.checked_pow(decimals))?;
    let scaled = u128::from(digits) * u128::from(unit_us);
    if scaled.is_multiple_of(scale) { u64::try_from(scaled / scale).ok() } else { None }
}

fn parse_digits(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// The span in the largest unit that needs no fraction.
pub fn show_duration(span: Micros) -> String {
    let us = span.as_us();
    let fits = |(_, unit_us): &&(&str, u64)| us > 0 && us.is_multiple_of(*unit_us);
    let (name, unit_us) = UNITS.iter().rev().find(fits).unwrap_or(&("us", 1));
    format!("{}{name}", us / unit_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_is_read_and_shown_again() {
        for (text, us) in [("250us", 250), ("10ms", 10_000), ("30s", 30_000_000), ("24h", 86_400_000_000)] {
            assert_eq!(parse_duration(text), Some(Micros::from_us(us)), "{text}");
            assert_eq!(show_duration(Micros::from_us(us)), text);
        }
        assert_eq!(parse_duration("1.5s"), Some(Micros::from_ms(1_500)));
        assert_eq!(parse_duration("2.50ms"), Some(Micros::from_us(2_500)));
        assert_eq!(parse_duration("0ms"), Some(Micros::ZERO));
        assert_eq!(show_duration(Micros::ZERO), "0us");
        assert_eq!(parse_duration("18446744073709551615us"), Some(Micros::MAX));
        assert_eq!(show_duration(Micros::MAX), "18446744073709551615us");
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for bad in [
            "",
            "10",
            "ms",
            ".5s",
            "1.s",
            "-1s",
            "+1s",
            "1e3s",
            "1.5us",
            "10 min",
            "10msx",
            "1..5s",
            "０s",
            "10d",
            "18446744073709551616us",
            "5124095577h",
            "0.0000000000000000000000000000000000000001s",
        ] {
            assert_eq!(parse_duration(bad), None, "{bad:?}");
        }
    }
}
