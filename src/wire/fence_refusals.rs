//! What an agent tells of stores that refused its writes for their fence. It decides nothing.

use super::extension::{Extension, Extensions};
use super::message::ToCoordinator;

/// The extension that tells how often a store refused the sender's writes.
const FENCE_REFUSALS: u16 = 6;

impl ToCoordinator {
    /// Adds word of so many refusals, where this message has room for it. Says whether it has.
    pub fn tell_fence_refusals(&mut self, count: u32) -> bool {
        let told = Extension { number: FENCE_REFUSALS, value: count.to_le_bytes().to_vec() };
        let Some(extensions) = self.extensions_mut() else { return false };
        let before = extensions.clone();
        *extensions = std::mem::take(extensions).with(told);
        // A declaration may be as long as a frame takes.
        let fits = self.fence_refusals() == count && self.encode(&mut Vec::new()).is_ok();
        if !fits && let Some(extensions) = self.extensions_mut() {
            *extensions = before;
        }
        fits
    }

    /// How often stores refused the sender's writes since it last told; 0 where it says nothing of it. A value of
    /// another form says nothing: it is skipped, as an unknown extension would be.
    pub fn fence_refusals(&self) -> u32 {
        let count = |extensions: &Extensions| {
            let value = extensions.value(FENCE_REFUSALS)?.try_into().ok()?;
            Some(u32::from_le_bytes(value))
        };
        let told = match self {
            ToCoordinator::Hello(hello) => count(&hello.extensions),
            ToCoordinator::Declare(declare) => {
                declare.batch.first().and_then(|first| count(&first.extensions))
            }
            ToCoordinator::Release(release) => count(&release.extensions),
            ToCoordinator::Renew(renew) => count(&renew.extensions),
            ToCoordinator::Bye(bye) => count(&bye.extensions),
            ToCoordinator::ClockPing(_) | ToCoordinator::List(_) | ToCoordinator::Watch(_) => None,
        };
        told.unwrap_or_default()
    }

    /// Where it is told: of several declarations, with the first.
    fn extensions_mut(&mut self) -> Option<&mut Extensions> {
        match self {
            ToCoordinator::Hello(hello) => Some(&mut hello.extensions),
            ToCoordinator::Declare(declare) => declare.batch.first_mut().map(|first| &mut first.extensions),
            ToCoordinator::Release(release) => Some(&mut release.extensions),
            ToCoordinator::Renew(renew) => Some(&mut renew.extensions),
            ToCoordinator::Bye(bye) => Some(&mut bye.extensions),
            ToCoordinator::ClockPing(_) | ToCoordinator::List(_) | ToCoordinator::Watch(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::degradations::tests::hello;
    use super::*;
    use crate::limits;
    use crate::wire::{Bye, ClockPing, Declaration, Declare, FrameReader, Release, Renew};

    fn declare(note_bytes: usize) -> ToCoordinator {
        let declaration = Declaration { note: "x".repeat(note_bytes), ..Declaration::default() };
        Declare { batch: vec![declaration, Declaration::default()] }.into()
    }

    #[test]
    fn what_is_told_arrives_with_each_kind_that_has_room_and_with_no_other() {
        for mut message in [
            ToCoordinator::from(hello(Extensions::NONE)),
            declare(1),
            Release::default().into(),
            Renew::default().into(),
            Bye::default().into(),
        ] {
            assert_eq!(message.fence_refusals(), 0);
            assert!(message.tell_fence_refusals(7));
            let mut bytes = Vec::new();
            message.encode(&mut bytes).unwrap();
            let mut frames = FrameReader::new();
            frames.push(&bytes);
            let arrived = ToCoordinator::decode(frames.next_frame().unwrap().unwrap()).unwrap();
            assert_eq!(arrived.fence_refusals(), 7, "{arrived:?}");
        }
        let none = Declare { batch: Vec::new() }.into();
        for message in [ClockPing { seq: 1, client_us: 2 }.into(), none] {
            let mut told = ToCoordinator::clone(&message);
            assert!(!told.tell_fence_refusals(7));
            assert_eq!(told, message);
        }
    }

    #[test]
    fn a_frame_that_is_full_is_left_as_it_is() {
        let bare = {
            let mut bytes = Vec::new();
            declare(0).encode(&mut bytes).unwrap();
            bytes.len()
        };
        // The number, the length and the value of the extension.
        for (spare, fits) in [(14, true), (13, false)] {
            let message = declare(4 + limits::FRAME_BYTES - bare - spare);
            assert!(message.encode(&mut Vec::new()).is_ok());
            let mut told = message.clone();
            assert_eq!(told.tell_fence_refusals(7), fits, "{spare} bytes to spare");
            assert_eq!(told == message, !fits);
        }
    }

    #[test]
    fn a_value_of_another_form_is_skipped_and_need_not_be_understood() {
        for length in [0, 3, 5, 8] {
            let extension = Extension { number: FENCE_REFUSALS, value: vec![1; length] };
            assert!(!extension.is_required());
            let extensions = Extensions::new(vec![extension]).unwrap();
            let release = ToCoordinator::from(Release { extensions, ..Release::default() });
            assert_eq!(release.fence_refusals(), 0, "{length} bytes");
        }
    }
}
