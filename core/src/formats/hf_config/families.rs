//! The known families: one file each in `families`, and one row here.

use super::language::{Statement, header, parse};
use crate::error::Error;

macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("families/", $name, ".family")))),*]
    };
}

/// What all families may use.
const SHARED: [(&str, &str); 2] = files!["torch" "transformers"];

/// All families, by how much they are used.
const FAMILIES: [(&str, &str); 38] = files![
    "gpt2" "llama" "mistral" "qwen2" "qwen3" "bert" "roberta" "distilbert" "vit" "opt" "gpt_neox" "phi"
    "gemma" "gemma2" "gemma3_text" "mixtral" "falcon" "bloom" "gptj" "t5" "bart" "convnext" "albert"
    "gpt_neo" "deberta-v2" "whisper" "swin" "clip" "clip_text_model" "clip_vision_model" "deit" "electra"
    "phi3" "olmo2" "starcoder2" "stablelm" "xlm-roberta" "qwen3_moe"
];

/// A family of models: one `model_type`.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) model_type: &'static str,
    /// What such a model is trained for where `architectures` does not say.
    pub(super) task: &'static str,
    /// The model inside of one with a head.
    pub(super) base: &'static str,
    /// Keys that its configurations have and few others.
    pub(super) keys: Vec<&'static str>,
    /// The family whose file comes before its own.
    like: &'static str,
    file: (&'static str, &'static str),
}

/// All families, by the first lines of their files.
pub(super) fn families() -> Result<Vec<Family>, Error> {
    let family = |&file: &(&'static str, &'static str)| {
        let header = header(file.0, file.1)?;
        let stated = |name: &str| header.iter().find(|row| row.0 == name).map_or("", |row| row.1);
        Ok(Family {
            model_type: stated(""),
            task: stated("task"),
            base: stated("base"),
            keys: stated("keys").split(' ').collect(),
            like: stated("like"),
            file,
        })
    };
    FAMILIES.iter().map(family).collect()
}

impl Family {
    /// The statements of all files that its programs are made of, in the order in which they count.
    pub(super) fn files(
        &self,
        families: &[Self],
    ) -> Result<Vec<(&'static str, Vec<Statement<'static>>)>, Error> {
        let like = |family: &&Self| families.iter().find(|other| other.model_type == family.like);
        // What is like itself has no end.
        let lineage = std::iter::successors(Some(self), like).take(families.len());
        let mut lineage: Vec<_> = lineage.map(|family| family.file).collect();
        lineage.reverse();
        let files = SHARED.into_iter().chain(lineage);
        files.map(|(name, text)| Ok((name, parse(name, text)?))).collect()
    }
}
