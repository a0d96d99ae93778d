//! Calls of ATen that are one operator of a graph: what readers of programs and `recover` both ask.

/// Domain of operators that PyTorch has and ONNX has not.
pub const TORCH: &str = "torch";

/// Calls that are one operator of their first argument and their attributes: its domain and its name here.
pub const UNARY: &[(&str, &str, &str)] = &[
    ("aten.abs", "", "Abs"),
    ("aten.acos", "", "Acos"),
    ("aten.acosh", "", "Acosh"),
    ("aten.asin", "", "Asin"),
    ("aten.asinh", "", "Asinh"),
    ("aten.atan", "", "Atan"),
    ("aten.atanh", "", "Atanh"),
    ("aten.bitwise_not", "", "Not"),
    ("aten.ceil", "", "Ceil"),
    ("aten.celu", "", "Celu"),
    ("aten.cos", "", "Cos"),
    ("aten.cosh", "", "Cosh"),
    ("aten.deg2rad", TORCH, "Deg2rad"),
    ("aten.digamma", TORCH, "Digamma"),
    ("aten.elu", "", "Elu"),
    ("aten.erf", "", "Erf"),
    ("aten.erfc", "", "Erfc"),
    ("aten.erfinv", TORCH, "Erfinv"),
    ("aten.exp", "", "Exp"),
    ("aten.exp2", TORCH, "Exp2"),
    ("aten.expm1", TORCH, "Expm1"),
    ("aten.floor", "", "Floor"),
    ("aten.gelu", TORCH, "Gelu"),
    ("aten.hardshrink", "", "Shrink"),
    ("aten.hardsigmoid", "", "HardSigmoid"),
    ("aten.hardswish", "", "HardSwish"),
    ("aten.isinf", "", "IsInf"),
    ("aten.isnan", "", "IsNaN"),
    ("aten.leaky_relu", "", "LeakyRelu"),
    ("aten.log", "", "Log"),
    ("aten.log10", TORCH, "Log10"),
    ("aten.log1p", TORCH, "Log1p"),
    ("aten.log2", TORCH, "Log2"),
    ("aten.log_sigmoid", TORCH, "LogSigmoid"),
    ("aten.logical_not", "", "Not"),
    ("aten.logit", TORCH, "Logit"),
    ("aten.mish", "", "Mish"),
    ("aten.neg", "", "Neg"),
    ("aten.rad2deg", TORCH, "Deg2rad"),
    ("aten.reciprocal", "", "Reciprocal"),
    ("aten.relu", "", "Relu"),
    ("aten.round", "", "Round"),
    ("aten.rsqrt", TORCH, "Rsqrt"),
    ("aten.selu", "", "Selu"),
    ("aten.sigmoid", "", "Sigmoid"),
    ("aten.sign", "", "Sign"),
    ("aten.silu", TORCH, "Silu"),
    ("aten.sin", "", "Sin"),
    ("aten.sinh", "", "Sinh"),
    ("aten.softplus", "", "Softplus"),
    ("aten.softshrink", "", "Shrink"),
    ("aten.sqrt", "", "Sqrt"),
    ("aten.tan", "", "Tan"),
    ("aten.tanh", "", "Tanh"),
    ("aten.threshold", "", "ThresholdedRelu"),
    ("aten.contiguous", TORCH, "Contiguous"),
    ("aten.flip", TORCH, "Flip"),
    ("aten.tril", "", "Trilu"),
    ("aten.triu", "", "Trilu"),
];

/// Calls that the reader of exported programs has a row for and that have a formula as well; who asks for the names
/// alone brings no rule along.
pub const WITH_FORMULA: [&str; 32] = [
    "aten.adaptive_avg_pool2d",
    "aten.add",
    "aten.addmm",
    "aten.clamp",
    "aten.clone",
    "aten.cross_entropy_loss",
    "aten.div",
    "aten.dropout",
    "aten.embedding",
    "aten.eq",
    "aten.ge",
    "aten.gt",
    "aten.index",
    "aten.le",
    "aten.lift_fresh_copy",
    "aten.linear",
    "aten.log_softmax",
    "aten.logical_and",
    "aten.logical_or",
    "aten.logical_xor",
    "aten.lt",
    "aten.mm",
    "aten.mul",
    "aten.ne",
    "aten.pow",
    "aten.rsub",
    "aten.slice",
    "aten.softmax",
    "aten.sub",
    "aten.sum",
    "aten.to",
    "aten.true_divide",
];

/// Whether a call, without its overload, has such a row and need not run as its formula.
pub fn has_row(aten: &str) -> bool {
    unary(aten).is_some() || WITH_FORMULA.contains(&aten)
}

/// Domain and name of the operator that a call of one tensor is.
pub fn unary(aten: &str) -> Option<(&'static str, &'static str)> {
    UNARY.iter().find(|(known, ..)| *known == aten).map(|(_, domain, op)| (*domain, *op))
}
