//! [`Metrics`]: what Prometheus collects.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Counters of a server.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Route, Histogram>,
    in_flight: Gauge,
    models: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: String,
}

/// Seconds: upper ends of the histogram's buckets.
const BUCKETS: [f64; 11] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("highwater");
        let requests = Family::default();
        let seconds: Family<Route, Histogram> =
            Family::new_with_constructor(|| Histogram::new(BUCKETS));
        let (in_flight, models) = (Gauge::default(), Gauge::default());
        registry.register("requests", "Requests by route and status", requests.clone());
        registry.register(
            "request_seconds",
            "Time until a request has its answer",
            seconds.clone(),
        );
        registry.register("jobs_in_flight", "Jobs that are computed or wait", in_flight.clone());
        registry.register("models_kept", "Models that are kept in memory", models.clone());
        Self { registry, requests, seconds, in_flight, models }
    }
}

impl Metrics {
    /// Counts a request that has its answer.
    pub(super) fn count(&self, route: &str, status: u16, took: Duration) {
        let request = Request { route: route.to_owned(), status };
        self.requests.get_or_create(&request).inc();
        let route = Route { route: route.to_owned() };
        self.seconds.get_or_create(&route).observe(took.as_secs_f64());
    }

    /// As Prometheus reads them.
    pub(super) fn text(&self, in_flight: usize, models: usize) -> String {
        self.in_flight.set(i64::try_from(in_flight).unwrap_or(i64::MAX));
        self.models.set(i64::try_from(models).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a text does not fail.
        encode(&mut text, &self.registry).ok();
        text
    }
}
