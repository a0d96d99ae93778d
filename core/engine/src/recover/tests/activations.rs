//! Operators that exporters decompose, recognised by what their nodes compute.

use super::{parse, types};
use crate::config::Config;
use crate::diagnostic::Diagnostics;
use crate::recover::recover;

#[test]
fn operators_are_found_by_what_their_nodes_compute() {
    for (file, expected) in [
        ("a: s = Softplus(x)\na: t = Tanh(s)\na: y = Mul(x, t)", "Mish"),
        ("a: h, g = Split(x) axis=1 num_outputs=2\na: s = Sigmoid(g)\na: y = Mul(h, s)", "Glu"),
        ("a: s = Sigmoid(x)\na: y = Log(s)", "LogSigmoid"),
        (
            "state c f[] 2\na: s = Mul(x, c)\na: t = Softplus(s)\na: y = Div(t, c)",
            "Softplus",
        ),
        (
            "state l f[] 0.5\nstate n f[] -0.5\nstate o f[] 0\na: g = Greater(x, l)\na: b = Less(x, n)
             a: f = Or(g, b)\na: y = Where(f, x, o)",
            "Shrink",
        ),
        // A gate that is read elsewhere was made by itself.
        (
            "a: s = Softplus(x)\na: t = Tanh(s)\na: m = Mul(x, t)\na: y = Add(m, t)",
            "Softplus Tanh Mul Add",
        ),
        // The opposite ends make a pad, other parts none.
        (
            "state b i[1] -1\nstate e i[1] 9\nstate z i[1] 0\nstate o i[1] 1\nstate t i[1] 2
             a: l = Slice(x, b, e, t)\na: r = Slice(x, z, o, t)\na: y = Concat(l, x, r) axis=2",
            "Pad",
        ),
        (
            "state b i[1] -1\nstate e i[1] 9\nstate z i[1] 1\nstate o i[1] 2\nstate t i[1] 2
             a: l = Slice(x, b, e, t)\na: r = Slice(x, z, o, t)\na: y = Concat(l, x, r) axis=2",
            "Slice Slice Concat",
        ),
    ] {
        let graph = parse(&format!("input x f[2,4,6]\n{file}"));
        let sink = Diagnostics::default();
        let typed = types(&graph);
        let program = recover(&graph, &typed, &Config::default(), &sink);
        let found: Vec<&str> = program.nodes.iter().map(|node| node.op.as_str()).collect();
        assert_eq!(found.join(" "), expected, "{file}");
    }
}
