//! One file per thing on screen. A component takes values and callbacks, never the whole state.
#![expect(unreachable_pub, reason = "`#[component]` expands to public items")]

mod app;
mod at_peak;
mod autopsy;
mod byte_size;
mod capped;
mod category_bar;
mod choice_field;
mod diagnostics;
mod dimension_field;
mod drawn;
mod drop_zone;
mod export_menu;
mod figures;
mod fit_search;
mod gpu_table;
mod header;
mod headline;
mod icons;
mod ladder;
mod lesson_panel;
mod menu;
mod model_facts;
mod modules_at_peak;
mod notice;
mod phase_table;
mod readout;
mod recent_list;
mod settings;
mod share_button;
mod source_editor;
mod tensors_at_peak;
mod timeline;
mod timeline_canvas;
mod training_details;
mod trend;
mod trend_picture;
mod what_helps;

pub(crate) use app::App;
