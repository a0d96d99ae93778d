//! The OpenAPI description of the server, from the types that it reads and writes.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::routes::{GpuLine, ModelLine};
use crate::jobs::{Job, Reply};

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
    let answer = |about: &str| content(about, "application/json", &reply);
    let mut one = json!({
        "400": answer("The job has an error, which the answer states"),
        "408": answer("The request did not arrive in time"),
        "413": answer("The request is too large"),
        "415": answer("The content type is another"),
        "503": answer("The queue is full; the header `Retry-After` has the seconds to wait"),
        "504": answer("The estimate took too long"),
    });
    one["200"] = answer("The answer");
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Highwater",
            "description": "Estimates how much GPU memory training takes, for schedulers that ask before they place a job.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": {
            "/v1/estimate": { "post": {
                "operationId": "estimate",
                "summary": "Answer one job",
                "requestBody": { "required": true, "content": { "application/json": { "schema": job } } },
                "responses": one,
            } },
            "/v1/batch": { "post": {
                "operationId": "batch",
                "summary": "Answer a job in each line, in the same order",
                "requestBody": {
                    "required": true, "content": { "application/x-ndjson": { "schema": job } },
                },
                "responses": {
                    "200": content("An answer or an error in each line", "application/x-ndjson", &reply),
                    "413": answer("The request is too large"),
                },
            } },
            "/v1/admission": { "post": admission(&reply) },
            "/v1/devices": { "get": {
                "operationId": "devices",
                "summary": "List the GPUs",
                "responses": { "200": content("All GPUs", "application/json", &devices) },
            } },
            "/v1/models": { "get": {
                "operationId": "models",
                "summary": "List the models that can be given by name",
                "responses": { "200": content("All models", "application/json", &models) },
            } },
            "/healthz": health(),
            "/metrics": metrics(),
        },
        "components": { "schemas": schemas },
    })
}

fn health() -> Value {
    json!({ "get": {
        "operationId": "health",
        "summary": "State that the server runs",
        "responses": { "200": text("It runs") },
    } })
}

fn metrics() -> Value {
    json!({ "get": {
        "operationId": "metrics",
        "summary": "Counters for Prometheus",
        "responses": { "200": text("OpenMetrics text") },
    } })
}

fn content(about: &str, kind: &str, schema: &Value) -> Value {
    json!({ "description": about, "content": { kind: { "schema": schema } } })
}

/// The route of Kubernetes.
fn admission(reply: &Value) -> Value {
    json!({
        "operationId": "admission",
        "summary": "Answer a Kubernetes API server about a pod: an AdmissionReview of admission.k8s.io/v1",
        "parameters": parameters(),
        "requestBody": object("The review with its request"),
        "responses": {
            "200": object("The review with its response"),
            "400": content("This is no review, or a parameter is wrong", "application/json", reply),
        },
    })
}

/// A document of another specification.
fn object(about: &str) -> Value {
    content(about, "application/json", &json!({ "type": "object" }))
}

/// What an administrator decides for all pods.
fn parameters() -> Value {
    let parameter = |name: &str, about: &str, schema: Value| json!({ "name": name, "in": "query", "description": about, "schema": schema });
    let text = || json!({ "type": "string" });
    let requests = json!({ "enum": ["gpumem", "memory", "nothing"], "default": "gpumem" });
    json!([
        parameter("devices", "GPUs of pods that choose none, with commas between", text()),
        parameter("request", "What a pod that fits gets", requests),
        parameter("timeout", "Added by the API server; ignored", text()),
    ])
}

fn text(about: &str) -> Value {
    content(about, "text/plain", &json!({ "type": "string" }))
}
