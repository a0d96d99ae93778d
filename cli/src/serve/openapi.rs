//! The OpenAPI description of the server, from the types that it reads and writes.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::admission;
use super::routes::{GpuLine, LINES, METRICS, ModelLine};
use crate::jobs::{Job, Reply};

const JSON: &str = "application/json";

/// Refusals by their status.
const REFUSALS: [(&str, &str); 8] = [
    ("400", "The request has an error, which the answer states"),
    ("408", "The request did not arrive in time"),
    ("413", "The request is too large"),
    ("415", "The content type is another"),
    ("421", "The header `Host` names another machine"),
    ("500", "The program has a mistake; other jobs are answered"),
    ("503", "The queue is full; the header `Retry-After` has the seconds to wait"),
    ("504", "The estimate took too long"),
];

/// Refusals of any request.
const TO_ALL: [&str; 2] = ["400", "421"];

/// Refusals of any request with a body.
const TO_BODIES: [&str; 5] = ["400", "408", "413", "415", "421"];

/// Refusals of a job that comes alone.
const TO_ONE: [&str; 8] = ["400", "408", "413", "415", "421", "500", "503", "504"];

/// The description, as OpenAPI 3.1.
pub(super) fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let of = |schema: schemars::Schema| schema.to_value();
    let job = of(generator.subschema_for::<Job>());
    let reply = of(generator.subschema_for::<Reply>());
    let devices = of(generator.subschema_for::<Vec<GpuLine>>());
    let models = of(generator.subschema_for::<Vec<ModelLine>>());
    let schemas = generator.take_definitions(true);
    let answers = |kinds: &[&str], about: &str, schema: &Value, refusals: &[&str]| {
        responses(content(about, kinds, schema), refusals, &reply)
    };
    let listed = |name: &str, summary: &str, about: &str, schema: &Value| {
        let responses = answers(&[JSON], about, schema, &TO_ALL);
        json!({ "get": { "operationId": name, "summary": summary, "responses": responses } })
    };
    let asked = |name: &str, summary: &str, kinds: &[&str], schema: &Value, responses: Value| {
        let mut body = content("", kinds, schema);
        body["required"] = true.into();
        json!({
            "operationId": name, "summary": summary, "requestBody": body, "responses": responses,
        })
    };
    let one = answers(&[JSON], "The answer", &reply, &TO_ONE);
    let each = answers(&LINES[..1], "An answer or an error in each line", &reply, &TO_BODIES);
    let response = answers(&[JSON], "The review with its response", &reviewed(), &TO_BODIES);
    let mut admission = asked(
        "admission",
        "Answer a Kubernetes API server about a pod: an AdmissionReview of admission.k8s.io/v1",
        &[JSON],
        &review(),
        response,
    );
    admission["parameters"] = parameters();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Highwater",
            "description": "Estimates how much GPU memory training takes, for schedulers that ask before they place a job.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": {
            "/v1/estimate": { "post": asked("estimate", "Answer one job", &[JSON], &job, one) },
            "/v1/batch": {
                "post": asked("batch", "Answer a job in each line, in the same order", &LINES, &job, each),
            },
            "/v1/admission": { "post": admission },
            "/v1/devices": listed("devices", "List the GPUs", "All GPUs", &devices),
            "/v1/models": listed(
                "models", "List the models that can be given by name", "All models", &models,
            ),
            "/openapi.json": listed(
                "description", "Describe all routes", "This document", &json!({ "type": "object" }),
            ),
            "/healthz": { "get": {
                "operationId": "health",
                "summary": "State that the server runs",
                "responses": answers(&["text/plain"], "It runs", &text(), &TO_ALL),
            } },
            "/metrics": { "get": {
                "operationId": "metrics",
                "summary": "Counters for Prometheus",
                "responses": answers(&[METRICS], "OpenMetrics text", &text(), &TO_ALL),
            } },
        },
        "components": { "schemas": schemas },
    })
}

/// Responses to a request: what it asks for, and refusals by their status, which are answers with an error.
fn responses(answer: Value, refusals: &[&str], reply: &Value) -> Value {
    let of = |status: &&str| {
        let about = REFUSALS.iter().find(|(known, _)| known == status).map_or("", |known| known.1);
        ((*status).to_owned(), content(about, &[JSON], reply))
    };
    let mut all: Map<String, Value> = refusals.iter().map(of).collect();
    all.insert("200".to_owned(), answer);
    all.into()
}

/// Something with the same schema in each of these types.
fn content(about: &str, kinds: &[&str], schema: &Value) -> Value {
    let kinds: Map<String, Value> =
        kinds.iter().map(|kind| ((*kind).to_owned(), json!({ "schema": schema }))).collect();
    if about.is_empty() {
        json!({ "content": kinds })
    } else {
        json!({ "description": about, "content": kinds })
    }
}

/// What is needed of an `AdmissionReview` of `admission.k8s.io/v1`.
fn review() -> Value {
    json!({
        "type": "object",
        "required": ["apiVersion", "request"],
        "properties": {
            "apiVersion": { "const": admission::VERSION },
            "request": {
                "type": "object",
                "required": ["uid"],
                "properties": {
                    "uid": text(),
                    "object": { "description": "The pod; there is none where one is deleted" },
                },
            },
        },
    })
}

/// The same with its response.
fn reviewed() -> Value {
    json!({
        "type": "object",
        "required": ["apiVersion", "kind", "response"],
        "properties": {
            "apiVersion": { "const": admission::VERSION },
            "kind": { "const": "AdmissionReview" },
            "response": {
                "type": "object",
                "required": ["uid", "allowed"],
                "properties": {
                    "uid": text(),
                    "allowed": { "type": "boolean" },
                    "warnings": { "type": "array", "items": text() },
                    "patchType": { "const": "JSONPatch" },
                    "patch": { "type": "string", "contentEncoding": "base64" },
                    "status": { "type": "object" },
                },
            },
        },
    })
}

/// What an administrator decides for all pods.
fn parameters() -> Value {
    let parameter = |name: &str, about: &str, schema: Value| json!({ "name": name, "in": "query", "description": about, "schema": schema });
    let names: Vec<&str> = admission::Request::TABLE.iter().map(|(name, _)| *name).collect();
    let requests = json!({ "enum": names, "default": names[0] });
    json!([
        parameter("devices", "GPUs of pods that choose none, with commas between", text()),
        parameter("request", "What a pod that fits gets", requests),
        parameter("timeout", "Added by the API server; ignored", text()),
    ])
}

fn text() -> Value {
    json!({ "type": "string" })
}
