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
    /// Places for jobs that come alone.
    single: Places,
    /// Places for jobs of batches, which so cannot take those of others.
    batched: Places,
    time_limit: Duration,
}

/// A place for each job that is computed or waits.
#[derive(Debug)]
struct Places {
    free: Arc<Semaphore>,
    /// COUNT: places in all.
    all: usize,
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
        let single = Places::new(threads.saturating_add(queue));
        let batched = Places::new(threads.saturating_mul(2));
        Self { pool, engine, single, batched, time_limit }
    }

    /// COUNT: jobs of batches that are computed or wait, at most.
    pub(super) const fn batched(&self) -> usize {
        self.batched.all
    }

    /// COUNT: jobs that are computed or wait.
    pub(super) fn in_flight(&self) -> usize {
        self.single.taken().saturating_add(self.batched.taken())
    }

    /// COUNT: models that are kept.
    pub(super) fn models(&self) -> usize {
        self.engine.models()
    }

    /// The answer to a job, if there is a place for it.
    pub(crate) async fn ask(&self, job: Bytes) -> Result<Reply, Unanswered> {
        match Arc::clone(&self.single.free).try_acquire_owned() {
            Ok(place) => self.answer(job, place).await,
            Err(_) => Err(Unanswered::Busy),
        }
    }

    /// The same of a job of a batch, after waiting for a place.
    pub(super) async fn ask_patiently(&self, job: Bytes) -> Result<Reply, Unanswered> {
        match Arc::clone(&self.batched.free).acquire_owned().await {
            Ok(place) => self.answer(job, place).await,
            Err(_) => Err(Unanswered::Busy),
        }
    }

    async fn answer(&self, job: Bytes, place: OwnedSemaphorePermit) -> Result<Reply, Unanswered> {
        let (send, reply) = oneshot::channel();
        self.pool.give(move |engine, worker| {
            // Nobody may wait any more.
            let reply = (!send.is_closed()).then(|| engine.answer(&job, worker));
            // Whoever has the answer finds the place free.
            drop(place);
            reply.map(|reply| send.send(reply).ok());
        });
        match timeout(self.time_limit, reply).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => Err(Unanswered::Broken),
            Err(_) => Err(Unanswered::Late(self.time_limit)),
        }
    }
}

impl Places {
    fn new(all: usize) -> Self {
        let all = all.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(all)), all }
    }

    fn taken(&self) -> usize {
        self.all.saturating_sub(self.free.available_permits())
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
