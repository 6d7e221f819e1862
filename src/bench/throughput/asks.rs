//! Messages of declarations as bytes: made once, with the numbers and the paths written over.

use crate::types::{Micros, RawClaim, RawIntent, RawMode, RawTarget};
use crate::wire::{Declaration, Declare, ToCoordinator};

/// Paths that each agent goes round: a path is claimed again long after its last claim has ended.
pub(super) const PATHS: u64 = 1024;
/// How long each is claimed.
const CLAIMED: Micros = Micros::from_ms(2);
/// Stands in the bytes where a number goes.
const MARK: u64 = 0x5EED_0FAA_4DA2_C101;
const PATH: &str = "bench/agent-####/cell-####";

fn declaration(path: String, id: u64) -> Declaration {
    let duration = CLAIMED.as_us();
    let claim = RawClaim { target: RawTarget::Path(path), mode: RawMode::Exclusive, offset: 0, duration };
    let intent = RawIntent { id, claims: vec![claim], ..RawIntent::default() };
    Declaration { request: id, intent, ..Declaration::default() }
}

/// One message, and where in it the numbers stand.
#[derive(Clone, Debug)]
pub(super) struct Asks {
    message: Vec<u8>,
    /// Bytes ahead of the first declaration, and of each.
    head: usize,
    each: usize,
    batch: usize,
    /// Within a declaration.
    request: usize,
    id: usize,
    agent: usize,
    cell: usize,
}

impl Asks {
    /// Messages of `batch` declarations each.
    pub(super) fn new(batch: usize) -> Self {
        let encoded = |batch: usize| {
            let batch = vec![declaration(PATH.to_owned(), MARK); batch];
            let mut bytes = Vec::new();
            // Far below the size of a frame.
            let _ = ToCoordinator::from(Declare { batch }).encode(&mut bytes);
            bytes
        };
        let (none, one) = (encoded(0), encoded(1));
        let (head, declaration) = (none.len(), &one[none.len()..]);
        let find = |what: &[u8], from: usize| {
            let found = declaration[from..].windows(what.len()).position(|window| window == what);
            from + found.unwrap_or_else(|| unreachable!("it was written there"))
        };
        let request = find(&MARK.to_le_bytes(), 0);
        let agent = find(b"####", 0);
        Asks {
            head,
            each: declaration.len(),
            batch,
            request,
            id: find(&MARK.to_le_bytes(), request + 8),
            agent,
            cell: find(b"####", agent + 4),
            message: encoded(batch),
        }
    }

    /// Declarations in each message.
    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    /// Appends the message with the declarations of agent `line` from `first` on.
    pub(super) fn write(&mut self, line: usize, first: u64, out: &mut Vec<u8>) {
        for (nth, at) in (self.head..).step_by(self.each).take(self.batch).enumerate() {
            let id = first + nth as u64;
            let declaration = &mut self.message[at..at + self.each];
            declaration[self.request..][..8].copy_from_slice(&id.to_le_bytes());
            declaration[self.id..][..8].copy_from_slice(&id.to_le_bytes());
            write_digits(line as u64, &mut declaration[self.agent..][..4]);
            write_digits(id % PATHS, &mut declaration[self.cell..][..4]);
        }
        out.extend_from_slice(&self.message);
    }
}

fn write_digits(mut number: u64, to: &mut [u8]) {
    for digit in to.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FrameReader;

    #[test]
    fn the_bytes_are_those_of_the_codec() {
        for batch in [1, 64] {
            let mut asks = Asks::new(batch);
            for first in [1, 5000] {
                let (mut bytes, mut frames) = (Vec::new(), FrameReader::new());
                asks.write(17, first, &mut bytes);
                frames.push(&bytes);
                let message = ToCoordinator::decode(frames.next_frame().unwrap().unwrap()).unwrap();
                let path = |id| format!("bench/agent-0017/cell-{:04}", id % PATHS);
                let batch = (first..).take(batch).map(|id| declaration(path(id), id)).collect();
                assert_eq!(message, Declare { batch }.into());
                assert_eq!(frames.held(), 0);
            }
        }
    }
}
