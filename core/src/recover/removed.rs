//! What exporters remove for inference and training would need: said, where it shows.
//!
//! Both of PyTorch's exporters fold batch normalisation into the convolution before it, and drop
//! dropout, unless they are told that the model is to be trained. TorchScript gives the weights it
//! changed made-up names (`onnx::Conv_497`); the dynamo exporter leaves the normalisation's name on
//! the surviving node and its statistics in the signature.

use crate::diagnostic::{Diagnostic, Severity};
use crate::graph::{Graph, Node};

/// How to export a model as it is trained.
const EXPORT_HINT: &str = "export the model as it is trained: \
    `torch.onnx.export(model.train(), args, \"model.onnx\", dynamo=True, optimize=False)`, or with \
    `dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False`";

/// What is missing from the graph, as the user should know it.
pub(super) fn find(graph: &Graph) -> Vec<Diagnostic> {
    let folded = graph.nodes.iter().filter(|node| is_folded(graph, node)).count();
    if folded > 0 {
        let message = format!(
            "{folded} normalisations were folded into convolutions by the exporter, and what they \
             keep for backward is missing here; {EXPORT_HINT}"
        );
        return vec![Diagnostic::new(Severity::Error, "folded-normalization", message)];
    }
    let has = |op: &str| graph.nodes.iter().any(|node| node.op == op);
    if has("Softmax") && has("LayerNormalization") && !has("Dropout") {
        let message = format!(
            "the file has no dropout: either the model has none, or it was exported for inference; \
             if it trains with dropout, {EXPORT_HINT}"
        );
        return vec![Diagnostic::new(Severity::Info, "no-dropout", message)];
    }
    Vec::new()
}

fn is_folded(graph: &Graph, node: &Node) -> bool {
    if node.op != "Conv" {
        return false;
    }
    let is_norm = |class: &str| class.contains("BatchNorm");
    let by_origin = node.origin.as_ref().is_some_and(|origin| is_norm(&origin.class));
    let weight = node.input(1).map_or("", |weight| graph.value_name(weight));
    by_origin || weight.starts_with("onnx::Conv_")
}
