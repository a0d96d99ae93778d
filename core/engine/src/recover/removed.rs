//! Reports operators that the exporter removed and that cannot be restored, where the file shows them.

use super::{View, batch_norm, dropout};
use crate::config::{Config, Dropout, Recover};
use crate::diagnostic::Severity;
use crate::graph::Node;

/// How to export a model as it is trained.
pub(super) const EXPORT_HINT: &str = "export the model as it is trained: \
    `torch.onnx.export(model.train(), args, \"model.onnx\", dynamo=True, optimize=False)`, or with \
    `dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False`";

/// What is missing from the graph, as the user should know it.
pub(super) fn report(view: &View<'_>, config: &Config) {
    let folded = view.nodes().filter(|(_, node)| batch_norm::is_folded(view.graph(), node)).count();
    if config.recover == Recover::Off && folded > 0 {
        let message = say!(
            "{folded} normalisations were folded into convolutions by the exporter, and what they \
             keep for backward is missing here; {export_hint}",
            folded,
            export_hint = EXPORT_HINT
        );
        view.say(Severity::Error, "folded-normalization", message);
        return;
    }
    let spelled_out = |node: &Node| {
        let origin = node.origin.as_ref();
        let class = origin.map_or("", |origin| origin.class.as_str());
        node.op == "Softmax"
            && class.starts_with("transformers.models.")
            && class.ends_with("Attention")
    };
    let count = view.nodes().filter(|(_, node)| spelled_out(node)).count();
    if count > 0 {
        let message = say!(
            "attention is spelled out in {count} modules of transformers and is assumed to be trained \
             so (`attn_implementation=\"eager\"`); a model that is trained with the default keeps \
             less, where it was only exported so",
            count
        );
        view.say(Severity::Info, "spelled-out-attention", message);
    }
    let has = |op: &str| view.nodes().any(|(_, node)| node.op == op);
    let attends = has("Softmax") || has("Attention");
    let is_asked = config.drops() == Dropout::Auto;
    if is_asked && attends && has("LayerNormalization") && !has("Dropout") {
        let message = say!(
            "the file has no dropout: either the model has none, or it was exported for inference; \
             if it trains with dropout, set dropout to `on`, or {export_hint}",
            export_hint = EXPORT_HINT
        );
        let is_missed = dropout::is_missed(view);
        let severity = if is_missed { Severity::Warning } else { Severity::Info };
        view.say(severity, "no-dropout", message);
    } else if let Some((count, kept)) =
        dropout::missing_from_blocks(view).filter(|_| is_asked && !has("Dropout"))
    {
        let message = say!(
            "the file has no dropout: either the model has none, or it was exported for inference. In \
             front of the last convolution of its {count} residual blocks, where such networks may have it, \
             dropout would keep {kept} more until backward; if it trains so, set dropout to `on`, or {export_hint}",
            count,
            kept,
            export_hint = EXPORT_HINT
        );
        view.say(Severity::Info, "no-dropout", message);
    } else if let Some((kept, matters)) =
        dropout::missing_elsewhere(view).filter(|_| is_asked && !has("Dropout"))
    {
        let message = say!(
            "the file has no dropout: either the model has none, or it was exported for inference. Between its \
             recurrent layers, and in front of the linear layers that read an activation, dropout would keep up to \
             {kept} more until backward: if it trains with dropout, {export_hint}",
            kept,
            export_hint = EXPORT_HINT
        );
        let severity = if matters { Severity::Warning } else { Severity::Info };
        view.say(severity, "no-dropout", message);
    }
}
