//! The schema of settings, from their table.

use std::borrow::Cow;

use highwater_core::config::{Kind, SETTINGS, Setting};
use highwater_core::device;
use highwater_core::report::ITERATIONS;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// Stands for the settings of a run, by their keys.
#[derive(Debug)]
pub(super) enum Settings {}

impl JsonSchema for Settings {
    fn schema_name() -> Cow<'static, str> {
        "Settings".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties: Map<String, Value> =
            SETTINGS.iter().map(|setting| (setting.key(), property(setting))).collect();
        let size = json!({ "type": "integer", "minimum": 1 });
        properties.insert(
            "dims".to_owned(),
            json!({ "description": "sizes of open dimensions", "type": "object", "additionalProperties": size }),
        );
        properties.insert(
            "iterations".to_owned(),
            json!({ "description": "iterations that ran, as an answer has them", "enum": [1, ITERATIONS] }),
        );
        json_schema!({
            "description": "Settings of a run.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}

/// What a setting can be.
fn property(setting: &Setting) -> Value {
    let names = || setting.kind.values().iter().map(|value| value.name).collect::<Vec<_>>();
    let mut property = match setting.kind {
        Kind::Choice(_) => json!({ "enum": names() }),
        Kind::Suggestion(_) => json!({ "type": "string", "examples": names() }),
        Kind::Device => {
            let ids: Vec<&str> = device::all().iter().map(|device| device.id).collect();
            json!({ "type": "string", "examples": ids })
        }
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Count => json!({ "type": "integer", "minimum": 1 }),
        Kind::Size => json!({ "type": ["integer", "string", "null"] }),
        Kind::Names => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Text => json!({ "type": "string" }),
    };
    property["description"] = setting.label.into();
    property
}
