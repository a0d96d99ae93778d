//! Small files as text, and the program that is recovered from them, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::{Expect, expect};

use super::recover;
use crate::config::{Config, InPlace, Recover};
use crate::graph::{
    Attribute, DeclaredType, Dim, Elements, Graph, Literal, Member, Node, Origin, Value, ValueId,
};
use crate::infer::infer;
use crate::tensor::{DType, TensorType};

/// Recovers from `file`, a line per statement (types are `f`, `b` and `i`):
///
/// - `member NAME`: a parameter of the dynamo exporter's signature, `buffer NAME` a buffer;
/// - `input NAME TYPE` and `state NAME TYPE`, with elements behind the type;
/// - `MODULE: OUTPUT = OP(INPUT, …) ATTRIBUTE=INTEGERS # ATEN CLASS | CALL`;
/// - the last node's output is the model's.
#[track_caller]
fn check(file: &str, expected: &Expect) {
    check_with(&Config::default(), file, expected);
}

#[track_caller]
fn check_with(config: &Config, file: &str, expected: &Expect) {
    let graph = parse(file);
    let typed = infer(&graph, &BTreeMap::new()).expect("the file has types");
    let program = recover(&graph, &typed, config);
    let mut text = String::new();
    let name = |id: &Option<ValueId>| {
        id.map_or_else(|| "-".to_owned(), |id| program.graph.value_name(id).to_owned())
    };
    let names = |ids: &[Option<ValueId>]| ids.iter().map(name).collect::<Vec<_>>().join(", ");
    for &id in &program.placement {
        let ty = program.typed.ty(id).expect("state is typed");
        writeln!(text, "state {} {ty}", program.graph.value_name(id)).unwrap();
    }
    for (held, until) in &program.names {
        writeln!(text, "{} until {}", name(&Some(*held)), name(&Some(*until))).unwrap();
    }
    for node in &program.nodes {
        let (outputs, inputs) = (names(&node.outputs), names(&node.inputs));
        write!(text, "{}: {outputs} = {}({inputs})", node.module, node.op).unwrap();
        for (name, attribute) in &node.attributes {
            match attribute {
                Attribute::Int(n) => write!(text, " {name}={n}").unwrap(),
                Attribute::Ints(list) => write!(text, " {name}={list:?}").unwrap(),
                Attribute::Float(x) => write!(text, " {name}={x}").unwrap(),
                other => panic!("{other:?}"),
            }
        }
        text.push('\n');
    }
    for diagnostic in &program.diagnostics {
        writeln!(text, "{} {}", diagnostic.severity.name(), diagnostic.code).unwrap();
    }
    expected.assert_eq(&text);
}

fn parse(file: &str) -> Graph {
    let mut graph = Graph { producer: "pytorch 2.15.0".to_owned(), opset: 20, ..Graph::default() };
    let mut ids = BTreeMap::new();
    for line in file.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["member", name] => graph.members.push(((*name).to_owned(), Member::Parameter)),
            ["buffer", name] => graph.members.push(((*name).to_owned(), Member::Buffer)),
            ["input", name, ty] => {
                let id = value(&mut graph, &mut ids, name);
                graph.inputs.push(id);
                let ty = tensor(ty);
                let dims = ty.dims.iter().map(|&n| Dim::Known(n)).collect();
                let declared = DeclaredType { dtype: Some(ty.dtype), dims: Some(dims) };
                graph.values[id.0].declared = Some(declared);
            }
            ["state", name, ty, elements @ ..] => {
                let id = value(&mut graph, &mut ids, name);
                let ty = tensor(ty);
                let elements = elements.first().map(|list| match ty.dtype {
                    DType::Float32 => Elements::Floats(numbers(list)),
                    _ => Elements::Ints(numbers(list)),
                });
                let literal = Literal { dtype: ty.dtype, dims: ty.dims, elements };
                graph.values[id.0].initializer = Some(literal);
            }
            _ => {
                let node = node(line, &mut graph, &mut ids);
                graph.nodes.push(node);
            }
        }
    }
    let last = graph.nodes.last().expect("there are nodes");
    graph.outputs = last.outputs.iter().copied().flatten().collect();
    graph
}

fn value(graph: &mut Graph, ids: &mut BTreeMap<String, ValueId>, name: &str) -> ValueId {
    *ids.entry(name.to_owned()).or_insert_with(|| {
        graph.values.push(Value { name: name.to_owned(), ..Value::default() });
        ValueId(graph.values.len() - 1)
    })
}

fn node(line: &str, graph: &mut Graph, ids: &mut BTreeMap<String, ValueId>) -> Node {
    let (statement, origin) = line
        .split_once(" # ")
        .map_or((line, None), |(statement, origin)| (statement, Some(origin)));
    let (module, statement) = statement.split_once(": ").expect("a module");
    let (outputs, call) = statement.split_once(" = ").expect("an output");
    let (op, rest) = call.split_once('(').expect("inputs");
    let (inputs, attributes) = rest.split_once(')').expect("inputs end");
    let mut list = |text: &str| {
        let names = text.split(", ").filter(|name| !name.is_empty());
        names.map(|name| Some(value(graph, ids, name))).collect::<Vec<_>>()
    };
    let attribute = |text: &str| {
        let (name, number) = text.split_once('=').expect("an attribute");
        let value = match number.strip_prefix('[') {
            Some(list) => Attribute::Ints(numbers(list.trim_end_matches(']'))),
            None => Attribute::Int(number.parse().unwrap()),
        };
        (name.to_owned(), value)
    };
    Node {
        name: module.to_owned(),
        op: op.to_owned(),
        inputs: list(inputs),
        outputs: list(outputs),
        attributes: attributes.split_whitespace().map(attribute).collect(),
        module: module.to_owned(),
        origin: origin.map(|origin| {
            let (names, call) = origin.split_once(" | ").unwrap_or((origin, ""));
            let (aten, class) = names.split_once(' ').unwrap_or((names, ""));
            let (aten, class, call) = (aten.to_owned(), class.to_owned(), call.to_owned());
            Origin { aten, class, scopes: Vec::new(), call }
        }),
        ..Node::default()
    }
}

/// `f[2,3]` is a tensor of 32-bit floats, `i[2]` one of 64-bit integers.
fn tensor(text: &str) -> TensorType {
    let (dtype, dims) = text.split_once('[').expect("dimensions");
    let dtype = match dtype {
        "f" => DType::Float32,
        "b" => DType::Bool,
        _ => DType::Int64,
    };
    TensorType::new(dtype, numbers(dims.trim_end_matches(']')))
}

fn numbers<T: std::str::FromStr>(list: &str) -> Vec<T> {
    let numbers = list.split(',').filter(|text| !text.is_empty());
    numbers.map(|text| text.parse().ok().expect("a number")).collect()
}

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
        let typed = infer(&graph, &BTreeMap::new()).expect("the file has types");
        let program = recover(&graph, &typed, &Config::default());
        let norm = program.nodes.last().expect("something runs");
        let flag = |name| norm.int(name).unwrap_or_default();
        let (keeps, plus) = (flag("keeps_input"), flag("plus_one"));
        assert_eq!((norm.op.as_str(), flag("upcasts")), ("SpelledRmsNorm", 1), "{tail}");
        assert_eq!(format!("keeps_input={keeps} plus_one={plus}"), flags, "{tail}");
    }
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
    let typed = infer(&graph, &BTreeMap::new()).expect("the file has types");
    let program = recover(&graph, &typed, &Config::default());
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
        let typed = infer(&graph, &BTreeMap::new()).expect("the file has types");
        let program = recover(&graph, &typed, &Config { in_place, ..Config::default() });
        let marked = program.nodes.iter().filter(|node| node.attributes.contains_key("in_place"));
        let outputs = marked.filter_map(|node| node.outputs[0]);
        let names: Vec<&str> = outputs.map(|output| program.graph.value_name(output)).collect();
        assert_eq!(names, expected, "{in_place}");
        let says = program.diagnostics.iter().any(|found| found.code == "assumed-in-place");
        assert_eq!(says, in_place == InPlace::Auto, "{in_place}");
    }
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
