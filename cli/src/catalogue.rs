//! Lists of the operators and devices that Highwater knows.

use highwater_core::device::{Provenance, Seen};
use highwater_core::ops::Operator;
use highwater_core::{Bytes, device, ops};

use crate::style::HEAD;
use crate::table::Cell;
use crate::table::{Align, Table};

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
        "{}\n{total} operators. Allocations, saved tensors and frees of {modelled} are modelled; the other \
         {rest} have only shapes,\nand are assumed to keep their inputs. Operators of the domain `torch` \
         replace smaller ones that an exporter\nwrote.\n",
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
    let heads =
        ["id", "name", "sold as", "capacity", "context", "seen", "capability", "multiprocessors"];
    let mut table = Table::new([
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
        Align::Right,
        Align::Right,
    ]);
    table.row(heads.map(|head| Cell::styled(head, HEAD)));
    for device in device::all() {
        let (major, minor) = device.compute_capability;
        let assumed = device.capacity_from == Provenance::Assumed;
        table.row([
            device.id.into(),
            device.name.into(),
            device.nameplate.into(),
            format!("{}{}", if assumed { "~" } else { "" }, device.capacity).into(),
            device.context().to_string().into(),
            device.context_seen.map(seen).unwrap_or_default().into(),
            format!("{major}.{minor}").into(),
            device.multiprocessors.to_string().into(),
        ]);
    }
    format!(
        "{}\nCapacity is the smallest that PyTorch reported under Linux; with ~ it is assumed. The context \
         is the memory that\nCUDA and its libraries use, with lazy loading of modules. It is a line \
         fitted to public out-of-memory messages;\n`seen` shows their range and number for each GPU. \
         Communication libraries are not included.\n",
        table.render("")
    )
}

/// `501-512 MiB (3)`
fn seen(seen: Seen) -> String {
    let Seen { least, median: _, most, messages } = seen;
    let mib = |bytes: Bytes| bytes.0.div_euclid(Bytes::mib(1).0);
    match (mib(least), mib(most)) {
        (least, most) if least == most => format!("{least} MiB ({messages})"),
        (least, most) => format!("{least}-{most} MiB ({messages})"),
    }
}
