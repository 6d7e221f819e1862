//! The token by which a hello may say who it is, for those who have no certificates.

use std::fmt;

use super::extension::Extension;
use super::message::Hello;

/// The extension of a [`Hello`] that carries the token.
const BEARER: u16 = 3;
/// How its text begins, so that one that has leaked into a file is recognised.
const PREFIX: &str = "preclaim_";

/// A token: 256 bits drawn by chance, so that guessing is hopeless and a plain hash of it says nothing. It is
/// a secret: no form of it that people see shows it, but [`Bearer::reveal`].
#[derive(Clone)]
pub struct Bearer([u8; Bearer::BYTES]);

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(..)")
    }
}

impl Bearer {
    /// Bytes of a token.
    pub const BYTES: usize = 32;

    /// The token of these bytes, which chance alone must have made.
    pub const fn new(bytes: [u8; Bearer::BYTES]) -> Self {
        Bearer(bytes)
    }

    /// The token that `text` spells, as [`Bearer::reveal`] wrote it; blanks around it do not count.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim().strip_prefix(PREFIX)?.as_bytes();
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != Bearer::BYTES || !rest.is_empty() {
            return None;
        }
        let mut bytes = [0; Bearer::BYTES];
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
        }
        Some(Bearer(bytes))
    }

    /// Its bytes, for a hash of them.
    pub const fn bytes(&self) -> &[u8; Bearer::BYTES] {
        &self.0
    }

    /// Its text: to be shown once, to who asked for it.
    pub fn reveal(&self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}{digits}")
    }

    /// As an extension of a hello.
    pub fn extension(&self) -> Extension {
        Extension { number: BEARER, value: self.0.to_vec() }
    }
}

impl Hello {
    /// The token that it came with. A value of another length is none.
    pub fn bearer(&self) -> Option<Bearer> {
        self.extensions.value(BEARER)?.try_into().ok().map(Bearer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Extensions, degradations};

    fn hello(value: Vec<u8>) -> Hello {
        degradations::tests::hello(Extensions::NONE.with(Extension { number: BEARER, value }))
    }

    #[test]
    fn a_token_is_read_back_and_shown_by_nothing_but_its_own_text() {
        let token = Bearer::new([0xcd; Bearer::BYTES]);
        let text = token.reveal();
        assert_eq!(text, format!("preclaim_{}", "cd".repeat(32)));
        assert_eq!(Bearer::parse(&format!(" {text}\n")).unwrap().bytes(), token.bytes());
        let hello = hello(token.extension().value);
        assert_eq!(hello.bearer().unwrap().bytes(), token.bytes());
        let shown = format!("{token:?} {hello:?}");
        assert!(!shown.contains("cdcd") && !shown.contains("205"), "{shown}");
    }

    #[test]
    fn what_is_no_token_is_none() {
        let digits = "cd".repeat(32);
        for text in
            ["", "preclaim_", &digits, &format!("preclaim_{digits}0"), &format!("preclaim_x{}", &digits[1..])]
        {
            assert!(Bearer::parse(text).is_none(), "{text}");
        }
        assert!(Bearer::parse(&format!("preclaim_{}é", &digits[2..])).is_none());
        for length in [0, 31, 33] {
            assert!(hello(vec![1; length]).bearer().is_none());
        }
    }
}
