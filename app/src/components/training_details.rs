//! Settings that most people leave alone.

use std::num::NonZeroU64;

use highwater_core::Config;
use leptos::prelude::*;

use super::choice_field::{ChoiceField, NamedChoice, chosen, editor};

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
    config: Signal<Config>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
) -> impl IntoView {
    let unusual = move || config.with(|config| config.unusual().len());
    view! {
        <details class="training-details">
            <summary>
                "How it trains"
                {move || {
                    match unusual() {
                        0 => String::new(),
                        count => format!(" ({count} changed)"),
                    }
                }}
            </summary>
            <WhatIsTrained config on_config />
            <TheStep config on_config />
            <TheProgram config on_config />
        </details>
    }
}

/// The loss, what is kept for backward, how much of the model is trained.
#[component]
fn WhatIsTrained(
    /// The settings.
    config: Signal<Config>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
) -> impl IntoView {
    let change = editor(config, on_config);
    view! {
        <div class="training-details-fields">
            <ChoiceField
                id="loss"
                label="loss"
                value=chosen(config, |config| config.loss)
                on_value=Callback::new(move |value| {
                    change(&|config: &mut Config| config.loss = value);
                })
            />
            <NamedChoice
                id="checkpoint"
                label="checkpointing"
                choices=CHECKPOINTS.to_vec()
                name=chosen(config, |config| {
                    let name = config.checkpoint.to_string();
                    let known = CHECKPOINTS.iter().find(|(known, _)| *known == name);
                    known.map_or("", |(known, _)| known)
                })
                about="blocks are run again in backward instead of being kept"
                on_name=Callback::new(move |name: String| {
                    if let Ok(checkpoint) = name.parse() {
                        change(&|config: &mut Config| config.checkpoint = checkpoint);
                    }
                })
            />
            <CountField
                id="accumulate"
                label="batches per step"
                hint="gradients of so many batches are accumulated"
                value=chosen(config, |config| config.accumulate)
                on_value=Callback::new(move |accumulate| {
                    change(&|config: &mut Config| config.accumulate = accumulate);
                })
            />
            <PatternField
                id="freeze"
                label="frozen"
                placeholder="encoder, *.embeddings"
                hint="modules or parameters that are not trained"
                value=chosen(config, |config| config.freeze.join(", "))
                on_value=Callback::new(move |freeze: Vec<String>| {
                    change(&|config: &mut Config| config.freeze.clone_from(&freeze));
                })
            />
            <PatternField
                id="lora"
                label="LoRA adapters"
                placeholder="q_proj, v_proj"
                hint="linear layers that get them; nothing else is trained then"
                value=chosen(config, |config| config.lora.join(", "))
                on_value=Callback::new(move |lora: Vec<String>| {
                    change(&|config: &mut Config| config.lora.clone_from(&lora));
                })
            />
            <CountField
                id="lora-rank"
                label="LoRA rank"
                hint="of every adapter"
                value=chosen(config, |config| config.lora_rank)
                on_value=Callback::new(move |rank| {
                    change(&|config: &mut Config| config.lora_rank = rank);
                })
            />
        </div>
    }
}

/// What the optimizer does besides.
#[component]
fn TheStep(
    /// The settings.
    config: Signal<Config>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
) -> impl IntoView {
    let change = editor(config, on_config);
    view! {
        <div class="training-details-fields">
            <ChoiceField
                id="optimizer-impl"
                label="optimizer runs"
                value=chosen(config, |config| config.optimizer_impl)
                on_value=Callback::new(move |value| {
                    change(&|config: &mut Config| config.optimizer_impl = value);
                })
            />
            <SwitchField
                id="weight-decay"
                label="weight decay"
                hint="where the optimizer has it off by default"
                value=chosen(config, |config| config.weight_decay)
                on_value=Callback::new(move |value| {
                    change(&|config: &mut Config| config.weight_decay = value);
                })
            />
            <SwitchField
                id="clip-grad-norm"
                label="clip gradients"
                hint="by the norm of all of them"
                value=chosen(config, |config| config.clip_grad_norm)
                on_value=Callback::new(move |value| {
                    change(&|config: &mut Config| config.clip_grad_norm = value);
                })
            />
            <SwitchField
                id="ema"
                label="average of parameters"
                hint="a moving average is kept beside them"
                value=chosen(config, |config| config.ema)
                on_value=Callback::new(move |value| {
                    change(&|config: &mut Config| config.ema = value);
                })
            />
        </div>
    }
}

/// How the loop and the model are written, and which PyTorch runs them.
#[component]
fn TheProgram(
    /// The settings.
    config: Signal<Config>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
) -> impl IntoView {
    let change = editor(config, on_config);
    view! {
        <div class="training-details-fields">
            <ChoiceField
                id="zero-grad"
                label="zero_grad"
                value=chosen(config, |config| config.zero_grad)
                on_value=Callback::new(move |value| {
                    change(&|config: &mut Config| config.zero_grad = value);
                })
            />
            <ChoiceField
                id="loop"
                label="loop"
                value=chosen(config, |config| config.loop_style)
                on_value=Callback::new(move |value| {
                    change(&|config: &mut Config| config.loop_style = value);
                })
            />
            <ChoiceField
                id="memory-format"
                label="memory format"
                value=chosen(config, |config| config.memory_format)
                on_value=Callback::new(move |value| {
                    change(&|config: &mut Config| config.memory_format = value);
                })
            />
            <ChoiceField
                id="attention"
                label="attention"
                value=chosen(config, |config| config.attention)
                on_value=Callback::new(move |value| {
                    change(&|config: &mut Config| config.attention = value);
                })
            />
            <ChoiceField
                id="in-place"
                label="in-place activations"
                value=chosen(config, |config| config.in_place)
                on_value=Callback::new(move |value| {
                    change(&|config: &mut Config| config.in_place = value);
                })
            />
            <ChoiceField
                id="recover"
                label="recovery"
                value=chosen(config, |config| config.recover)
                on_value=Callback::new(move |value| {
                    change(&|config: &mut Config| config.recover = value);
                })
            />
            <ChoiceField
                id="pytorch"
                label="PyTorch"
                value=chosen(config, |config| config.pytorch)
                on_value=Callback::new(move |value| {
                    change(&|config: &mut Config| config.pytorch = value);
                })
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
    value: Signal<NonZeroU64>,
    /// Another was typed.
    on_value: Callback<NonZeroU64>,
) -> impl IntoView {
    view! {
        <div class="field">
            <label for=id>{label}</label>
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
            <p class="hint">{hint}</p>
        </div>
    }
}

/// Names, or patterns of names, between commas.
#[component]
fn PatternField(
    /// Id of the control.
    id: &'static str,
    /// Its name.
    label: &'static str,
    /// What one might write.
    placeholder: &'static str,
    /// What it means.
    hint: &'static str,
    /// The patterns, between commas.
    value: Signal<String>,
    /// Others were typed.
    on_value: Callback<Vec<String>>,
) -> impl IntoView {
    view! {
        <div class="field">
            <label for=id>{label}</label>
            <input
                id=id
                type="text"
                spellcheck="false"
                autocapitalize="off"
                placeholder=placeholder
                prop:value=value
                on:change:target=move |event| on_value.run(patterns(&event.target().value()))
            />
            <p class="hint">{hint}</p>
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
    value: Signal<bool>,
    /// It was switched.
    on_value: Callback<bool>,
) -> impl IntoView {
    view! {
        <div class="field switch">
            <label for=id>
                <input
                    id=id
                    type="checkbox"
                    prop:checked=value
                    on:change:target=move |event| on_value.run(event.target().checked())
                />
                {label}
            </label>
            <p class="hint">{hint}</p>
        </div>
    }
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
