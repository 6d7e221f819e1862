//! The chain of hashes through all records: who changes one has to change all that follow.

use std::fmt;

use ring::digest::{Context, SHA256};

/// What the chain has come to after a record: SHA-256 of the hash before it and of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainHash([u8; ChainHash::BYTES]);

impl ChainHash {
    /// Bytes of a hash.
    pub const BYTES: usize = 32;
    /// Before the first record of a log.
    pub const START: ChainHash = ChainHash([0; ChainHash::BYTES]);

    /// The hash that these bytes are.
    pub const fn from_bytes(bytes: [u8; ChainHash::BYTES]) -> Self {
        ChainHash(bytes)
    }

    /// The hash as bytes.
    pub const fn as_bytes(&self) -> &[u8; ChainHash::BYTES] {
        &self.0
    }

    /// The hash after a record whose frame holds `content`.
    pub fn then(&self, content: &[u8]) -> ChainHash {
        let mut context = Context::new(&SHA256);
        context.update(&self.0);
        context.update(content);
        let mut bytes = [0; ChainHash::BYTES];
        bytes.copy_from_slice(context.finish().as_ref());
        ChainHash(bytes)
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainHash({self})")
    }
}

/// The hash by which records name a configuration: SHA-256 of its rules' text.
pub fn config_hash(document: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(ring::digest::digest(&SHA256, document.as_bytes()).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::ChainHash;

    #[test]
    fn a_hash_is_sha_256_of_the_one_before_and_the_content() {
        // sha256 of 32 bytes of zero and "abc", from another implementation.
        let expected = "365aa7d8f7f9402c4b9434502b4cc89ddb09fe50";
        let found = ChainHash::START.then(b"abc").to_string();
        assert_eq!(found.len(), 64);
        assert_eq!(&found[..40], expected);
    }
}
