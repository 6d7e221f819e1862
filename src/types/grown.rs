//! Lists that grow as they are read. Serde's own `Vec` reserves up to a mebibyte on the word of a
//! length that nobody has paid for in bytes yet; with lists in lists a short frame could ask for many.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// Reads a list without reserving what its length announces.
///
/// # Errors
/// Whatever the deserializer says.
pub(crate) fn grown<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    grown_up_to::<D, T, { usize::MAX }>(from)
}

/// Reads a list of at most `MOST` elements without reserving what its length announces.
///
/// # Errors
/// Where there are more, and whatever the deserializer says.
pub(crate) fn grown_up_to<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MOST: usize>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Grow::<T, MOST>(PhantomData))
}

/// Reads a list of lists in the same manner.
///
/// # Errors
/// Whatever the deserializer says.
pub(crate) fn grown_lists<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<Vec<T>>, D::Error> {
    let lists: Vec<Grown<T>> = grown(from)?;
    Ok(lists.into_iter().map(|Grown(list)| list).collect())
}

/// Reads a list that may be left out in the same manner.
///
/// # Errors
/// Whatever the deserializer says.
pub(crate) fn grown_option<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let list: Option<Grown<T>> = Option::deserialize(from)?;
    Ok(list.map(|Grown(list)| list))
}

struct Grown<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Grown<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        grown(from).map(Grown)
    }
}

struct Grow<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Grow<T, MOST> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        if from.size_hint().is_some_and(|announced| announced > MOST) {
            return Err(A::Error::custom("too many elements"));
        }
        let mut list = Vec::new();
        while let Some(element) = from.next_element()? {
            if list.len() == MOST {
                return Err(A::Error::custom("too many elements"));
            }
            list.push(element);
        }
        Ok(list)
    }
}
