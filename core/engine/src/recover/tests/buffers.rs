//! Buffers that TorchScript's exporter wrote among the parameters.

use super::*;

/// What is said of a file's buffers, and the state that is assumed not to be trained.
fn found(file: &str) -> String {
    let graph = parse(file);
    let sink = Diagnostics::default();
    let program = recover(&graph, &types(&graph), &Config::default(), &sink);
    let names = program.buffers.iter().map(|id| program.graph.value_name(*id));
    let names = names.collect::<Vec<_>>().join(" ");
    let codes = sink.into_inner().into_iter().filter(|said| said.code.starts_with("assumed-"));
    let codes = codes.map(|said| said.code).filter(|code| code != "assumed-in-place");
    format!("{names}: {}", codes.collect::<Vec<_>>().join(" "))
}

#[test]
fn what_meets_the_input_is_a_buffer_by_its_name_or_its_place() {
    let file = "
        input x f[2,3,8,8]
        state A f[1,3,1,1]
        state B f[1,3,1,1]
        state conv.weight f[4,3,3,3]
        : a = Sub(x, A)
        : b = Div(a, B)
        conv: y = Conv(b, conv.weight)";
    let with = |a: &str, b: &str| found(&file.replace('A', a).replace('B', b));
    assert_eq!(with("pixel_mean", "pixel_std"), "pixel_mean pixel_std: assumed-buffers");
    // The state of a module: parameters, then buffers.
    assert_eq!(with("mean", "width"), "mean width: assumed-buffers");
    assert_eq!(with("centre", "mean"), "mean: assumed-buffers assumed-trained");
    assert_eq!(with("centre", "width"), ": assumed-trained");
    // Behind a layer nothing depends on it.
    let late = file.replace("Sub(x, A)", "Conv(x, conv.weight)").replace("[4,3,3,3]", "[3,3,3,3]");
    let late = late.replace("B)", "A)").replace("conv: y = Conv(b, conv.weight)", ": y = Relu(b)");
    assert_eq!(found(&late.replace('A', "mean")), ": ");
    // Before a weight of the same module, it is a parameter.
    let own = file.replace("conv.weight", "weight");
    assert_eq!(found(&own.replace('A', "mean").replace('B', "std")), ": ");
    // The signature of the dynamo exporter states it.
    let signed = format!("buffer mean\n{}", file.replace('A', "mean").replace('B', "std"));
    assert_eq!(found(&signed), ": ");
}

#[test]
fn what_is_compared_with_the_input_is_a_buffer_in_every_module() {
    let file = "
        input x f[2,5,1]
        state one.knots f[5,4]
        state two.knots f[5,4]
        state fc.weight f[4,4]
        one: a = Less(x, one.knots)
        one: b = Cast(a) to=1
        fc: c = MatMul(b, fc.weight)
        two: d = Less(c, two.knots)
        two: y = Cast(d) to=1";
    assert_eq!(found(file), "one.knots two.knots: assumed-buffers");
}
