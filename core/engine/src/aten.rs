//! ATen operators: what each allocates, in order, what it saves for backward, and what its
//! backward allocates. One family per file; an operator's forward and its gradient stand together.
//!
//! Sources are named as ATen names them: `derivatives.yaml` is
//! `tools/autograd/derivatives.yaml`, other files lie under `aten/src/ATen/native`; PyTorch 2.15.
//! The event sequences were compared with those of PyTorch's own binaries.

pub mod attention;
pub mod conv;
mod cub;
pub mod dropout;
pub mod elementwise;
pub mod embedding;
pub mod experts;
pub mod formula;
pub mod head_loss;
pub mod index;
pub mod liger;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod pool;
pub mod preference;
pub mod recurrent;
pub mod reduce;
pub mod softmax;
pub mod spelled;
pub mod tensor_parallel;
pub mod view;
