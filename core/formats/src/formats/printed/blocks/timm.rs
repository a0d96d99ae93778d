//! Blocks of timm's models.

use super::torchvision::sequence_of_patches;
use super::{Done, int};
use crate::formats::printed::text::Printed;
use crate::formats::printed::translate::Row;
use crate::formats::spec::Value;

/// timm's `ConvNeXt`, with linear layers over channels that lie last.
pub(super) fn timm_convnext_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual(
        false,
        |row| {
            row.each(it, &["conv_dw"])?;
            row.call("permute", &[("dims", Value::Ints(vec![0, 2, 3, 1]))])?;
            row.each(it, &["norm", "mlp"])?;
            row.call("permute", &[("dims", Value::Ints(vec![0, 3, 1, 2]))])?;
            row.call("layer_scale", &[("dim", int(1))])?;
            row.each(it, &["drop_path"])
        },
        |row| row.each(it, &["shortcut"]),
    )
}

pub(super) fn patch_embed(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["proj"])?;
    sequence_of_patches(row)?;
    row.each(it, &["norm"])
}

pub(super) fn timm_vision_transformer(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.each(it, &["patch_embed"])?;
    row.call("class_token", &[])?;
    row.call("positional_embedding", &[])?;
    row.each(it, &["pos_drop", "patch_drop", "norm_pre", "blocks", "norm"])?;
    row.call("select", &[])?;
    row.each(it, &["fc_norm", "head_drop", "head"])
}

pub(super) fn timm_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual(false, |row| row.each(it, &["norm1", "attn", "ls1", "drop_path1"]), |_| Ok(()))?;
    row.residual(false, |row| row.each(it, &["norm2", "mlp", "ls2", "drop_path2"]), |_| Ok(()))
}

pub(super) fn layer_scale(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.as_kind(it, "layer_scale", &[])
}

/// `InvertedResidual` and its kin: parts in order, and a sum where nothing changes the size.
pub(super) fn mobile_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual_if_alike(false, |row| row.all(&it.children))
}

/// `Bottleneck` of `RegNet`, whose layers have their norms inside.
pub(super) fn regnet_block(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    row.residual(
        false,
        |row| row.each(it, &["conv1", "conv2", "se", "conv3", "drop_path"]),
        |row| row.each(it, &["downsample"]),
    )?;
    row.each(it, &["act3"])
}

/// `BatchNormAct2d`: a norm by itself, and the activation that it prints as a part.
pub(super) fn norm_and_act(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let norm =
        Printed { children: Vec::new(), ..Printed::new(&it.name, "BatchNorm2d", Vec::new()) };
    row.as_kind(&norm, "batchnorm2d", &[])?;
    row.each(it, &["drop", "act"])
}

/// `SelectAdaptivePool2d(pool_type=avg, flatten=Flatten(…))`.
pub(super) fn pool(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    if row.x.rank() == 4 {
        row.call("global_avgpool", &[])?;
    }
    match it.argument("flatten", None) {
        Some(Value::Word(word)) if word.starts_with("Flatten") => row.call("flatten", &[]),
        _ => Ok(()),
    }
}

/// `SwinTransformer`, whose pictures have channels last from the patches on.
pub(super) fn swin(row: &mut Row<'_, '_>, it: &Printed) -> Done {
    let Some((patches, head)) = it.child("patch_embed").zip(it.child("head")) else {
        return row.all(&it.children);
    };
    row.each(patches, &["proj"])?;
    row.call("permute", &[("dims", Value::Ints(vec![0, 2, 3, 1]))])?;
    row.each(patches, &["norm"])?;
    row.each(it, &["layers", "norm"])?;
    for _ in 0..2 {
        row.call("mean", &[("dim", int(1))])?;
    }
    row.each(head, &["drop", "fc"])
}
