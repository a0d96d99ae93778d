//! Values that belong to a request: to the settings that they were computed for.

/// A value, and the request that it was computed for. Who shows it states which request counts, so a number of other
/// settings cannot be shown by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Computed<T> {
    request: u64,
    value: T,
}

impl<T> Computed<T> {
    /// A value that answers a request.
    pub(crate) const fn new(request: u64, value: T) -> Self {
        Self { request, value }
    }

    /// The value, if it was computed for the settings that count: those of request `current`, which is none while their
    /// answer is on its way.
    pub(crate) fn at(&self, current: Option<u64>) -> Option<&T> {
        (Some(self.request) == current).then_some(&self.value)
    }

    /// The same, to be changed.
    pub(crate) fn at_mut(&mut self, current: Option<u64>) -> Option<&mut T> {
        (Some(self.request) == current).then_some(&mut self.value)
    }

    /// The value, whatever it was computed for: to keep its place and its order, not to show it as an answer.
    pub(crate) const fn last(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_there_only_for_its_own_request() {
        let known = Computed::new(3, "12");
        for (current, shown) in
            [(Some(3), Some("12")), (Some(4), None), (Some(2), None), (None, None)]
        {
            assert_eq!(known.at(current).copied(), shown, "{current:?}");
        }
        assert_eq!(*known.last(), "12");
    }
}
