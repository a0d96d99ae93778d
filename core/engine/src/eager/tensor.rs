//! [`Tensor`]: a type, strides, a share of a storage, and where gradients go.

use std::rc::Rc;

use super::autograd::Edge;
use super::layout;
use super::recorder::Storage;
use crate::bytes::Bytes;
use crate::config::MemoryFormat;
use crate::tensor::{self, DType, Dims, TensorType};
use crate::trace::StorageId;

/// A handle; clones are further references to one tensor, as in Python.
#[derive(Clone, Debug)]
pub struct Tensor(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    storage: Rc<Storage>,
    dtype: DType,
    sizes: Dims,
    strides: Dims,
    edge: Option<Edge>,
    /// What this is a view of; a view holds its base, and so a share of the storage more.
    base: Option<Tensor>,
}

impl Tensor {
    pub(super) fn new(
        storage: Rc<Storage>,
        dtype: DType,
        sizes: impl AsRef<[u64]>,
        strides: impl AsRef<[u64]>,
    ) -> Self {
        Self(Rc::new(Inner {
            storage,
            dtype,
            sizes: Dims::from_slice(sizes.as_ref()),
            strides: Dims::from_slice(strides.as_ref()),
            edge: None,
            base: None,
        }))
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Dimensions, outermost first.
    pub fn sizes(&self) -> &[u64] {
        &self.0.sizes
    }

    /// Elements to step over per dimension.
    pub fn strides(&self) -> &[u64] {
        &self.0.strides
    }

    /// One dimension; 1 where there is none.
    pub fn size(&self, dim: usize) -> u64 {
        self.0.sizes.get(dim).copied().unwrap_or(1)
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.sizes.len()
    }

    /// COUNT: elements.
    pub fn numel(&self) -> u64 {
        tensor::numel(self.sizes())
    }

    /// SIZE: all elements.
    pub fn nbytes(&self) -> Bytes {
        self.dtype().size().times(self.numel())
    }

    /// Whether elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        layout::is_contiguous(self.sizes(), self.strides())
    }

    /// Whether elements lie without gaps in a format's order.
    pub fn is_contiguous_in(&self, format: MemoryFormat) -> bool {
        layout::is_contiguous_in(self.sizes(), self.strides(), format)
    }

    /// The format that its strides look most like (`suggest_memory_format`).
    pub fn suggested_format(&self) -> MemoryFormat {
        layout::suggested_format(self.sizes(), self.strides())
    }

    /// Whether elements fill their memory without gaps, in any order.
    pub fn is_dense(&self) -> bool {
        layout::is_dense(self.sizes(), self.strides())
    }

    /// Whether gradients flow to it.
    pub fn requires_grad(&self) -> bool {
        self.0.edge.is_some()
    }

    /// Whether its gradient is accumulated: a parameter itself, no view and nothing computed.
    pub fn is_leaf(&self) -> bool {
        self.0.base.is_none() && self.0.edge.as_ref().is_some_and(Edge::is_leaf)
    }

    /// Where its gradient goes.
    pub fn edge(&self) -> Option<&Edge> {
        self.0.edge.as_ref()
    }

    /// The same memory seen with other sizes and strides; cut off from autograd.
    #[must_use]
    pub fn alias(&self, sizes: impl AsRef<[u64]>, strides: impl AsRef<[u64]>) -> Self {
        Self::new(Rc::clone(&self.0.storage), self.0.dtype, sizes, strides)
    }

    /// A view of this tensor, as a view operator makes it: it holds its base.
    #[must_use]
    pub fn view_of(&self, sizes: impl AsRef<[u64]>, strides: impl AsRef<[u64]>) -> Self {
        self.view_as(self.0.dtype, sizes, strides)
    }

    /// The same with elements of another type: complex numbers as pairs, and pairs as complex numbers.
    #[must_use]
    pub fn view_as(
        &self,
        dtype: DType,
        sizes: impl AsRef<[u64]>,
        strides: impl AsRef<[u64]>,
    ) -> Self {
        let base = self.0.base.clone().unwrap_or_else(|| self.detach());
        Self(Rc::new(Inner {
            storage: Rc::clone(&self.0.storage),
            dtype,
            sizes: Dims::from_slice(sizes.as_ref()),
            strides: Dims::from_slice(strides.as_ref()),
            edge: None,
            base: Some(base),
        }))
    }

    /// This tensor under other sizes: the only handle there is, so nothing is held besides.
    #[must_use]
    pub fn alias_sole(self, sizes: impl AsRef<[u64]>, strides: impl AsRef<[u64]>) -> Self {
        self.alias(sizes, strides)
    }

    /// The tensor that an in-place operator returns: the same memory, about to get a new history.
    #[must_use]
    pub fn alias_in_place(&self) -> Self {
        self.detach()
    }

    /// The same memory under another type, row by row; cut off from autograd.
    pub(crate) fn as_type(&self, ty: &TensorType) -> Self {
        let strides = layout::contiguous_strides(&ty.dims);
        Self::new(Rc::clone(&self.0.storage), ty.dtype, &ty.dims, strides)
    }

    /// The same memory seen as another tensor is; cut off from autograd.
    pub(crate) fn seen_as(&self, like: &Self) -> Self {
        Self::new(Rc::clone(&self.0.storage), like.dtype(), like.sizes(), like.strides())
    }

    /// The same memory, cut off from autograd: what a node saves.
    #[must_use]
    pub fn detach(&self) -> Self {
        self.with(None, None)
    }

    /// The same memory, with a gradient that goes to `edge`.
    #[must_use]
    pub fn with_edge(&self, edge: Edge) -> Self {
        self.with(Some(edge), self.0.base.clone())
    }

    fn with(&self, edge: Option<Edge>, base: Option<Self>) -> Self {
        let inner = Inner {
            storage: Rc::clone(&self.0.storage),
            dtype: self.0.dtype,
            sizes: self.0.sizes.clone(),
            strides: self.0.strides.clone(),
            edge,
            base,
        };
        Self(Rc::new(inner))
    }

    /// Whether nobody else holds this tensor (`use_count() == 1`).
    pub fn is_unique(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }

    /// Whether nobody else holds this tensor or any view of its memory.
    pub fn owns_storage_alone(&self) -> bool {
        self.is_unique() && Rc::strong_count(&self.0.storage) == 1
    }

    /// Its storage's place in the trace.
    pub fn storage_id(&self) -> StorageId {
        self.0.storage.id()
    }
}
