//! Numbered extensions at the end of a message: how it grows without changing its shape.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error};
use serde::{Deserialize as DeriveDeserialize, Serialize};

use crate::limits;
use crate::types::grown::grown_up_to;

/// One extension. A number with its highest bit set must be understood by the reader, who otherwise
/// refuses the message; any other that is unknown is skipped.
#[derive(Clone, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Extension {
    /// Its number, never reused.
    pub number: u16,
    /// Its value; what is in it is the extension's own matter.
    #[serde(deserialize_with = "grown_up_to::<_, _, { limits::EXTENSION_BYTES }>")]
    pub value: Vec<u8>,
}

impl fmt::Debug for Extension {
    /// Leaves the value out: it may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.value.len();
        f.debug_struct("Extension").field("number", &self.number).field("bytes", &bytes).finish()
    }
}

impl Extension {
    /// The bit that makes an extension one that must be understood.
    pub const REQUIRED: u16 = 0x8000;

    /// Whether a reader that does not know it must refuse the message.
    pub fn is_required(&self) -> bool {
        self.number & Self::REQUIRED != 0
    }
}

/// The extensions of one message: at most [`limits::EXTENSIONS`], of at most
/// [`limits::EXTENSIONS_BYTES`] together. Of several with one number the first counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Extensions(Vec<Extension>);

impl Extensions {
    /// No extensions.
    pub const NONE: Extensions = Extensions(Vec::new());

    /// These extensions, or `None` where they are too many or too long.
    pub fn new(list: Vec<Extension>) -> Option<Self> {
        let bytes: usize = list.iter().map(|extension| extension.value.len()).sum();
        let each = list.iter().all(|extension| extension.value.len() <= limits::EXTENSION_BYTES);
        let fits = list.len() <= limits::EXTENSIONS && bytes <= limits::EXTENSIONS_BYTES;
        (fits && each).then_some(Extensions(list))
    }

    /// With `extension` after them; as they are where it has no room.
    #[must_use]
    pub fn with(self, extension: Extension) -> Self {
        let mut list = self.0.clone();
        list.push(extension);
        Extensions::new(list).unwrap_or(self)
    }

    /// The value of extension `number`, where it is there.
    pub fn value(&self, number: u16) -> Option<&[u8]> {
        let found = self.0.iter().find(|extension| extension.number == number);
        found.map(|extension| extension.value.as_slice())
    }

    /// The first extension that must be understood and is not among `known`.
    pub fn first_not_understood(&self, known: &[u16]) -> Option<u16> {
        let missing = |extension: &&Extension| extension.is_required() && !known.contains(&extension.number);
        self.0.iter().find(missing).map(|extension| extension.number)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for Extensions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let list = grown_up_to::<D, Extension, { limits::EXTENSIONS }>(from)?;
        Extensions::new(list).ok_or_else(|| D::Error::custom("extensions are too long together"))
    }
}
