//! Fences: what a guarded store compares, so that a holder from the past cannot write.

use std::fmt;
use std::str::FromStr;

use super::{Time, Token};

/// The fence of one claim of one grant. Exclusive windows on related targets follow each other, so a
/// later holder's fence is always the greater one; a store refuses what is below the greatest that
/// it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// The start of the claim's window. It is compared first: windows may be granted out of their
    /// order in time.
    pub start: Time,
    /// The token of the grant.
    pub token: Token,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.start.as_us(), self.token)
    }
}

/// A text that is no fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFence;

impl fmt::Display for NoFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fence is written `start:token`, two whole numbers")
    }
}

impl std::error::Error for NoFence {}

impl FromStr for Fence {
    type Err = NoFence;

    fn from_str(text: &str) -> Result<Self, NoFence> {
        let (start, token) = text.split_once(':').ok_or(NoFence)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| NoFence);
        Ok(Fence { start: Time::from_us(number(start)?), token: Token::new(number(token)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_goes_by_its_start_first_and_reads_back_as_it_is_written() {
        let fence = |start, token| Fence { start: Time::from_us(start), token: Token::new(token) };
        assert!(fence(2, 1) > fence(1, 9));
        assert!(fence(1, 9) > fence(1, 8));
        assert_eq!("12:7".parse(), Ok(fence(12, 7)));
        assert_eq!(fence(12, 7).to_string(), "12:7");
        for bad in ["", "12", "12:", ":7", "a:7", "1:2:3", "-1:2"] {
            assert_eq!(bad.parse::<Fence>(), Err(NoFence), "{bad}");
        }
    }
}
