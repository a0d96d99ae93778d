//! One file per thing on screen. A component takes values and callbacks, never the whole state.
#![expect(unreachable_pub, reason = "`#[component]` expands to public items")]

mod alive;
mod app;
mod at_cursor;
mod byte_size;
mod canvas;
mod capped;
mod choice_field;
mod diagnostics;
mod dimension_field;
mod drop_zone;
mod figures;
mod gpu_table;
mod header;
mod headline;
mod icons;
mod key_help;
mod minimap;
mod model_facts;
mod notice;
mod phase_table;
mod readout;
mod segment_canvas;
mod segment_map;
mod settings;
mod source_editor;
mod timeline;
mod timeline_canvas;
mod timeline_plot;
mod training_details;

pub(crate) use app::App;
