//! Blocks of torchvision's models, and of models that were built on them.

use super::{Done, INPLACE, int};
use crate::formats::printed::text::Printed;
use crate::formats::printed::translate::Row;
use crate::formats::spec::{Join, Value};

/// torchvision's and timm's residual blocks: `out += identity`, and the activation behind it.
pub(super) fn resnet_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let last = if it.child("conv3").is_some() { 3 } else { 2 };
    let relu = it.any_child(&["relu", "act"]);
    row.residual(
        true,
        |row| {
            for n in 1..=last {
                row.each(it, &[&format!("conv{n}"), &format!("bn{n}")])?;
                if n == 2 {
                    row.each(it, &["drop_block"])?;
                }
                if n < last {
                    match it.child(&format!("act{n}")).or(relu) {
                        Some(act) => row.module(act)?,
                        None => row.call("relu", &INPLACE)?,
                    }
                    if n == 2 {
                        row.each(it, &["aa"])?;
                    }
                }
            }
            row.each(it, &["se", "drop_path"])
        },
        |row| row.each(it, &["downsample"]),
    )?;
    match it.child(&format!("act{last}")).or(relu) {
        Some(act) => row.module(act),
        None => row.call("relu", &INPLACE),
    }
}

/// `x + self.conv(x)`, where nothing changes its size. Later classes add in place.
pub(super) fn mobile_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let inplace = it.child("block").is_some();
    row.residual_if_alike(inplace, |row| {
        row.each(it, &["conv", "layers", "block", "stochastic_depth"])
    })
}

/// torchvision's `ConvNeXt`: channels last between two `Permute`, a scale for each channel.
pub(super) fn convnext_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual(
        true,
        |row| {
            let modules = it.child("block").map_or(&[][..], |block| &block.children);
            let mut last = false;
            for module in modules {
                if module.class == "Permute" {
                    let order = if last { vec![0, 3, 1, 2] } else { vec![0, 2, 3, 1] };
                    row.call("permute", &[("dims", Value::Ints(order))])?;
                    last = !last;
                } else {
                    row.module(module)?;
                }
            }
            row.call("layer_scale", &[("dim", int(1))])?;
            row.each(it, &["stochastic_depth"])
        },
        |_| Ok(()),
    )
}

/// `scale * x`, where the scale is made of the mean of each channel.
pub(super) fn squeeze_excitation(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let scale = |row: &mut Row<'_, '_>| {
        if it.child("avgpool").is_none() {
            row.call("global_avgpool", &[])?;
        }
        row.each(
            it,
            &[
                "avgpool",
                "conv_reduce",
                "fc1",
                "bn",
                "activation",
                "act1",
                "act",
                "conv_expand",
                "fc2",
                "scale_activation",
                "gate",
            ],
        )
    };
    row.branch(Join::Mul, 1, &[&scale, &|_| Ok(())])
}

/// What comes in, and 32 channels more; `torch.cat` of all before is written as one of both.
pub(super) fn dense_layer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let new = |row: &mut Row<'_, '_>| {
        row.each(it, &["norm1", "relu1", "conv1", "norm2", "relu2", "conv2"])
    };
    row.branch(Join::Concat, 1, &[&|_| Ok(()), &new])
}

pub(super) fn densenet(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["features"])?;
    row.call("relu", &INPLACE)?;
    row.call("global_avgpool", &[])?;
    row.call("flatten", &[])?;
    row.each(it, &["classifier"])
}

pub(super) fn basic_conv(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["conv", "bn"])?;
    row.call("relu", &INPLACE)
}

pub(super) fn fire(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["squeeze", "squeeze_activation"])?;
    let one = |row: &mut Row<'_, '_>| row.each(it, &["expand1x1", "expand1x1_activation"]);
    let three = |row: &mut Row<'_, '_>| row.each(it, &["expand3x3", "expand3x3_activation"]);
    row.branch(Join::Concat, 1, &[&one, &three])
}

pub(super) fn googlenet_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.branch(
        Join::Concat,
        1,
        &[
            &|row| row.each(it, &["branch1"]),
            &|row| row.each(it, &["branch2"]),
            &|row| row.each(it, &["branch3"]),
            &|row| row.each(it, &["branch4"]),
        ],
    )
}

/// Inception v3: ways by the names of their layers, `branch3x3dbl_2` behind `branch3x3dbl_1`; `_2a` and
/// `_2b` are two ways again; a pool that is called as a function.
pub(super) fn inception_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let names = |way: usize| -> &'static [&'static str] {
        match (it.class.as_str(), way) {
            ("InceptionA" | "InceptionC" | "InceptionE", 0) => &["branch1x1"],
            ("InceptionA", 1) => &["branch5x5_1", "branch5x5_2"],
            ("InceptionA", 2) | ("InceptionB", 1) => {
                &["branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"]
            }
            ("InceptionB", 0) => &["branch3x3"],
            ("InceptionC", 1) => &["branch7x7_1", "branch7x7_2", "branch7x7_3"],
            ("InceptionC", 2) => &[
                "branch7x7dbl_1",
                "branch7x7dbl_2",
                "branch7x7dbl_3",
                "branch7x7dbl_4",
                "branch7x7dbl_5",
            ],
            ("InceptionD", 0) => &["branch3x3_1", "branch3x3_2"],
            ("InceptionD", 1) => {
                &["branch7x7x3_1", "branch7x7x3_2", "branch7x7x3_3", "branch7x7x3_4"]
            }
            ("InceptionE", 1) => &["branch3x3_1"],
            ("InceptionE", 2) => &["branch3x3dbl_1", "branch3x3dbl_2"],
            _ => &[],
        }
    };
    let split = |row: &mut Row<'_, '_>, a: &str, b: &str| {
        row.branch(Join::Concat, 1, &[&|row| row.each(it, &[a]), &|row| row.each(it, &[b])])
    };
    let first = |row: &mut Row<'_, '_>| row.each(it, names(0));
    let second = |row: &mut Row<'_, '_>| {
        row.each(it, names(1))?;
        if it.child("branch3x3_2a").is_some() {
            split(row, "branch3x3_2a", "branch3x3_2b")?;
        }
        Ok(())
    };
    let third = |row: &mut Row<'_, '_>| {
        row.each(it, names(2))?;
        if it.child("branch3x3dbl_3a").is_some() {
            split(row, "branch3x3dbl_3a", "branch3x3dbl_3b")?;
        }
        Ok(())
    };
    if ["InceptionB", "InceptionD"].contains(&it.class.as_str()) {
        let pool = |row: &mut Row<'_, '_>| {
            row.call("maxpool2d", &[("kernel_size", int(3)), ("stride", int(2))])
        };
        return row.branch(Join::Concat, 1, &[&first, &second, &pool]);
    }
    let pool = |row: &mut Row<'_, '_>| {
        let window = [("kernel_size", int(3)), ("stride", int(1)), ("padding", int(1))];
        row.call("avgpool2d", &window)?;
        row.each(it, &["branch_pool"])
    };
    row.branch(Join::Concat, 1, &[&first, &second, &third, &pool])
}

pub(super) fn regnet_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual(false, |row| row.each(it, &["f"]), |row| row.each(it, &["proj"]))?;
    row.each(it, &["activation"])
}

/// `torch.flatten(x, 1)` behind the pool.
pub(super) fn with_flatten(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    for module in &it.children {
        row.module(module)?;
        let flattens = module.children.is_empty() && module.name == "avgpool";
        if flattens && it.class != "ConvNeXt" {
            row.call("flatten", &[])?;
        }
    }
    Ok(())
}

pub(super) fn sequence_of_patches(row: &mut Row<'_, '_>) -> Done {
    row.call("flatten", &[("start_dim", int(2))])?;
    row.call("transpose", &[("dim0", int(1)), ("dim1", int(2))])
}

pub(super) fn vision_transformer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["conv_proj"])?;
    sequence_of_patches(row)?;
    row.call("class_token", &[])?;
    row.each(it, &["encoder"])?;
    row.call("select", &[])?;
    row.each(it, &["heads"])
}

pub(super) fn vision_encoder(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.call("positional_embedding", &[])?;
    row.each(it, &["dropout", "layers", "ln"])
}

pub(super) fn vision_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual(false, |row| row.each(it, &["ln_1", "self_attention", "dropout"]), |_| Ok(()))?;
    row.residual(false, |row| row.each(it, &["ln_2", "mlp"]), |_| Ok(()))
}

/// `SwinTransformer`, whose pictures have channels last from the patches on.
pub(super) fn swin(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let last = [("dims", Value::Ints(vec![0, 2, 3, 1]))];
    let Some(features) = it.child("features") else { return row.all(&it.children) };
    for (index, module) in features.children.iter().enumerate() {
        if index > 0 {
            row.module(module)?;
            continue;
        }
        for part in &module.children {
            if part.class == "Permute" { row.call("permute", &last)? } else { row.module(part)? }
        }
    }
    row.each(it, &["norm"])?;
    row.call("permute", &[("dims", Value::Ints(vec![0, 3, 1, 2]))])?;
    row.each(it, &["avgpool"])?;
    row.call("flatten", &[])?;
    row.each(it, &["head"])
}

/// A block of Swin, of torchvision or timm: windows become the batch, and attention is spelled out.
/// Rolls, what is added to the scores and its parameters are left out.
pub(super) fn swin_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    /// SIZE: side of a window, which is not printed.
    const WINDOW: i64 = 7;
    /// SIZE: width of a head in every published Swin.
    const HEAD: u64 = 32;
    row.unsure(it);
    let Some(own) = it.child("attn") else { return row.all(&it.children) };
    let (Some(height), Some(width), Some(channels)) = (row.x.size(1), row.x.size(2), row.x.width())
    else {
        return row.all(&it.children);
    };
    let signed = |n: u64| i64::try_from(n).unwrap_or(1);
    let (rows, columns) =
        (signed(height).div_euclid(WINDOW).max(1), signed(width).div_euclid(WINDOW).max(1));
    let shape = |sizes: Vec<i64>| [("shape", Value::Ints(sizes))];
    let swapped = [("dims", Value::Ints(vec![0, 1, 3, 2, 4, 5]))];
    let channels_int = signed(channels);
    let attends = |row: &mut Row<'_, '_>| {
        row.each(it, &["norm1"])?;
        row.call("reshape", &shape(vec![0, rows, WINDOW, columns, WINDOW, channels_int]))?;
        row.call("permute", &swapped)?;
        row.call("reshape", &shape(vec![-1, WINDOW.saturating_mul(WINDOW), channels_int]))?;
        let arguments = [
            ("num_heads", Value::from(channels.div_euclid(HEAD).max(1))),
            ("implementation", Value::from("eager")),
        ];
        row.as_kind(own, "attention", &arguments)?;
        row.call("reshape", &shape(vec![-1, rows, columns, WINDOW, WINDOW, channels_int]))?;
        row.call("permute", &swapped)?;
        row.call("reshape", &shape(vec![-1, signed(height), signed(width), channels_int]))?;
        row.each(it, &["stochastic_depth", "drop_path1"])
    };
    row.branch(Join::Add, 1, &[&|_| Ok(()), &attends])?;
    let feeds =
        |row: &mut Row<'_, '_>| row.each(it, &["norm2", "mlp", "stochastic_depth", "drop_path2"]);
    row.branch(Join::Add, 1, &[&|_| Ok(()), &feeds])
}

/// Four neighbours as the channels of one place.
pub(super) fn patch_merging(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    if let (Some(height), Some(width), Some(channels)) =
        (row.x.size(1), row.x.size(2), row.x.width())
        && row.x.rank() == 4
    {
        let signed = |n: u64| i64::try_from(n).unwrap_or(1);
        let [rows, columns] = [height, width].map(|n| signed(n.div_euclid(2)));
        let shape = vec![0, rows, 2, columns, 2, signed(channels)];
        row.call("reshape", &[("shape", Value::Ints(shape))])?;
        row.call("permute", &[("dims", Value::Ints(vec![0, 1, 3, 2, 4, 5]))])?;
        let shape = vec![0, rows, columns, signed(channels.saturating_mul(4))];
        row.call("reshape", &[("shape", Value::Ints(shape))])?;
    }
    row.each(it, &["norm", "reduction"])
}
