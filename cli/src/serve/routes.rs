//! The routes of the server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{self, Body, Bytes};
use axum::extract::{MatchedPath, Query, Request, State};
use axum::http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode, Version};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures_util::{StreamExt as _, stream};
use highwater_core::device;
use highwater_core::formats::catalogue;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;

use super::admission::{Opened, Policy};
use super::desk::{Desk, Unanswered};
use super::metrics::Metrics;
use super::openapi;
use crate::jobs::{Failure, Reply};

/// The content types of a job in each line; answers have the first.
pub(super) const LINES: [&str; 3] =
    ["application/x-ndjson", "application/jsonl", "application/json"];

/// The content type of the counters.
pub(super) const METRICS: &str = "application/openmetrics-text";

/// What all requests share.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) desk: Desk,
    pub(super) metrics: Metrics,
    /// SIZE: bytes of a request's body.
    pub(super) body_limit: usize,
    /// How long a body may take to arrive.
    pub(super) body_time: Duration,
    /// COUNT: lines of a batch.
    pub(super) batch_lines: usize,
    /// Whether requests may name any host.
    pub(super) any_host: bool,
}

/// A GPU.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct GpuLine {
    /// Stable id, as jobs name it.
    id: &'static str,
    /// Name for people.
    name: &'static str,
    /// Bytes: memory as PyTorch reports it.
    capacity: u64,
    /// Bytes: CUDA context and libraries of one process.
    context: u64,
    /// Compute capability, such as `8.0`.
    compute_capability: String,
    /// Multiprocessors.
    multiprocessors: u64,
}

/// A model that can be given by name.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ModelLine {
    /// Name, as jobs give it.
    id: &'static str,
    /// Name for people.
    name: &'static str,
    /// Parameters, those that are shared once.
    parameters: u64,
    /// `model_type` of its configuration.
    family: &'static str,
    /// Names on the Hub.
    hub: Vec<&'static str>,
}

/// The service.
pub(super) fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/estimate", post(estimate))
        .route("/v1/batch", post(batch))
        .route("/v1/admission", post(admission))
        .route("/v1/devices", get(devices))
        .route("/v1/models", get(models))
        .route("/openapi.json", get(description))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(metrics))
        .fallback(|| async {
            refuse(
                StatusCode::NOT_FOUND,
                "not-found",
                "there is no such route; /openapi.json lists all",
            )
        })
        .method_not_allowed_fallback(|| async {
            let message = "this route has another method; /openapi.json lists all";
            refuse(StatusCode::METHOD_NOT_ALLOWED, "method", message)
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&server), guard))
        .with_state(server)
}

/// Counts requests, and refuses those that a page in a browser sends through a name of its own for this machine.
async fn guard(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let response = match misdirected(&request, server.any_host) {
        None => next.run(request).await,
        Some((status, message)) => refuse(status, "host", message),
    };
    let route = route.as_deref().unwrap_or("other");
    server.metrics.count(route, response.status().as_u16(), start.elapsed());
    response
}

/// The status and the reason where a request names no host or two, or, unless it may name any host, one that is not
/// this machine. HTTP 1.0 needs none.
pub(super) fn misdirected(request: &Request, any_host: bool) -> Option<(StatusCode, &'static str)> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        (None, _) if request.version() < Version::HTTP_11 => return None,
        _ => None,
    };
    let Some(host) = host else {
        let message = "the request must have one header `Host`, such as `Host: localhost`";
        return Some((StatusCode::BAD_REQUEST, message));
    };
    if any_host || names_this_machine(host) && request.uri().host().is_none_or(names_this_machine) {
        return None;
    }
    let message = "the header `Host` names another machine; ask 127.0.0.1 or localhost";
    Some((StatusCode::MISDIRECTED_REQUEST, message))
}

/// Whether a host is a name that only this machine has.
fn names_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    let name = name.unwrap_or_default();
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Answers one job.
async fn estimate(State(server): State<Arc<Server>>, request: Request) -> Response {
    let job = match server.receive(request, &["application/json"]).await {
        Ok(job) => job,
        Err(refusal) => return refusal,
    };
    match server.desk.ask(job).await {
        Ok(reply) => answered(&reply),
        Err(unanswered) => failed(unanswered),
    }
}

/// Answers a job in each line.
async fn batch(State(server): State<Arc<Server>>, request: Request) -> Response {
    let lines = match server.receive(request, &LINES).await {
        Ok(lines) => lines,
        Err(refusal) => return refusal,
    };
    let jobs: Vec<Bytes> = lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty())
        .take(server.batch_lines.saturating_add(1))
        .map(|line| lines.slice_ref(line))
        .collect();
    if jobs.len() > server.batch_lines {
        let message = format!("more than {} lines; send several batches", server.batch_lines);
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "too-long", &message);
    }
    let ahead = server.desk.batched();
    // Computed as fast as the client reads.
    let answers = stream::iter(jobs).map(move |job| {
        let server = Arc::clone(&server);
        async move {
            let reply = server.desk.ask_patiently(job).await;
            let reply = reply.unwrap_or_else(Unanswered::reply);
            Ok::<_, Infallible>(Bytes::from(reply.line() + "\n"))
        }
    });
    let body = Body::from_stream(answers.buffered(ahead));
    ([(CONTENT_TYPE, LINES[0])], body).into_response()
}

/// Answers a Kubernetes API server about one object.
async fn admission(State(server): State<Arc<Server>>, request: Request) -> Response {
    let policy = match Query::<Policy>::try_from_uri(request.uri()) {
        Ok(Query(policy)) => policy,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, "policy", &error.body_text()),
    };
    let review = match server.receive(request, &["application/json"]).await {
        Ok(review) => review,
        Err(refusal) => return refusal,
    };
    let opened = match Opened::read(&review, &policy) {
        Ok(opened) => opened,
        Err(message) => return refuse(StatusCode::BAD_REQUEST, "bad-review", &message),
    };
    let job = opened.job().map(|job| Bytes::copy_from_slice(job.as_bytes()));
    let reply = match job {
        Some(job) => Some(server.desk.ask(job).await.unwrap_or_else(Unanswered::reply)),
        None => None,
    };
    // Fails only for maps whose keys are no texts, and there are none.
    let reply = serde_json::to_value(reply).unwrap_or_default();
    json(StatusCode::OK, &opened.review(reply))
}

async fn devices() -> Response {
    let line = |device: &'static device::Device| {
        let (major, minor) = device.compute_capability;
        GpuLine {
            id: device.id,
            name: device.name,
            capacity: device.capacity.0,
            context: device.context().0,
            compute_capability: format!("{major}.{minor}"),
            multiprocessors: device.multiprocessors,
        }
    };
    json(StatusCode::OK, &device::all().iter().map(line).collect::<Vec<_>>())
}

async fn models() -> Response {
    let line = |entry: &catalogue::Entry| ModelLine {
        id: entry.id,
        name: entry.name,
        parameters: entry.parameters,
        family: entry.family(),
        hub: entry.hub().collect(),
    };
    json(StatusCode::OK, &catalogue::entries().iter().map(line).collect::<Vec<_>>())
}

async fn description() -> Response {
    json(StatusCode::OK, &openapi::document())
}

async fn metrics(State(server): State<Arc<Server>>) -> Response {
    let text = server.metrics.text(server.desk.in_flight(), server.desk.models());
    let kind = format!("{METRICS}; version=1.0.0; charset=utf-8");
    ([(CONTENT_TYPE, kind)], text).into_response()
}

impl Server {
    /// The body of a request of one of these types.
    ///
    /// # Errors
    /// The refusal, where it has another type, or is too large or too slow.
    async fn receive(&self, request: Request, kinds: &[&str]) -> Result<Bytes, Response> {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        if !kinds.iter().any(|known| kind.eq_ignore_ascii_case(known)) {
            let message = format!("the header `Content-Type` must be {}", kinds.join(" or "));
            return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-type", &message));
        }
        let body = body::to_bytes(request.into_body(), self.body_limit);
        match timeout(self.body_time, body).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(_)) => {
                let message = format!(
                    "the body did not arrive whole, or has more than {} bytes; give the model's name instead of its \
                     contents, or several batches",
                    self.body_limit
                );
                Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "too-long", &message))
            }
            Err(_) => {
                let message = format!("the body took more than {} s", self.body_time.as_secs());
                Err(refuse(StatusCode::REQUEST_TIMEOUT, "slow", &message))
            }
        }
    }
}

/// An answer, whose status tells whether it is an error.
fn answered(reply: &Reply) -> Response {
    let status = match reply.error.as_ref().map(|error| &*error.kind) {
        None => StatusCode::OK,
        Some("internal") => StatusCode::INTERNAL_SERVER_ERROR,
        Some(_) => StatusCode::BAD_REQUEST,
    };
    json(status, reply)
}

fn failed(unanswered: Unanswered) -> Response {
    let status = match unanswered {
        Unanswered::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Unanswered::Late(_) => StatusCode::GATEWAY_TIMEOUT,
        Unanswered::Broken => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = json(status, &unanswered.reply());
    if unanswered == Unanswered::Busy {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// A refusal, in the form of an answer.
fn refuse(status: StatusCode, kind: &str, message: &str) -> Response {
    json(status, &Reply::of(Value::Null, Err(Failure::new(kind, message))))
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    // Fails only for maps whose keys are no texts, and there are none.
    let text = serde_json::to_string(value).unwrap_or_default() + "\n";
    (status, [(CONTENT_TYPE, "application/json")], text).into_response()
}
