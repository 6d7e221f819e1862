//! Bytes read as a script: numbers that are small mostly, choices, and pieces of the bytes themselves.

/// What is left of the bytes. Where there are none, each number is 0 and each piece empty.
pub(crate) struct Script<'d> {
    rest: &'d [u8],
}

impl<'d> Script<'d> {
    pub(crate) fn new(data: &'d [u8]) -> Self {
        Script { rest: data }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// A number from 0 to `bound - 1`.
    pub(crate) fn below(&mut self, bound: u8) -> u8 {
        self.byte() % bound
    }

    pub(crate) fn is_so(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.byte()) % from.len()]
    }

    /// Any number: one byte for a small one, eight for the others.
    pub(crate) fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..0xfe => small.into(),
            0xfe => u64::MAX - u64::from(self.byte()),
            _ => {
                let mut bytes = [0; 8];
                let piece = self.piece(8);
                bytes[..piece.len()].copy_from_slice(piece);
                u64::from_le_bytes(bytes)
            }
        }
    }

    /// The next `count` bytes, or as many as are left.
    pub(crate) fn piece(&mut self, count: usize) -> &'d [u8] {
        let (piece, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        piece
    }

    /// A piece whose length the next byte says.
    pub(crate) fn short_piece(&mut self) -> &'d [u8] {
        let count = self.byte().into();
        self.piece(count)
    }

    /// A number of metres: whole and small, whole micrometres, or any bits.
    pub(crate) fn metres(&mut self) -> f64 {
        match self.below(4) {
            0 | 1 => f64::from(self.byte().cast_signed()),
            2 => f64::from(self.number() as u32 as i32) / 1e6,
            _ => f64::from_bits(self.number()),
        }
    }
}
