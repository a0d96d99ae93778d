//! Settings that most people leave alone.

use std::num::NonZeroU64;

use highwater_core::Config;
use highwater_core::config::MachineField;
use leptos::prelude::*;

use super::choice_field::{Bound, ChoiceField, Form, NamedChoice, bound};
use super::text_field::TextField;
use crate::language::{fill, tr};

/// Ways of checkpointing: their names in a configuration, and what people call them.
const CHECKPOINTS: [(&str, &str); 4] = [
    ("none", "none"),
    ("blocks", "every block"),
    ("2", "every 2nd block"),
    ("4", "every 4th block"),
];

/// How training is written, folded away until somebody asks.
#[component]
pub(crate) fn TrainingDetails(
    /// The settings.
    form: Form,
) -> impl IntoView {
    let unusual = move || form.config.with(unusual);
    view! {
        <details class="training-details">
            <summary>
                {move || match unusual() {
                    0 => tr("How it trains"),
                    count => fill("How it trains ({n} changed)", &[("n", &count)]),
                }}
            </summary>
            <WhatIsTrained form />
            <TheStep form />
            <TheProgram form />
        </details>
    }
}

/// The loss, what is kept for backward, how much of the model is trained.
#[component]
fn WhatIsTrained(
    /// The settings.
    form: Form,
) -> impl IntoView {
    view! {
        <div class="training-details-fields">
            <ChoiceField
                id="loss"
                label="loss"
                of=bound!(form, loss)
            />
            <NamedChoice
                id="checkpoint"
                label="checkpointing"
                choices=CHECKPOINTS.to_vec()
                name=Signal::derive(move || {
                    let name = form.config.with(|config| config.checkpoint.to_string());
                    let known = CHECKPOINTS.iter().find(|(known, _)| *known == name);
                    known.map_or("", |(known, _)| known)
                })
                about="blocks are run again in backward instead of being kept"
                on_name=Callback::new(move |name: String| {
                    if let Ok(checkpoint) = name.parse() {
                        form.change(|config| config.checkpoint = checkpoint);
                    }
                })
            />
            <CountField
                id="accumulate"
                label="batches per step"
                hint="gradients of so many batches are accumulated"
                of=bound!(form, accumulate)
            />
            <TextField
                id="freeze"
                label="frozen"
                placeholder="encoder, *.embeddings"
                hint="modules or parameters that are not trained"
                of=form.bound(
                    |config| config.freeze.join(", "),
                    |config, typed| config.freeze = patterns(&typed),
                )
            />
            <TextField
                id="lora"
                label="LoRA adapters"
                placeholder="q_proj, v_proj"
                hint="linear layers that get them; nothing else is trained then"
                of=form.bound(
                    |config| config.lora.join(", "),
                    |config, typed| config.lora = patterns(&typed),
                )
            />
            <CountField
                id="lora-rank"
                label="LoRA rank"
                hint="of every adapter"
                of=bound!(form, lora_rank)
            />
        </div>
    }
}

/// What the optimizer does besides.
#[component]
fn TheStep(
    /// The settings.
    form: Form,
) -> impl IntoView {
    view! {
        <div class="training-details-fields">
            <ChoiceField
                id="optimizer-impl"
                label="optimizer runs"
                of=bound!(form, optimizer_impl)
            />
            <SwitchField
                id="weight-decay"
                label="weight decay"
                hint="where the optimizer has it off by default"
                of=bound!(form, weight_decay)
            />
            <SwitchField
                id="clip-grad-norm"
                label="clip gradients"
                hint="by the norm of all of them"
                of=bound!(form, clip_grad_norm)
            />
            <SwitchField
                id="ema"
                label="average of parameters"
                hint="a moving average is kept beside them"
                of=bound!(form, ema)
            />
        </div>
    }
}

/// How the loop and the model are written, and which PyTorch runs them.
#[component]
fn TheProgram(
    /// The settings.
    form: Form,
) -> impl IntoView {
    view! {
        <div class="training-details-fields">
            <ChoiceField
                id="zero-grad"
                label="zero_grad"
                of=bound!(form, zero_grad)
            />
            <ChoiceField
                id="loop"
                label="loop"
                of=bound!(form, loop_style)
            />
            <ChoiceField
                id="memory-format"
                label="memory format"
                of=bound!(form, memory_format)
            />
            <ChoiceField
                id="in-place"
                label="in-place activations"
                of=bound!(form, in_place)
            />
            <ChoiceField
                id="recover"
                label="recovery"
                of=bound!(form, recover)
            />
            <ChoiceField
                id="pytorch"
                label="PyTorch"
                of=bound!(form, pytorch)
            />
        </div>
    }
}

/// A whole number from one on.
#[component]
fn CountField(
    /// Id of the control.
    id: &'static str,
    /// Its name.
    label: &'static str,
    /// What it means.
    hint: &'static str,
    /// The number.
    of: Bound<NonZeroU64>,
) -> impl IntoView {
    let Bound { value, on_value } = of;
    view! {
        <div class="field">
            <label for=id>{tr(label)}</label>
            <input
                id=id
                type="number"
                inputmode="numeric"
                min="1"
                step="1"
                prop:value=move || value.get().to_string()
                on:change:target=move |event| {
                    match event.target().value().trim().parse() {
                        Ok(count) => on_value.run(count),
                        Err(_) => event.target().set_value(&value.get_untracked().to_string()),
                    }
                }
            />
            <p class="hint">{tr(hint)}</p>
        </div>
    }
}

/// A setting that is on or off.
#[component]
fn SwitchField(
    /// Id of the control.
    id: &'static str,
    /// Its name.
    label: &'static str,
    /// What it means.
    hint: &'static str,
    /// Whether it is on.
    of: Bound<bool>,
) -> impl IntoView {
    let Bound { value, on_value } = of;
    view! {
        <div class="field switch">
            <label for=id>
                <input
                    id=id
                    type="checkbox"
                    prop:checked=value
                    on:change:target=move |event| on_value.run(event.target().checked())
                />
                {tr(label)}
            </label>
            <p class="hint">{tr(hint)}</p>
        </div>
    }
}

/// COUNT: settings of the training that are not `PyTorch`'s defaults.
fn unusual(config: &Config) -> usize {
    let is_machine = |name: &str| MachineField::ALL.iter().any(|field| field.name() == name);
    config.unusual().iter().filter(|(name, _)| !is_machine(name)).count()
}

/// Patterns between commas.
fn patterns(typed: &str) -> Vec<String> {
    typed.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use highwater_core::config::Checkpoint;

    use super::*;

    #[test]
    fn patterns_stand_between_commas() {
        assert_eq!(patterns(" encoder, *.bias ,,"), ["encoder", "*.bias"]);
        assert!(patterns("  ").is_empty());
    }

    #[test]
    fn ways_of_checkpointing_are_what_a_configuration_reads() {
        for (name, _) in CHECKPOINTS {
            let checkpoint = name.parse().map(|way: Checkpoint| way.to_string());
            assert_eq!(checkpoint.as_deref(), Ok(name));
        }
    }
}
