//! Dropout and stochastic depth that exporters remove.

use expect_test::expect;

use super::{check, check_with, recovered};
use crate::config::{Config, Dropout};

#[test]
fn dropout_of_a_known_family() {
    check(
        "input ids i[2,5]
         input pos i[2,5]
         state transformer.wte.weight f[100,4]
         state transformer.wpe.weight f[50,4]
         state transformer.h.0.ln_1.weight f[4]
         state transformer.h.0.ln_1.bias f[4]
         state transformer.h.0.attn.c_attn.weight f[4,4]
         state transformer.h.0.attn.c_proj.weight f[4,4]
         transformer.wte: t = Gather(transformer.wte.weight, ids)
         transformer.wpe: p = Gather(transformer.wpe.weight, pos)
         transformer: x = Add(t, p)
         transformer.h.0.ln_1: n = LayerNormalization(x, transformer.h.0.ln_1.weight, transformer.h.0.ln_1.bias)
         transformer.h.0.attn.c_attn: a = MatMul(n, transformer.h.0.attn.c_attn.weight)
         transformer.h.0.attn.c_proj: b = MatMul(a, transformer.h.0.attn.c_proj.weight)
         transformer.h.0: y = Add(b, x)",
        &expect![[r"
            state transformer.wte.weight float32[100, 4]
            state transformer.wpe.weight float32[50, 4]
            state transformer.h.0.ln_1.weight float32[4]
            state transformer.h.0.ln_1.bias float32[4]
            state transformer.h.0.attn.c_attn.weight float32[4, 4]
            state transformer.h.0.attn.c_proj.weight float32[4, 4]
            b until y
            transformer.wte: t = Gather(transformer.wte.weight, ids)
            transformer.wpe: p = Gather(transformer.wpe.weight, pos)
            transformer: x_before = Add(t, p)
            transformer.h.0.ln_1: x = Dropout(x_before) ratio=0.1
            transformer.h.0.ln_1: n = LayerNormalization(x, transformer.h.0.ln_1.weight, transformer.h.0.ln_1.bias)
            transformer.h.0.attn.c_attn: a = Linear(n, transformer.h.0.attn.c_attn.weight) transposed=0
            transformer.h.0.attn.c_proj: b_before = Linear(a, transformer.h.0.attn.c_proj.weight) transposed=0
            transformer.h.0.attn.c_proj: b = Dropout(b_before) ratio=0.1
            transformer.h.0: y = Add(b, x)
            info recovered
            info assumed-dropout
            info assumed-names
        "]],
    );
}

#[test]
fn dropout_that_a_number_tells() {
    check(
        "input x f[2,4]
         state classifier.1.weight f[6,4]
         state classifier.3.weight f[6,6]
         classifier.0: f = Flatten(x)
         classifier.1: a = Gemm(f, classifier.1.weight) transB=1
         classifier.3: b = Gemm(a, classifier.3.weight) transB=1",
        &expect![[r"
            state classifier.1.weight float32[6, 4]
            state classifier.3.weight float32[6, 6]
            classifier.0: f = Flatten(x)
            classifier.1: a_before = Gemm(f, classifier.1.weight) transB=1
            classifier.2: a = Dropout(a_before) ratio=0.5
            classifier.3: b = Gemm(a, classifier.3.weight) transB=1
            info assumed-dropout
        "]],
    );
}

#[test]
fn stochastic_depth_draws_its_noise_in_place() {
    check(
        "input w f[2,3]
         input u f[2,1]
         state p f[] 0.8
         : x = Identity(w)
         d: r = RandomUniformLike(u)
         d: l = Less(r, p)
         d: n = Cast(l) to=1
         d: s = Div(n, p)
         d: y = Mul(x, s)",
        &expect![[r"
            : x = Identity(w)
            d: y = StochasticDepth(x)
            info recovered
        "]],
    );
}

#[test]
fn torchvision_drops_out_in_place_in_some_heads() {
    check(
        "input w f[2,3]
         input u f[2,3,1,1]
         state features.1.0.block.1.fc1.weight f[3,3,1,1]
         state classifier.1.weight f[3,3]
         features.1.0.block.1.fc1: v = Conv(u, features.1.0.block.1.fc1.weight)
         : x = Flatten(v)
         classifier.0: y = Dropout(x)
         classifier.1: z = Gemm(y, classifier.1.weight)",
        &expect![[r"
            state features.1.0.block.1.fc1.weight float32[3, 3, 1, 1]
            state classifier.1.weight float32[3, 3]
            features.1.0.block.1.fc1: v = Conv(u, features.1.0.block.1.fc1.weight)
            : x = Flatten(v)
            classifier.0: y = Dropout(x) in_place=1
            classifier.1: z = Gemm(y, classifier.1.weight)
            info assumed-in-place
        "]],
    );
}

#[test]
fn dropout_runs_where_the_user_says() {
    let file = "
        input x f[2,5,4]
        state w f[4,4]
        state c f[10,4]
        a: h = MatMul(x, w)
        a: y = Add(x, h)
        a: d = Identity(y)
        b: m = Dropout(d)
        b: z = MatMul(m, w)";
    let with = |dropout, file: &str, expected| {
        check_with(&Config { dropout, ..Config::default() }, file, expected);
    };
    with(
        Dropout::Off,
        file,
        &expect![[r"
        state w float32[4, 4]
        a: h = Linear(x, w) transposed=0
        a: y = Add(x, h)
        a: d = Identity(y)
        b: m = Identity(d)
        b: z = Linear(m, w) transposed=0
        info recovered
    "]],
    );
    with(
        Dropout::On,
        file,
        &expect![[r"
        state w float32[4, 4]
        a: h = Linear(x, w) transposed=0
        a: y = Add(x, h)
        a: d = Identity(y)
        b: m = Dropout(d)
        b: z = Linear(m, w) transposed=0
        info recovered
    "]],
    );
    let bare = file.replace("b: m = Dropout(d)", "b: m = Relu(d)");
    with(
        Dropout::Auto,
        &bare,
        &expect![[r"
            state w float32[4, 4]
            a: h = Linear(x, w) transposed=0
            a: y = Add(x, h)
            a: d = Identity(y)
            b: m = Relu(d)
            b: z = Linear(m, w) transposed=0
            warning no-dropout
            info recovered
        "]],
    );
    with(
        Dropout::On,
        &bare,
        &expect![[r"
        state w float32[4, 4]
        a: h_before = Linear(x, w) transposed=0
        a: h = Dropout(h_before) ratio=0.1
        a: y = Add(x, h)
        a: d = Identity(y)
        b: m = Relu(d)
        b: z = Linear(m, w) transposed=0
        info recovered
        info assumed-dropout
    "]],
    );
}

#[test]
fn modules_that_are_missing_inside_of_blocks_are_pointed_out() {
    // Of an `nn.Sequential(Linear, ReLU, Dropout, Linear)` with its second layer at LAST.
    let file = "
        input x f[2,4]
        state BLOCK.0.weight f[4,4]
        state BLOCK.LAST.weight f[4,4]
        BLOCK.0: a = Gemm(x, BLOCK.0.weight) transB=1
        BLOCK.1: b = Relu(a)
        BLOCK.LAST: y = Gemm(b, BLOCK.LAST.weight) transB=1";
    for (block, last, expected) in [
        ("layers.0.steps", 3, "warning missing-modules\n"),
        ("layers.0.steps", 2, ""),
        // torchvision's `MLP`, whose dropout has the probability zero.
        ("layers.0.mlp", 3, ""),
    ] {
        let file = file.replace("BLOCK", block).replace("LAST", &last.to_string());
        let text = format!(
            "state {block}.0.weight float32[4, 4]\nstate {block}.{last}.weight float32[4, 4]\n\
             {block}.0: a = Gemm(x, {block}.0.weight) transB=1\n{block}.1: b = Relu(a)\n\
             {block}.{last}: y = Gemm(b, {block}.{last}.weight) transB=1\n{expected}"
        );
        assert_eq!(recovered(&Config::default(), &file), text, "{block} {last}");
    }
}

#[test]
fn dropout_in_front_of_the_last_convolution_of_a_residual_block() {
    // Of wide residual networks, with the second normalisation folded into the first convolution or not.
    let file = "
        input x f[2,3,8,8]
        state bn1.weight f[3]
        state bn1.bias f[3]
        state bn1.running_mean f[3]
        state bn1.running_var f[3]
        state conv1.weight f[3,3,3,3]
        state conv2.weight f[3,3,3,3]
        conv1: a = Conv(x, conv1.weight) pads=[1,1,1,1]
        bn1: n = BatchNormalization(a, bn1.weight, bn1.bias, bn1.running_mean, bn1.running_var)
        relu: r = Relu(n)
        conv2: c = Conv(r, conv2.weight) pads=[1,1,1,1]
        : y = Add(c, x)";
    let on = Config { dropout: Dropout::On, ..Config::default() };
    let found = recovered(&on, file);
    assert!(found.contains("Dropout(r_before) ratio=0.1\nconv2: c = Conv(r,"), "{found}");
    // A mask of bytes, and a result.
    let told = |file: &str| recovered(&Config::default(), file).contains("info no-dropout");
    assert!(told(file));
    assert!(!told(&file.replace("running_var)", "running_var) training_mode=1")));
    assert!(!told(
        &file.replace("conv2: c = Conv(r, conv2.weight)", "conv2: c = Conv(n, conv2.weight)")
    ));
}

#[test]
fn dropout_in_front_of_linear_layers_may_be_missing() {
    // As a function (`F.dropout`), it leaves no gap among numbers.
    let file = "
        input x f[64,3,8,8]
        state conv.weight f[64,3,3,3]
        state fc.weight f[10,2304]
        conv: a = Conv(x, conv.weight)
        : b = Relu(a)
        : c = Flatten(b)
        fc: y = Gemm(c, fc.weight) transB=1";
    let told = |file: &str| recovered(&Config::default(), file).contains("warning no-dropout");
    assert!(told(file));
    assert!(!told(&file.replace(": b = Relu(a)", ": b = Dropout(a)")));
    assert!(!told(&file.replace("Flatten(b)", "Flatten(x)").replace("[10,2304]", "[10,192]")));
}
