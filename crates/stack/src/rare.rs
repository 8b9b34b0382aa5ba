//! State that most connections never have.

use alloc::boxed::Box;

/// State allocated at its first change. Until then it has its default value and takes the size of a
/// pointer.
#[derive(Clone, Debug)]
pub(crate) struct Rare<T>(Option<Box<T>>);

impl<T> Rare<T> {
    /// State that does not exist.
    pub(crate) const NONE: Self = Self(None);

    /// The state, where it exists.
    #[inline]
    pub(crate) fn as_ref(&self) -> Option<&T> {
        self.0.as_deref()
    }

    /// The state, to be changed where it exists.
    #[inline]
    pub(crate) fn as_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }
}

impl<T: Default> Rare<T> {
    /// The state, to be changed; it exists from now on.
    #[inline]
    pub(crate) fn make(&mut self) -> &mut T {
        self.0.get_or_insert_with(begin)
    }
}

#[cold]
fn begin<T: Default>() -> Box<T> {
    Box::default()
}

impl<T: Copy + Default> Rare<T> {
    /// The value.
    pub(crate) fn value(&self) -> T {
        self.as_ref().copied().unwrap_or_default()
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self::NONE
    }
}
