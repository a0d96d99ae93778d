//! [`Waiting`]: the connections that wait for their clients.
//!
//! A connection waits until a whole request has arrived, and again from when the answer was taken. In between it is the
//! client that waits, and the connection is left alone.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::Notify;

/// The connections that wait for their clients, in the order in which they began to.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Another connection waits.
    more: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    /// The number of the next turn.
    next: u64,
    turns: BTreeMap<u64, Arc<Notify>>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    waiting: Waiting,
    /// Its turn, while it waits for its client.
    turn: Mutex<Option<u64>>,
    closed: Arc<Notify>,
}

impl Waiting {
    /// A new connection, which waits.
    pub(super) fn enter(&self) -> Arc<Connection> {
        let connection =
            Connection { waiting: self.clone(), turn: Mutex::default(), closed: Arc::default() };
        connection.wait();
        Arc::new(connection)
    }

    /// Closes the connection that has waited the longest, once there is one that waits.
    pub(super) async fn close_one(&self) {
        loop {
            let first = self.queue(|queue| queue.turns.pop_first());
            if let Some((_, closed)) = first {
                closed.notify_one();
                return;
            }
            self.0.more.notified().await;
        }
    }

    fn queue<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        change(&mut self.0.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Connection {
    /// Ends when the connection must make place for another.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// It waits for its client.
    fn wait(&self) {
        let closed = Arc::clone(&self.closed);
        let turn = self.waiting.queue(|queue| {
            let turn = queue.next;
            queue.next = turn.saturating_add(1);
            queue.turns.insert(turn, closed);
            turn
        });
        self.replace(Some(turn));
        self.waiting.0.more.notify_one();
    }

    /// Its client waits for it.
    fn work(&self) {
        self.replace(None);
    }

    fn replace(&self, turn: Option<u64>) {
        let mut own = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut *own, turn) {
            self.waiting.queue(|queue| queue.turns.remove(&before));
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.work();
    }
}

/// The body of a request, with whose end the client begins to wait.
#[derive(Debug)]
pub(super) struct Arriving {
    body: Incoming,
    connection: Arc<Connection>,
}

impl Arriving {
    pub(super) fn new(body: Incoming, connection: &Arc<Connection>) -> Self {
        if body.is_end_stream() {
            connection.work();
        }
        Self { body, connection: Arc::clone(connection) }
    }
}

impl Body for Arriving {
    type Data = <Incoming as Body>::Data;
    type Error = <Incoming as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.connection.work();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, with whose end the connection waits for its client again.
#[derive(Debug)]
pub(super) struct Answering {
    body: axum::body::Body,
    connection: Arc<Connection>,
}

impl Answering {
    pub(super) const fn new(body: axum::body::Body, connection: Arc<Connection>) -> Self {
        Self { body, connection }
    }
}

impl Body for Answering {
    type Data = <axum::body::Body as Body>::Data;
    type Error = <axum::body::Body as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.connection.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The connection that is closed next, if any waits.
    fn next(waiting: &Waiting, connections: &[Arc<Connection>]) -> Option<usize> {
        let first = waiting.queue(|queue| queue.turns.values().next().cloned())?;
        connections.iter().position(|connection| Arc::ptr_eq(&connection.closed, &first))
    }

    #[test]
    fn the_one_that_waits_the_longest_is_closed() {
        let waiting = Waiting::default();
        let mut connections: Vec<_> = (0..3).map(|_| waiting.enter()).collect();
        assert_eq!(next(&waiting, &connections), Some(0));
        connections[0].work();
        assert_eq!(next(&waiting, &connections), Some(1));
        connections[0].wait();
        connections[1].work();
        assert_eq!(next(&waiting, &connections), Some(2));
        connections[2].work();
        assert_eq!(next(&waiting, &connections), Some(0));
        connections.remove(0);
        assert_eq!(next(&waiting, &connections), None);
    }
}
