//! Attention: scores, masks and rotation.

use expect_test::expect;

use super::{check, check_with, recovered};
use crate::config::{Attention, Config};

#[test]
fn attention_that_dynamo_noted() {
    let call = "aten.scaled_dot_product_attention.default A | %sdpa : [num_users=1] = \
                call_function[target=torch.ops.aten.scaled_dot_product_attention.default](args = \
                (%q, %k, %gone), kwargs = {})";
    let file = "
        input q f[2,3,5,4]
        input k f[2,3,5,4]
        input w f[2,3,5,4]
        state s f[1] 0.5
        a: v = Identity(w)
        a: k2 = Transpose(k) perm=[0,1,3,2] # CALL
        a: q3 = Mul(q, s) # CALL
        a: k3 = Mul(k2, s) # CALL
        a: p = MatMul(q3, k3) # CALL
        a: m = Softmax(p) # CALL
        a: sdpa = MatMul(m, v) # CALL";
    check(
        &file.replace("CALL", call),
        &expect![[r"
            a: v = Identity(w)
            a: sdpa = Attention(q, k, v) drops=0
            info recovered
        "]],
    );
}

#[test]
fn scores_of_bloom_are_one_product() {
    check(
        "input w f[2,5,4]
         input v f[2,4,5]
         input z f[2,1,5]
         state scale f[] 0.5
         state one f[] 1
         t.h.0.self_attention: m = MatMul(w, v)
         t.h.0.self_attention: s = Mul(m, scale)
         t.h.0.self_attention: b = Mul(z, one)
         t.h.0.self_attention: y = Add(s, b)
         t.h.0.self_attention: p = Softmax(y) axis=-1",
        &expect![[r"
            y until p
            y until p
            t.h.0.self_attention: y = Baddbmm(z, w, v) scales=1
            t.h.0.self_attention: p = Softmax(y) axis=-1
            info recovered
        "]],
    );
}

#[test]
fn a_mask_of_zeros_is_a_tensor_in_the_type_of_the_queries() {
    check(
        "input q f[2,3,64,4]
         input k f[2,3,64,4]
         input v f[2,3,64,4]
         state root f[] 0.7
         state sizes i[4] 1,3,64,64
         a: z = ConstantOfShape(sizes)
         a: q2 = Mul(q, root)
         a: kt = Transpose(k) perm=[0,1,3,2]
         a: k2 = Mul(kt, root)
         a: s = MatMul(q2, k2)
         a: m = Add(s, z)
         a: p = Softmax(m) axis=-1
         a: y = MatMul(p, v)",
        &expect![[r"
            a: z = ZerosLike(q)
            a: y = Attention(q, k, v, z) drops=0 key_order=[0, 1, 2, 3]
            warning assumed-attention
            info recovered
            info recovered
        "]],
    );
}

#[test]
fn rotation_holds_its_arguments_until_both_are_turned() {
    check(
        "input x f[2,4]
         input y f[2,4]
         input c f[2,4]
         input s f[2,4]
         state zero i[1] 0
         state half i[1] 2
         state end i[1] 4
         state last i[1] 1
         a: q = Sigmoid(x)
         a: q1 = Slice(q, zero, half, last)
         a: q2 = Slice(q, half, end, last)
         a: q3 = Neg(q2)
         a: q4 = Concat(q3, q1) axis=1
         a: q5 = Mul(q, c)
         a: q6 = Mul(q4, s)
         a: q7 = Add(q5, q6)
         a: k = Sigmoid(y)
         a: k1 = Slice(k, zero, half, last)
         a: k2 = Slice(k, half, end, last)
         a: k3 = Neg(k2)
         a: k4 = Concat(k3, k1) axis=1
         a: k5 = Mul(k, c)
         a: k6 = Mul(k4, s)
         a: k7 = Add(k5, k6)
         a: r = Add(q7, k7)",
        &expect![[r"
            state zero int64[1]
            state half int64[1]
            state end int64[1]
            state last int64[1]
            q until k7
            k until k7
            a: q = Sigmoid(x)
            a: q1 = Slice(q, zero, half, last)
            a: q2 = Slice(q, half, end, last)
            a: q3 = Neg(q2)
            a: q4 = Concat(q3, q1) axis=1
            a: q5 = Mul(q, c)
            a: q6 = Mul(q4, s)
            a: q7 = Add(q5, q6)
            a: k = Sigmoid(y)
            a: k1 = Slice(k, zero, half, last)
            a: k2 = Slice(k, half, end, last)
            a: k3 = Neg(k2)
            a: k4 = Concat(k3, k1) axis=1
            a: k5 = Mul(k, c)
            a: k6 = Mul(k4, s)
            a: k7 = Add(k5, k6)
            a: r = Add(q7, k7)
        "]],
    );
}

#[test]
fn a_mask_is_every_modules_own() {
    check(
        "input x f[2,2]
         state onnx::Where_7 b[1,1,2,2]
         h.0: a = Where(onnx::Where_7, x, x)
         h.1: b = Where(onnx::Where_7, a, x)",
        &expect![[r"
            state onnx::Where_7 bool[1, 1, 2, 2]
            state h.1.bias bool[1, 1, 2, 2]
            h.0: a = Where(onnx::Where_7, x, x)
            h.1: b = Where(h.1.bias, a, x)
            info separate-masks
        "]],
    );
}

#[test]
fn attention_that_is_spelled_out_is_fused_when_asked() {
    let config = Config { attention: Attention::Sdpa, ..Config::default() };
    check_with(
        &config,
        "input tokens i[2,64]
         input q f[2,3,64,4]
         input k f[2,3,64,4]
         input v f[2,3,64,4]
         input mask f[2,1,64,64]
         state root f[] 0.7
         a: kt = Transpose(k) perm=[0,1,3,2]
         a: s = MatMul(q, kt)
         a: scaled = Mul(s, root)
         a: m = Add(scaled, mask)
         a: p = Softmax(m) axis=-1
         a: y = MatMul(p, v)",
        &expect![[r"
            a: y = Attention(q, k, v) drops=0 key_order=[0, 1, 2, 3] masked=1
            info attention-setting
        "]],
    );
}

#[test]
fn fused_attention_is_spelled_out_when_asked() {
    let config = Config { attention: Attention::Eager, ..Config::default() };
    check_with(
        &config,
        "input tokens i[2,64]
         input q f[2,3,64,4]
         input k f[2,3,64,4]
         input v f[2,3,64,4]
         input visible f[2,1,64,64]
         state root f[] 0.7
         a: q2 = Mul(q, root)
         a: kt = Transpose(k) perm=[0,1,3,2]
         a: k2 = Mul(kt, root)
         a: s = MatMul(q2, k2)
         a: m = Add(s, visible)
         a: p = Softmax(m) axis=-1
         a: y = MatMul(p, v)",
        &expect![[r"
            a: y = Attention(q, k, v, attention_mask_4d) drops=0 eager=1 key_order=[0, 1, 2, 3] masked=1
            info recovered
            info attention-mask
            info attention-setting
        "]],
    );
}

#[test]
fn relative_position_biases_that_folding_computed() {
    let file = "
        input x f[2,3,16,16]
        state attn.q.weight f[16,5]
        state onnx::Add_7 f[1,3,16,16]
        attn: q = MatMul(x, attn.q.weight)
        attn: s = Transpose(q) perm=[0,1,3,2]
        attn: p = MatMul(q, s)
        attn: a = Add(p, onnx::Add_7)
        attn: y = Softmax(a) axis=-1";
    check(
        file,
        &expect![[r"
        state attn.q.weight float32[16, 5]
        state attn.relative_position_bias_table float32[49, 3]
        state attn.relative_position_index int64[256]
        attn: q = Linear(x, attn.q.weight) transposed=0
        attn: s = Transpose(q) perm=[0, 1, 3, 2]
        attn: p = MatMul(q, s)
        attn: attn.relative_position_bias_table/0 = TableRows(attn.relative_position_bias_table, attn.relative_position_index)
        attn: attn.relative_position_bias_table/1 = Reshape(attn.relative_position_bias_table/0)
        attn: attn.relative_position_bias_table/2 = Transpose(attn.relative_position_bias_table/1) perm=[2, 0, 1]
        attn: attn.relative_position_bias_table/3 = Contiguous(attn.relative_position_bias_table/2)
        attn: onnx::Add_7 = Reshape(attn.relative_position_bias_table/3)
        attn: a = Add(p, onnx::Add_7)
        attn: y = Softmax(a) axis=-1
        info recovered-parameters
        info recovered
    "]],
    );
    // Of no square, of one with a class token, in front of something else.
    let found = |file: &str| recovered(&Config::default(), file).contains("TableRows");
    assert!(found(&file.replace("16", "17")));
    assert!(!found(&file.replace("16", "18")));
    assert!(!found(&file.replace("onnx::Add_7", "attn.bias")));
    assert!(!found(&file.replace("Softmax(a) axis=-1", "Relu(a)")));
}
