//! What the log keeps of agents' free text: what they write for people, which decides nothing.
//!
//! That is the note beside a declaration, and in a declaration that was refused for its values each text that
//! stands where a path must and is none. Names of agents, labels of sessions and paths are no free text: what
//! was decided about whom and what rests on them.

use std::fmt;
use std::sync::Arc;

use ring::hmac;

use crate::limits;
use crate::types::Path;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub enum TextKept {
    /// It is kept as it was written.
    #[default]
    All,
    /// Instead of a note a hash of it is kept, that nobody can make or guess from without the key. Of other text nothing is.
    Hashes(TextKey),
    /// None is kept.
    Nothing,
}

/// What texts are hashed with: HMAC-SHA-256. It stands beside the log, not in it, so that a reader of the log
/// cannot try short texts until one has the hash.
#[derive(Clone)]
pub struct TextKey(hmac::Key);

/// Leaves the key out.
impl fmt::Debug for TextKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TextKey")
    }
}

/// What stands before a hash.
const PREFIX: &str = "hmac:";
/// Bytes of a hash that are written: the first half, of which no two texts of a log have the same.
const HASH_BYTES: usize = 16;

impl TextKey {
    /// The key that `secret` spells; `None` where it has less than [`limits::TEXT_KEY_BYTES`].
    pub fn new(secret: &str) -> Option<Self> {
        let secret = secret.trim().as_bytes();
        (secret.len() >= limits::TEXT_KEY_BYTES).then(|| TextKey(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// What the log holds instead of `text`: `hmac:` and 32 hexadecimal digits. Equal texts have equal hashes.
    pub fn hash(&self, text: &str) -> String {
        let tag = hmac::sign(&self.0, text.as_bytes());
        let digits = tag.as_ref().iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}"));
        std::iter::once(PREFIX.to_owned()).chain(digits).collect()
    }
}

impl TextKept {
    /// What is kept of a note. One that was empty stays so.
    pub(super) fn note(&self, note: &Arc<str>) -> Arc<str> {
        match self {
            TextKept::Hashes(key) if !note.is_empty() => key.hash(note).into(),
            TextKept::Nothing if !note.is_empty() => Arc::from(""),
            TextKept::All | TextKept::Hashes(_) | TextKept::Nothing => Arc::clone(note),
        }
    }

    /// What is kept of a text where a path must stand. What is none is left out whole, since a hash of it
    /// might be one: so it is refused for the same field wherever the record is decided again.
    pub(super) fn path<'t>(&self, text: &'t str) -> &'t str {
        match self {
            TextKept::All => text,
            TextKept::Hashes(_) | TextKept::Nothing if Path::new(text).is_none() => "",
            TextKept::Hashes(_) | TextKept::Nothing => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_hash_depends_on_text_and_key_and_shows_neither() {
        let key = TextKey::new(SECRET).unwrap();
        assert_eq!(key.hash("for Ann"), TextKey::new(&format!("{SECRET}\n")).unwrap().hash("for Ann"));
        assert_ne!(key.hash("for Ann"), key.hash("for Bob"));
        assert_ne!(key.hash("for Ann"), TextKey::new(&SECRET.replace('0', "1")).unwrap().hash("for Ann"));
        assert_eq!(key.hash("for Ann").len(), PREFIX.len() + 2 * HASH_BYTES);
        // As any other program's HMAC-SHA-256 of it: printf 'for Ann' | openssl dgst -sha256 -hmac KEY
        assert_eq!(key.hash("for Ann"), "hmac:f9773270e10d49b72db5b4ea2eebd9bf");
        assert_eq!(format!("{key:?}"), "TextKey");
    }

    #[test]
    fn a_short_key_is_none() {
        assert!(TextKey::new(&SECRET[..31]).is_none());
        assert!(TextKey::new(&format!("{}{}", &SECRET[..31], " ".repeat(9))).is_none());
    }

    #[test]
    fn notes_are_kept_hashed_or_left_out_and_paths_stay() {
        let hashes = TextKept::Hashes(TextKey::new(SECRET).unwrap());
        let note = Arc::from("n");
        for kept in [&TextKept::All, &hashes, &TextKept::Nothing] {
            assert_eq!((&*kept.note(&Arc::from("")), kept.path("dock/3")), ("", "dock/3"));
        }
        assert_eq!((&*TextKept::All.note(&note), TextKept::All.path("for Ann//")), ("n", "for Ann//"));
        assert_eq!((&*TextKept::Nothing.note(&note), TextKept::Nothing.path("for Ann//")), ("", ""));
        assert!(hashes.note(&note).starts_with(PREFIX));
        assert_eq!(hashes.path("for Ann//"), "");
    }
}
