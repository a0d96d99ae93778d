//! One file per thing on screen. A component takes values and callbacks, never the whole state.
#![expect(unreachable_pub, reason = "`#[component]` expands to public items")]

mod alive;
mod app;
mod at_cursor;
mod autopsy;
mod by_hand;
mod canvas;
mod capped;
mod comparison;
mod diagnostics;
mod dimension_field;
mod drop_zone;
mod export_menu;
pub(crate) mod fields;
mod figures;
mod fit_search;
mod gpu_table;
mod header;
mod headline;
mod icons;
mod key_help;
mod ladder;
mod lesson_panel;
mod menu;
mod message;
mod minimap;
mod model_facts;
mod notice;
mod parts;
mod phase_table;
mod readings;
mod readout;
mod recent_list;
mod recorded;
mod segment_map;
mod settings;
mod share_button;
mod shown;
mod source_editor;
mod timeline;
mod timeline_plot;
mod trend;
mod trend_picture;
mod turns;
mod what_helps;

pub(crate) use app::App;
