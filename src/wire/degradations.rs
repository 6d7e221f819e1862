//! What a client that comes back tells of the time in which it had no grants. It decides nothing.

use super::extension::{Extension, Extensions};
use super::message::Hello;

/// The extension of a [`Hello`] that tells how often the agent degraded.
const DEGRADATIONS: u16 = 2;

/// How often an agent went without a grant since that was last reported, by what it did instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Degradations {
    /// It stopped.
    pub stopped: u64,
    /// It kept to the last plan that it had been granted.
    pub kept_last_plan: u64,
    /// It fell back to something of its own.
    pub fell_back: u64,
}

impl Degradations {
    /// As the extensions of a hello; none where there is nothing to tell.
    pub fn extensions(self) -> Extensions {
        let Degradations { stopped, kept_last_plan, fell_back } = self;
        if self == Degradations::default() {
            return Extensions::NONE;
        }
        let value =
            [stopped, kept_last_plan, fell_back].iter().flat_map(|count| count.to_le_bytes()).collect();
        // 24 bytes, which an extension always has room for.
        Extensions::new(vec![Extension { number: DEGRADATIONS, value }]).unwrap_or_default()
    }
}

impl Hello {
    /// How often the agent degraded since it last told; `None` where it does not say so. A value of another
    /// form says nothing: it is skipped, as an unknown extension would be.
    pub fn degradations(&self) -> Option<Degradations> {
        let (counts, rest) = self.extensions.value(DEGRADATIONS)?.as_chunks::<8>();
        match (counts, rest) {
            ([stopped, kept_last_plan, fell_back], []) => Some(Degradations {
                stopped: u64::from_le_bytes(*stopped),
                kept_last_plan: u64::from_le_bytes(*kept_last_plan),
                fell_back: u64::from_le_bytes(*fell_back),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::wire::{FrameReader, Role, ToCoordinator, VERSIONS};

    /// A hello that says nothing but this.
    pub(in crate::wire) fn hello(extensions: Extensions) -> Hello {
        Hello {
            lowest_version: VERSIONS.0,
            highest_version: VERSIONS.1,
            name: None,
            label: "main".into(),
            incarnation: 1,
            role: Role::Agent,
            refuse_if_live: false,
            seen: None,
            software: String::new(),
            extensions,
        }
    }

    #[test]
    fn what_is_told_arrives_and_nothing_is_told_of_nothing() {
        let told = Degradations { stopped: 1, kept_last_plan: u64::MAX, fell_back: 3 };
        let mut bytes = Vec::new();
        ToCoordinator::from(hello(told.extensions())).encode(&mut bytes).unwrap();
        let mut frames = FrameReader::new();
        frames.push(&bytes);
        let arrived = ToCoordinator::decode(frames.next_frame().unwrap().unwrap()).unwrap();
        let ToCoordinator::Hello(arrived) = arrived else { panic!("a hello") };
        assert_eq!(arrived.degradations(), Some(told));
        assert!(Degradations::default().extensions().is_empty());
        assert_eq!(hello(Extensions::NONE).degradations(), None);
    }

    #[test]
    fn a_value_of_another_form_is_skipped_and_need_not_be_understood() {
        for length in [0, 7, 8, 16, 23, 25, 32] {
            let extension = Extension { number: DEGRADATIONS, value: vec![1; length] };
            assert!(!extension.is_required());
            let hello = hello(Extensions::new(vec![extension]).unwrap());
            assert_eq!(hello.degradations(), None, "{length} bytes");
        }
    }
}
