//! What is known: operators and devices.

use highwater_core::ops::Operator;
use highwater_core::{device, ops};

use crate::table::Cell;
use crate::table::{Align, Table};
use crate::text::HEAD;

/// All operators, and a count.
pub(crate) fn operators() -> String {
    let mut table = Table::new([Align::Left, Align::Left, Align::Left, Align::Left]);
    table.row(["operator", "domain", "inputs", "memory"].map(|head| Cell::styled(head, HEAD)));
    for operator in ops::all() {
        let memory = if operator.run.is_some() { "modelled" } else { "inputs kept" };
        table.row([
            operator.name.into(),
            domain(operator).into(),
            inputs(operator).into(),
            memory.into(),
        ]);
    }
    let total = ops::all().len();
    let modelled = ops::all().iter().filter(|operator| operator.run.is_some()).count();
    let rest = total - modelled;
    format!(
        "{}\n{total} operators: of {modelled} it is modelled what PyTorch allocates, saves and frees; \
         the other {rest} have\nshapes only, and are taken to keep their inputs. `torch` names what \
         PyTorch ran where an exporter wrote\nsmaller operators in its place.\n",
        table.render("")
    )
}

const fn domain(operator: &Operator) -> &'static str {
    if operator.domain.is_empty() { "ai.onnx" } else { operator.domain }
}

/// How many inputs it takes: `2`, `2-3`, `1 or more`.
fn inputs(operator: &Operator) -> String {
    match (*operator.inputs.start(), *operator.inputs.end()) {
        (least, most) if least == most => least.to_string(),
        (least, usize::MAX) => format!("{least} or more"),
        (least, most) => format!("{least}-{most}"),
    }
}

/// All devices.
pub(crate) fn devices() -> String {
    let mut table = Table::new([
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ]);
    let heads = ["id", "name", "sold as", "capacity", "context", "capability", "multiprocessors"];
    table.row(heads.map(|head| Cell::styled(head, HEAD)));
    for device in device::all() {
        let (major, minor) = device.compute_capability;
        table.row([
            device.id.into(),
            device.name.into(),
            device.nameplate.into(),
            device.capacity.to_string().into(),
            device.context().to_string().into(),
            format!("{major}.{minor}").into(),
            device.multiprocessors.to_string().into(),
        ]);
    }
    format!(
        "{}\nCapacity is what PyTorch reports under Linux; the context is what CUDA and its \
         libraries take of it.\n",
        table.render("")
    )
}
