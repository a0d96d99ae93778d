//! One file per thing on screen. A component takes values and callbacks, never the whole state.
#![expect(unreachable_pub, reason = "`#[component]` expands to public items")]

mod app;
mod at_peak;
mod byte_size;
mod capped;
mod category_bar;
mod choice_field;
mod diagnostics;
mod dimension_field;
mod drop_zone;
mod figures;
mod gpu_table;
mod header;
mod headline;
mod icons;
mod message;
mod model_facts;
mod modules_at_peak;
mod notice;
mod phase_table;
mod readout;
mod settings;
mod source_editor;
mod tensors_at_peak;
mod text_field;
mod timeline;
mod timeline_canvas;
mod training_details;
mod your_card;

pub(crate) use app::App;
