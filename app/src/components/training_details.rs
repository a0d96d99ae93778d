//! Settings that most people leave alone.

use highwater_core::Config;
use leptos::prelude::*;

use super::choice_field::{ChoiceField, chosen};

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
    let change = move |edit: &dyn Fn(&mut Config)| {
        let mut wanted = config.get_untracked();
        edit(&mut wanted);
        on_config.run(wanted);
    };
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
            <div class="training-details-fields">
                <ChoiceField
                    id="loss"
                    label="loss"
                    value=chosen(config, |config| config.loss)
                    on_value=Callback::new(move |value| {
                        change(&|config: &mut Config| config.loss = value);
                    })
                />
                <div class="field">
                    <label for="checkpoint">"checkpointing"</label>
                    <select
                        id="checkpoint"
                        on:change:target=move |event| {
                            if let Ok(checkpoint) = event.target().value().parse() {
                                change(&|config: &mut Config| config.checkpoint = checkpoint);
                            }
                        }
                    >
                        {CHECKPOINTS
                            .map(|(name, label)| {
                                let selected = move || {
                                    config.with(|config| config.checkpoint.to_string() == name)
                                };
                                view! {
                                    <option value=name selected=selected>
                                        {label}
                                    </option>
                                }
                            })
                            .collect_view()}
                    </select>
                    <p class="hint">"blocks are run again in backward instead of being kept"</p>
                </div>
                <div class="field">
                    <label for="accumulate">"batches per step"</label>
                    <input
                        id="accumulate"
                        type="number"
                        inputmode="numeric"
                        min="1"
                        step="1"
                        prop:value=move || config.with(|config| config.accumulate.to_string())
                        on:change:target=move |event| {
                            if let Ok(accumulate) = event.target().value().parse() {
                                change(&|config: &mut Config| config.accumulate = accumulate);
                            }
                        }
                    />
                    <p class="hint">"gradients of so many batches are accumulated"</p>
                </div>
                <div class="field">
                    <label for="freeze">"frozen"</label>
                    <input
                        id="freeze"
                        type="text"
                        spellcheck="false"
                        autocapitalize="off"
                        placeholder="encoder, *.embeddings"
                        prop:value=move || config.with(|config| config.freeze.join(", "))
                        on:change:target=move |event| {
                            let freeze = patterns(&event.target().value());
                            change(&|config: &mut Config| config.freeze.clone_from(&freeze));
                        }
                    />
                    <p class="hint">"modules or parameters that are not trained"</p>
                </div>
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
        </details>
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
    use super::*;

    #[test]
    fn patterns_stand_between_commas() {
        assert_eq!(patterns(" encoder, *.bias ,,"), ["encoder", "*.bias"]);
        assert!(patterns("  ").is_empty());
    }

    #[test]
    fn ways_of_checkpointing_are_what_a_configuration_reads() {
        for (name, _) in CHECKPOINTS {
            let checkpoint: highwater_core::config::Checkpoint = name.parse().unwrap();
            assert_eq!(checkpoint.to_string(), name);
        }
    }
}
