//! Normalisation that exporters fold or decompose.

use expect_test::expect;

use super::{check, check_with, parse, types};
use crate::config::{Config, Recover};
use crate::diagnostic::Diagnostics;
use crate::recover::recover;

/// A convolution as the TorchScript exporter writes it after folding.
const FOLDED: &str = "
    input x f[2,3,8,8]
    state fc.weight f[10,4]
    state fc.bias f[10]
    state onnx::Conv_7 f[4,3,3,3]
    state onnx::Conv_8 f[4]
    layer.conv1: y = Conv(x, onnx::Conv_7, onnx::Conv_8)
    layer.relu: z = Relu(y)
    pool: p = GlobalAveragePool(z)
    : f = Flatten(p)
    fc: o = Gemm(f, fc.weight, fc.bias) transB=1";

#[test]
fn normalisation_folded_by_torchscript() {
    check(
        FOLDED,
        &expect![[r"
            state layer.conv1.weight float32[4, 3, 3, 3]
            state layer.bn1.weight float32[4]
            state layer.bn1.bias float32[4]
            state layer.bn1.running_mean float32[4]
            state layer.bn1.running_var float32[4]
            state fc.weight float32[10, 4]
            state fc.bias float32[10]
            layer.conv1: y_before = Conv(x, layer.conv1.weight, -)
            layer.bn1: y = BatchNormalization(y_before, layer.bn1.weight, layer.bn1.bias, layer.bn1.running_mean, layer.bn1.running_var) training_mode=1
            layer.relu: z = Relu(y) in_place=1
            pool: p = GlobalAveragePool(z)
            : f = Flatten(p)
            fc: o = Gemm(f, fc.weight, fc.bias) transB=1
            info recovered-normalization
            info assumed-in-place
        "]],
    );
}

#[test]
fn recovery_can_be_switched_off() {
    let config = Config { recover: Recover::Off, ..Config::default() };
    check_with(
        &config,
        FOLDED,
        &expect![[r"
        state fc.weight float32[10, 4]
        state fc.bias float32[10]
        state onnx::Conv_7 float32[4, 3, 3, 3]
        state onnx::Conv_8 float32[4]
        layer.conv1: y = Conv(x, onnx::Conv_7, onnx::Conv_8)
        layer.relu: z = Relu(y) in_place=1
        pool: p = GlobalAveragePool(z)
        : f = Flatten(p)
        fc: o = Gemm(f, fc.weight, fc.bias) transB=1
        error folded-normalization
        info assumed-in-place
    "]],
    );
}

#[test]
fn convolution_that_nothing_was_folded_into() {
    check(
        "input x f[2,3,8,8]
         state conv1.weight f[4,3,3,3]
         state conv1.bias f[4]
         conv1: y = Conv(x, conv1.weight, conv1.bias)",
        &expect![[r"
            state conv1.weight float32[4, 3, 3, 3]
            state conv1.bias float32[4]
            conv1: y = Conv(x, conv1.weight, conv1.bias)
        "]],
    );
}

#[test]
fn normalisation_folded_by_dynamo() {
    check(
        "member 0.weight
         member 0.bias
         member 1.weight
         member 1.bias
         buffer 1.running_mean
         buffer 1.running_var
         input x f[2,3,8,8]
         state 0.weight f[4,3,3,3]
         state 0.weight_bias f[4]
         1: getitem = Conv(x, 0.weight, 0.weight_bias) # aten._native_batch_norm_legit.default torch.nn.modules.batchnorm.BatchNorm2d",
        &expect![[r"
            state 0.weight float32[4, 3, 3, 3]
            state 0.bias float32[4]
            state 1.weight float32[4]
            state 1.bias float32[4]
            state 1.running_mean float32[4]
            state 1.running_var float32[4]
            0: getitem_before = Conv(x, 0.weight, 0.bias)
            1: getitem = BatchNormalization(getitem_before, 1.weight, 1.bias, 1.running_mean, 1.running_var) training_mode=1
            info recovered-normalization
        "]],
    );
}

#[test]
fn group_norm_written_as_instance_norm() {
    check(
        "input x f[2,4,3,3]
         state one f[2] 1,1
         state zero f[2] 0,0
         state to i[3] 0,2,-1
         state back i[4] 2,4,3,3
         state n.weight f[4,1,1]
         state n.bias f[4,1,1]
         n: a = Reshape(x, to)
         n: b = InstanceNormalization(a, one, zero)
         n: c = Reshape(b, back)
         n: d = Mul(c, n.weight)
         n: e = Add(d, n.bias)",
        &expect![[r"
            state n.weight float32[4, 1, 1]
            state n.bias float32[4, 1, 1]
            n: e = GroupNormalization(x, n.weight, n.bias) num_groups=2
            info recovered
        "]],
    );
}

#[test]
fn rms_norm_that_dynamo_took_apart() {
    let file = "
        member n.weight
        input w f[2,5,4]
        state n.weight f[4]
        state two f[] 2
        state eps f[] 0.1
        state last i[1] -1
        : x = Identity(w)
        n: a = Pow(x, two) # CLASS
        n: b = ReduceMean(a, last) # CLASS
        n: c = Add(b, eps) # CLASS
        n: d = Sqrt(c) # CLASS
        n: e = Reciprocal(d) # CLASS
        n: f = Mul(x, e) # CLASS
        n: g = Mul(f, n.weight) # CLASS";
    let class = "aten.mul.Tensor torch.nn.modules.normalization.RMSNorm";
    check(
        &file.replace("CLASS", class),
        &expect![[r"
        state n.weight float32[4]
        : x = Identity(w)
        n: g = RMSNormalization(x, n.weight) axis=-1
        info recovered
    "]],
    );
    check(
        &file.replace("CLASS", "aten.mul.Tensor model.RMSNorm"),
        &expect![[r"
            state n.weight float32[4]
            : x = Identity(w)
            n: g = SpelledRmsNorm(x, n.weight) keeps_input=0 plus_one=0 upcasts=1 weight_first=0
            info recovered
            info recovered
        "]],
    );
}

/// The casts of a model in single precision tell where one in half precision would cast.
#[test]
fn rms_norm_of_transformers() {
    let file = |first: &str, tail: &str| {
        format!(
            "input w f[2,5,4]
             state n.weight f[4]
             state one f[] 1
             state two f[] 2
             state eps f[] 0.1
             state last i[1] -1
             : x = Identity(w)
             n: h = Cast(x) to=1
             n: a = Pow(h, two)
             n: b = ReduceMean(a, last)
             n: c = Add(b, eps)
             n: d = Sqrt(c)
             n: e = Div(one, d)
             n: f = Mul({first}, e)
             {tail}"
        )
    };
    for (tail, flags) in [
        ("n: g = Cast(f) to=1\n n: y = Mul(n.weight, g)", "keeps_input=0 plus_one=0"),
        ("n: y = Mul(n.weight, f)", "keeps_input=1 plus_one=0"),
        (
            "n: k = Cast(n.weight) to=1\n n: l = Add(k, one)\n n: y = Mul(f, l)",
            "keeps_input=0 plus_one=1",
        ),
    ] {
        let graph = parse(&file("h", tail));
        let sink = Diagnostics::default();
        let typed = types(&graph);
        let program = recover(&graph, &typed, &Config::default(), &sink);
        let norm = program.nodes.last().expect("something runs");
        let flag = |name| norm.int(name).unwrap_or_default();
        let (keeps, plus) = (flag("keeps_input"), flag("plus_one"));
        assert_eq!((norm.op.as_str(), flag("upcasts")), ("SpelledRmsNorm", 1), "{tail}");
        assert_eq!(format!("keeps_input={keeps} plus_one={plus}"), flags, "{tail}");
    }
}

#[test]
fn folded_vectors_are_trained_where_they_meet_activations() {
    check(
        "input x f[2,4,8,8]
         input t f[2,1]
         state conv.weight f[4,4,1,1]
         state onnx::Mul_7 f[1,4,1,1]
         state onnx::Mul_8 f[1,4]
         state onnx::Add_9 f[1,4,8,8]
         conv: a = Conv(x, conv.weight)
         block.ls: b = Mul(a, onnx::Mul_7)
         block: c = Add(b, onnx::Add_9)
         time: s = Mul(t, onnx::Mul_8)
         : y = Concat(c, s) axis=0",
        &expect![[r"
            state conv.weight float32[4, 4, 1, 1]
            state block.ls.weight float32[1, 4, 1, 1]
            state onnx::Mul_8 float32[1, 4]
            state onnx::Add_9 float32[1, 4, 8, 8]
            conv: a = Conv(x, conv.weight)
            block.ls: b = Mul(a, block.ls.weight)
            block: c = Add(b, onnx::Add_9)
            time: s = Mul(t, onnx::Mul_8)
            : y = Concat(c, s) axis=0
            info recovered-parameters
        "]],
    );
}

#[test]
fn standardised_weights_are_normalised_with_their_own_statistics() {
    check(
        "input x f[2,3,8,8]
         state onnx::BatchNormalization_1 f[1,4,27]
         state onnx::BatchNormalization_2 f[4]
         state conv.Constant f[4]
         state onnx::ReduceMean_3 f[1,27,4]
         state shape i[4] 4,3,3,3
         conv: m = ReduceMean(onnx::ReduceMean_3) axes=[0,1] keepdims=0
         conv: k = ReduceMean(onnx::ReduceMean_3) axes=[0,1] keepdims=1
         conv: d = Sub(onnx::ReduceMean_3, k)
         conv: e = Mul(d, d)
         conv: v = ReduceMean(e) axes=[0,1] keepdims=0
         conv: n = BatchNormalization(onnx::BatchNormalization_1, onnx::BatchNormalization_2, conv.Constant, m, v)
         conv: w = Reshape(n, shape)
         conv: y = Conv(x, w)",
        &expect![[r"
            state conv.weight float32[1, 4, 27]
            state conv.gain float32[4]
            state shape int64[4]
            conv: n = BatchNormalization(conv.weight, conv.gain, -) training_mode=1
            conv: w = Reshape(n, shape)
            conv: y = Conv(x, w)
            info recovered
        "]],
    );
}
