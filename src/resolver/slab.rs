//! Things by number: found without a hash and without a tree, and close together.

/// A thing's number, while it is there. It is used again once the thing is gone.
pub(super) type Number = u32;

/// How many things lie in one piece of memory.
const PIECE: usize = 1024;

/// Numbered things.
///
/// They lie in pieces of one length, so that growing is one more piece. In one piece for all, growing moves every
/// thing there is, and with a million of them the slot in which it does takes a tenth of a second.
#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    pieces: Vec<Vec<Option<T>>>,
    /// How many numbers were ever given.
    given: usize,
    free: Vec<Number>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { pieces: Vec::new(), given: 0, free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.given - self.free.len()
    }

    /// The number that the next one gets.
    pub(super) fn next(&self) -> Number {
        self.free.last().copied().unwrap_or(self.given as Number)
    }

    pub(super) fn put(&mut self, thing: T) -> Number {
        let number = self.next();
        match self.free.pop() {
            Some(free) => {
                if let Some(place) = self.place_mut(free) {
                    *place = Some(thing);
                }
            }
            None => self.push(thing),
        }
        number
    }

    fn place_mut(&mut self, number: Number) -> Option<&mut Option<T>> {
        self.pieces.get_mut(number as usize / PIECE)?.get_mut(number as usize % PIECE)
    }

    fn push(&mut self, thing: T) {
        if self.given.is_multiple_of(PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        if let Some(last) = self.pieces.last_mut() {
            last.push(Some(thing));
            self.given += 1;
        }
    }

    pub(super) fn get(&self, number: Number) -> Option<&T> {
        self.pieces.get(number as usize / PIECE)?.get(number as usize % PIECE)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: Number) -> Option<&mut T> {
        self.place_mut(number)?.as_mut()
    }

    pub(super) fn take(&mut self, number: Number) -> Option<T> {
        let gone = self.place_mut(number)?.take()?;
        self.free.push(number);
        Some(gone)
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Number, &T)> {
        let numbered = self.pieces.iter().flatten().enumerate();
        numbered.filter_map(|(number, slot)| slot.as_ref().map(|thing| (number as Number, thing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_once_its_thing_is_gone_and_not_before() {
        let mut slab = Slab::default();
        let (a, b) = (slab.put('a'), slab.put('b'));
        assert!(a != b && slab.len() == 2);
        assert_eq!(slab.take(a), Some('a'));
        assert_eq!((slab.take(a), slab.get(a), slab.len()), (None, None, 1));
        assert_eq!((slab.next(), slab.put('c')), (a, a));
        slab.get_mut(b).map(|thing| *thing = 'd').unwrap();
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(a, &'c'), (b, &'d')]);
        assert!(slab.next() == 2 && slab.get(2).is_none());
    }

    #[test]
    fn things_are_found_in_every_piece_and_stay_where_they_are() {
        let count = 3 * PIECE + 1;
        let mut slab = Slab::default();
        slab.put(0);
        let first = std::ptr::from_ref(slab.get(0).unwrap());
        (1..count).for_each(|thing| assert_eq!(slab.put(thing), thing as Number));
        assert!((0..count).all(|thing| slab.get(thing as Number) == Some(&thing)));
        assert!(std::ptr::eq(first, slab.get(0).unwrap()));
        assert_eq!((slab.len(), slab.get(count as Number)), (count, None));
        let taken = [PIECE - 1, PIECE, 2 * PIECE].map(|number| slab.take(number as Number));
        assert_eq!(taken, [Some(PIECE - 1), Some(PIECE), Some(2 * PIECE)]);
        assert_eq!((slab.put(7), slab.get(2 * PIECE as Number)), (2 * PIECE as Number, Some(&7)));
        assert_eq!((slab.len(), slab.iter().count()), (count - 2, count - 2));
    }
}
