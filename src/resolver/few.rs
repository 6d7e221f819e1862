//! Values of which there is one, mostly: most intents have one claim, and a vector for each of its parts
//! costs more than deciding it.

use std::ops::{Deref, DerefMut};

/// As many values as an intent has claims; a single one takes no room elsewhere.
#[derive(Clone, Debug)]
pub(super) enum Few<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Few::One(one) => std::slice::from_ref(one),
            Few::Many(many) => many,
        }
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Few::One(one) => std::slice::from_mut(one),
            Few::Many(many) => many,
        }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter();
        match (values.next(), values.next()) {
            (Some(one), None) => Few::One(one),
            (first, second) => Few::Many(first.into_iter().chain(second).chain(values).collect()),
        }
    }
}

impl<T> From<Vec<T>> for Few<T> {
    fn from(values: Vec<T>) -> Self {
        values.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_those_that_went_in() {
        for count in 0..4 {
            let mut few: Few<u8> = (0..count).collect();
            assert_eq!(*few, *(0..count).collect::<Vec<u8>>());
            few.iter_mut().for_each(|value| *value += 1);
            assert_eq!(*few, *(1..=count).collect::<Vec<u8>>());
            assert_eq!(matches!(few, Few::One(_)), count == 1);
        }
    }
}
