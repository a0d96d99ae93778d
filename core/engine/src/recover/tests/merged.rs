//! Equal operators that an exporter merged, separated again.

use expect_test::expect;

use super::check;

#[test]
fn what_modules_read_of_each_other_they_make_for_themselves() {
    // Both branches of a cell begin with the same activation of its argument.
    check(
        "input x f[2,4,8,8]
         state cell.left.conv.weight f[4,4,1,1]
         state cell.right.conv.weight f[4,4,1,1]
         stem: s = Sigmoid(x)
         cell.left.act: a = Relu(s)
         cell.left.conv: l = Conv(a, cell.left.conv.weight)
         cell.right.conv: r = Conv(a, cell.right.conv.weight)
         cell: y = Add(l, r)",
        &expect![[r"
            state cell.left.conv.weight float32[4, 4, 1, 1]
            state cell.right.conv.weight float32[4, 4, 1, 1]
            stem: s = Sigmoid(x)
            cell.left.act: a = Relu(s)
            cell.left.conv: l = Conv(a, cell.left.conv.weight)
            cell.right: a of cell.right = Relu(s)
            cell.right.conv: r = Conv(a of cell.right, cell.right.conv.weight)
            cell: y = Add(l, r)
        "]],
    );
}

#[test]
fn results_of_modules_are_shared() {
    // An encoder's result goes on and across: it made what it read.
    check(
        "input x f[2,4,8,8]
         state down.conv.weight f[4,4,1,1]
         state up.conv.weight f[4,4,1,1]
         down.conv: c = Conv(x, down.conv.weight)
         down.act: a = Relu(c)
         down.pool: p = Sigmoid(a)
         up.conv: u = Conv(a, up.conv.weight)
         : y = Add(p, u)",
        &expect![[r"
            state down.conv.weight float32[4, 4, 1, 1]
            state up.conv.weight float32[4, 4, 1, 1]
            down.conv: c = Conv(x, down.conv.weight)
            down.act: a = Relu(c) in_place=1
            down.pool: p = Sigmoid(a)
            up.conv: u = Conv(a, up.conv.weight)
            : y = Add(p, u)
            info assumed-in-place
        "]],
    );
}

#[test]
fn blocks_of_one_kind_begin_alike() {
    // `self.proj(act(t))` of every block.
    check(
        "input x f[2,4]
         state down.blocks.0.proj.weight f[4,4]
         state up.blocks.0.proj.weight f[4,4]
         state up.blocks.1.proj.weight f[4,4]
         time: t = Sigmoid(x)
         down.blocks.0.act: a = Relu(t)
         down.blocks.0.proj: p = Gemm(a, down.blocks.0.proj.weight) transB=1
         up.blocks.0.proj: q = Gemm(a, up.blocks.0.proj.weight) transB=1
         up.blocks.1.proj: r = Gemm(a, up.blocks.1.proj.weight) transB=1
         : y = Concat(p, q, r) axis=1",
        &expect![[r"
            state down.blocks.0.proj.weight float32[4, 4]
            state up.blocks.0.proj.weight float32[4, 4]
            state up.blocks.1.proj.weight float32[4, 4]
            time: t = Sigmoid(x)
            down.blocks.0.act: a = Relu(t)
            down.blocks.0.proj: p = Gemm(a, down.blocks.0.proj.weight) transB=1
            up.blocks.0: a of up.blocks.0 = Relu(t)
            up.blocks.0.proj: q = Gemm(a of up.blocks.0, up.blocks.0.proj.weight) transB=1
            up.blocks.1: a of up.blocks.1 = Relu(t)
            up.blocks.1.proj: r = Gemm(a of up.blocks.1, up.blocks.1.proj.weight) transB=1
            : y = Concat(p, q, r) axis=1
            warning no-dropout
        "]],
    );
}
