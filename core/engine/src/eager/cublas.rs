//! Workspaces of cuBLAS and cuBLASLt, by version of PyTorch.
//!
//! Since 2.15 each product allocates one after its output and frees it at once. Before, the first
//! product of a thread (the forward's, and the engine's for backward) made one that stays.
//! `aten/src/ATen/cuda/CublasHandlePool.cpp`, `CUDABlas.cpp`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::Runtime;
use super::recorder::Storage;
use crate::bytes::Bytes;

/// SIZE: workspace of a cuBLASLt call (`CUBLASLT_WORKSPACE_SIZE`).
const LT_WORKSPACE: Bytes = Bytes::mib(1);

/// What threads have made and keep.
#[derive(Debug, Default)]
pub(super) struct State {
    in_backward: Cell<bool>,
    forward: RefCell<Option<Rc<Storage>>>,
    backward: RefCell<Option<Rc<Storage>>>,
}

impl Runtime {
    /// A product by cuBLAS, its output made already.
    pub fn cublas(&self) {
        if self.is_tracing() {
            return;
        }
        let made = || self.scratch_by(&[], |hardware, _| Some(hardware.cublas_workspace));
        if !self.pytorch.keeps_cublas_workspaces() {
            return drop(made());
        }
        let state = &self.cublas;
        let kept = if state.in_backward.get() { &state.backward } else { &state.forward };
        if kept.borrow().is_none() {
            kept.replace(made());
        }
    }

    /// A product by cuBLASLt, which fuses the bias. From 2.9 to 2.14 it uses cuBLAS's workspace.
    pub fn cublas_lt(&self) {
        if self.is_tracing() {
            return;
        }
        if self.pytorch.keeps_cublas_workspaces() {
            // Its handle is cuBLAS's, whose workspace comes with it.
            self.cublas();
        }
        if !self.pytorch.shares_cublas_workspaces() {
            self.workspace(LT_WORKSPACE);
        }
    }

    /// Runs `body` in the engine's thread.
    pub(super) fn in_backward_thread<T>(&self, body: impl FnOnce() -> T) -> T {
        let before = self.cublas.in_backward.replace(true);
        let result = body();
        self.cublas.in_backward.set(before);
        result
    }
}
