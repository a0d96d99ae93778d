//! [`Desk`]: takes jobs to the threads that compute, as many as there is place for.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use crate::jobs::{Engine, Failure, Pool, Reply};

/// The threads that compute, and the queue before them.
#[derive(Debug)]
pub(crate) struct Desk {
    pool: Pool,
    engine: Arc<Engine>,
    /// One for each job that is computed or waits.
    places: Arc<Semaphore>,
    /// COUNT: places in all.
    all: usize,
    time_limit: Duration,
}

/// Why a job was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The queue is full.
    Busy,
    /// It took too long; the computation goes on, since it cannot be interrupted, and its result is dropped.
    Late(Duration),
    /// The thread ended.
    Broken,
}

impl Desk {
    pub(super) fn new(
        pool: Pool,
        engine: Arc<Engine>,
        threads: usize,
        queue: usize,
        time_limit: Duration,
    ) -> Self {
        let all = threads.saturating_add(queue).min(Semaphore::MAX_PERMITS);
        Self { pool, engine, places: Arc::new(Semaphore::new(all)), all, time_limit }
    }

    /// COUNT: jobs that are computed or wait.
    pub(super) fn in_flight(&self) -> usize {
        self.all.saturating_sub(self.places.available_permits())
    }

    /// COUNT: models that are kept.
    pub(super) fn models(&self) -> usize {
        self.engine.models()
    }

    /// The answer to a job, if there is a place for it.
    pub(crate) async fn ask(&self, job: Bytes) -> Result<Reply, Unanswered> {
        match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => self.answer(job, place).await,
            Err(_) => Err(Unanswered::Busy),
        }
    }

    /// The same, after waiting for a place.
    pub(super) async fn ask_patiently(&self, job: Bytes) -> Result<Reply, Unanswered> {
        match Arc::clone(&self.places).acquire_owned().await {
            Ok(place) => self.answer(job, place).await,
            Err(_) => Err(Unanswered::Busy),
        }
    }

    async fn answer(&self, job: Bytes, place: OwnedSemaphorePermit) -> Result<Reply, Unanswered> {
        let (send, reply) = oneshot::channel();
        self.pool.give(move |engine, worker| {
            // Nobody may wait any more.
            if !send.is_closed() {
                send.send(engine.answer(&job, worker)).ok();
            }
            drop(place);
        });
        match timeout(self.time_limit, reply).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => Err(Unanswered::Broken),
            Err(_) => Err(Unanswered::Late(self.time_limit)),
        }
    }
}

impl Unanswered {
    /// As the answer to the job.
    pub(crate) fn reply(self) -> Reply {
        let (kind, message) = match self {
            Self::Busy => ("busy", "the queue of this server is full; ask again later".to_owned()),
            Self::Late(limit) => (
                "timeout",
                format!(
                    "the estimate took more than {} s; ask for fewer devices, without `largest`, or start the server \
                     with a larger `--time-limit`",
                    limit.as_secs()
                ),
            ),
            Self::Broken => {
                ("internal", "Highwater has a mistake, and this job shows it".to_owned())
            }
        };
        Reply::of(Value::Null, Err(Failure::new(kind, message)))
    }
}
