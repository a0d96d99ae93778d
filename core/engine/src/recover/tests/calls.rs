//! Single calls: products, tables, activations, and operators that run in place.

use expect_test::expect;

use super::{check, parse, types};
use crate::config::{Config, InPlace};
use crate::diagnostic::Diagnostics;
use crate::recover::recover;

#[test]
fn transposed_weights_are_turned_back() {
    check(
        "input x f[2,5,4]
         state fc1.bias f[6]
         state norm.weight f[6]
         state norm.bias f[6]
         state onnx::MatMul_20 f[4,6]
         fc1: y = MatMul(x, onnx::MatMul_20)
         fc1: z = Add(fc1.bias, y)
         norm: n = LayerNormalization(z, norm.weight, norm.bias)",
        &expect![[r"
            state fc1.weight float32[6, 4]
            state fc1.bias float32[6]
            state norm.weight float32[6]
            state norm.bias float32[6]
            fc1: z = Linear(x, fc1.weight, fc1.bias) transposed=1
            norm: n = LayerNormalization(z, norm.weight, norm.bias)
            info recovered
        "]],
    );
}

#[test]
fn heads_share_the_embedding() {
    let file = "
        input ids i[2,5]
        state TABLE f[100,4]
        state onnx::MatMul_20 f[4,100]
        embed: x = Gather(TABLE, ids)
        lm_head: y = MatMul(x, onnx::MatMul_20)";
    check(
        &file.replace("TABLE", "transformer.wte.weight"),
        &expect![[r"
            state transformer.wte.weight float32[100, 4]
            embed: x = Gather(transformer.wte.weight, ids)
            lm_head: y = Linear(x, transformer.wte.weight) transposed=1
            warning assumed-tied-weights
        "]],
    );
    // transformers' own keeps the weight of its `Conv1D` as it is.
    let of_transformers = file.replace(
        "state onnx",
        "state transformer.h.0.attn.c_attn.weight f[4,12]
        state onnx",
    );
    check(
        &of_transformers.replace("TABLE", "transformer.wte.weight"),
        &expect![[r"
            state transformer.wte.weight float32[100, 4]
            embed: x = Gather(transformer.wte.weight, ids)
            lm_head: y = Linear(x, transformer.wte.weight) transposed=1
            info assumed-tied-weights
        "]],
    );
    check(
        &file.replace("TABLE", "gpt_neox.embed_in.weight"),
        &expect![[r"
            state gpt_neox.embed_in.weight float32[100, 4]
            state lm_head.weight float32[100, 4]
            embed: x = Gather(gpt_neox.embed_in.weight, ids)
            lm_head: y = Linear(x, lm_head.weight) transposed=1
            info assumed-tied-weights
        "]],
    );
}

#[test]
fn gelu_of_bloom_is_told_by_its_name() {
    let file = "
        input w f[2,4]
        state half f[] 0.5
        state one f[] 1
        state c f[] 0.79788456
        state d f[] 0.044715
        : x = Identity(w)
        PLACE: h = Mul(x, half)
        PLACE: a = Mul(x, c)
        PLACE: b = Mul(x, d)
        PLACE: e = Mul(b, x)
        PLACE: f = Add(e, one)
        PLACE: g = Mul(a, f)
        PLACE: i = Tanh(g)
        PLACE: j = Add(i, one)
        PLACE: y = Mul(h, j)";
    check(
        &file.replace("PLACE", "mlp.gelu_impl"),
        &expect![[r"
        : x = Identity(w)
        mlp.gelu_impl: y = BloomGelu(x)
        info recovered
    "]],
    );
}

#[test]
fn gelu_by_tanh_where_its_cube_is_a_product() {
    let model = |cube: &str| {
        format!(
            "input x f[2,3]
             state half f[] 0.5
             state one f[] 1.0
             state d f[] 0.044715
             state c f[] 0.7978845
             state three f[] 3.0
             : s = Mul(x, x)
             : k = {cube}
             : m = Mul(d, k)
             : a = Add(x, m)
             : t = Mul(c, a)
             : h = Tanh(t)
             : o = Add(one, h)
             : g = Mul(x, o)
             : y = Mul(half, g)"
        )
    };
    check(
        &model("Mul(x, s)"),
        &expect![[r"
            : y = Gelu(x)
            info recovered
        "]],
    );
    // transformers' own activation has a power, and runs as it is written.
    let graph = parse(&model("Pow(x, three)"));
    let sink = Diagnostics::default();
    let typed = types(&graph);
    let program = recover(&graph, &typed, &Config::default(), &sink);
    assert!(program.nodes.iter().all(|node| node.op != "Gelu"));
}

#[test]
fn a_bias_that_is_joined_of_several_belongs_to_the_product() {
    check(
        "input w f[2,5,4]
         state a.weight f[4,6]
         state a.q_bias f[2]
         state a.k_bias f[2]
         state a.v_bias f[2]
         : x = Identity(w)
         a: b = Concat(a.q_bias, a.k_bias, a.v_bias) axis=0
         a: p = MatMul(x, a.weight)
         a: y = Add(b, p)",
        &expect![[r"
            state a.weight float32[4, 6]
            state a.q_bias float32[2]
            state a.k_bias float32[2]
            state a.v_bias float32[2]
            : x = Identity(w)
            a: b = Concat(a.q_bias, a.k_bias, a.v_bias) axis=0
            a: y = Linear(x, a.weight, b) transposed=0
            info recovered
            info recovered
        "]],
    );
}

#[test]
fn indexing_a_table_is_no_embedding() {
    check(
        "state e.weight f[9,4]
         state a.bias_table f[9,4]
         input at i[5]
         e: x = Gather(e.weight, at)
         a: y = Gather(a.bias_table, at)
         : z = Add(x, y)",
        &expect![[r"
            state e.weight float32[9, 4]
            state a.bias_table float32[9, 4]
            e: x = Gather(e.weight, at)
            a: y = TableRows(a.bias_table, at)
            : z = Add(x, y)
            info recovered
        "]],
    );
}

#[test]
fn in_place_is_a_setting() {
    let file = "input x f[2,3,8,8]
         state conv.weight f[3,3,1,1]
         state fc.weight f[3,3]
         conv: a = Conv(x, conv.weight)
         conv: behind_conv = Relu(a)
         : p = GlobalAveragePool(behind_conv)
         : q = Flatten(p)
         fc: l = Gemm(q, fc.weight)
         fc: behind_linear = Relu(l)";
    for (in_place, expected) in [
        (InPlace::Auto, vec!["behind_conv"]),
        (InPlace::On, vec!["behind_conv", "behind_linear"]),
        (InPlace::Off, vec![]),
    ] {
        let graph = parse(file);
        let sink = Diagnostics::default();
        let typed = types(&graph);
        let program = recover(&graph, &typed, &Config { in_place, ..Config::default() }, &sink);
        let marked = program.nodes.iter().filter(|node| node.attributes.contains_key("in_place"));
        let outputs = marked.filter_map(|node| node.outputs[0]);
        let names: Vec<&str> = outputs.map(|output| program.graph.value_name(output)).collect();
        assert_eq!(names, expected, "{in_place}");
        let says = sink.into_sorted().iter().any(|found| found.code == "assumed-in-place");
        assert_eq!(says, in_place == InPlace::Auto, "{in_place}");
    }
}

#[test]
fn functions_overwrite_nothing() {
    let check = |block: &str, expected: &[&str]| {
        let graph = parse(&format!(
            "input x f[2,3,8,8]
             state {block}.conv.weight f[3,3,1,1]
             state {block}.two.weight f[3,3,1,1]
             {block}.conv: a = Conv(x, {block}.conv.weight)
             {block}: function = Relu(a)
             {block}.two: b = Conv(function, {block}.two.weight)
             {block}: s = Add(b, x)
             {block}: function_of_sum = Relu(s)
             {block}.two: c = Conv(function_of_sum, {block}.two.weight)
             {block}.relu: module = Relu(c)"
        ));
        let sink = Diagnostics::default();
        let typed = types(&graph);
        let program = recover(&graph, &typed, &Config::default(), &sink);
        let marked = program.nodes.iter().filter(|node| node.attributes.contains_key("in_place"));
        let outputs = marked.filter_map(|node| node.outputs[0]);
        let names: Vec<&str> = outputs.map(|output| program.graph.value_name(output)).collect();
        assert_eq!(names, expected, "{block}");
    };
    check("layer1.0", &["module"]);
    check("Mixed_5b.branch1x1", &["function", "function_of_sum", "module"]);
}

#[test]
fn strided_slices_are_every_slices_own() {
    check(
        "input w f[2,8,8]
         state zero i[1] 0
         state one i[1] 1
         state end i[1] 8
         state rows i[1] 1
         state columns i[1] 2
         state two i[1] 2
         : x = Identity(w)
         m: r = Slice(x, zero, end, rows, two)
         m: a = Slice(r, zero, end, columns, two)
         m: b = Slice(r, one, end, columns, two)
         m: y = Concat(a, b) axis=2",
        &expect![[r"
            state zero int64[1]
            state one int64[1]
            state end int64[1]
            state rows int64[1]
            state columns int64[1]
            state two int64[1]
            : x = Identity(w)
            m: r = Slice(x, zero, end, rows, two)
            m: a = Slice(r, zero, end, columns, two)
            m: r = Slice(x, zero, end, rows, two)
            m: b = Slice(r, one, end, columns, two)
            m: y = Concat(a, b) axis=2
        "]],
    );
}

#[test]
fn a_scatter_to_positions_that_shapes_decide_is_an_assignment() {
    let file = |positions: &str| {
        format!(
            "input x f[4,6]
             input y f[3,6]
             input chosen i[3,1]
             state fc.weight f[6,6]
             state from i[] 1
             state to i[] 4
             state step i[] 1
             state column i[2] 3 1
             fc: h = MatMul(x, fc.weight)
             {positions}
             : z = ScatterND(h, places, y)"
        )
    };
    check(
        &file(": r = Range(from, to, step)\n : places = Reshape(r, column)"),
        &expect![[r"
        state fc.weight float32[6, 6]
        fc: h = Linear(x, fc.weight) transposed=0
        : z = Assign(h, y) whole=0
        info recovered
        info recovered
    "]],
    );
    check(
        &file(": places = Identity(chosen)"),
        &expect![[r"
        state fc.weight float32[6, 6]
        fc: h = Linear(x, fc.weight) transposed=0
        : places = Identity(chosen)
        : z = ScatterND(h, places, y)
        info recovered
    "]],
    );
}
