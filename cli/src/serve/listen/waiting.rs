//! [`Waiting`]: the connections that wait for their clients.
//!
//! A connection waits until a whole request has arrived, while the client does not read the answer, and again from when
//! the answer is made. At any other time it is the client that waits, and the connection is left alone.

use std::collections::BTreeMap;
use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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
    state: Mutex<State>,
    closed: Arc<Notify>,
}

/// What a connection waits for.
#[derive(Debug, Default)]
struct State {
    /// The client has to send a request, or the rest of one.
    asks: bool,
    /// The client has to read.
    answers: bool,
    /// Its turn, while it waits for its client.
    turn: Option<u64>,
}

impl Waiting {
    /// A new connection, which waits.
    pub(super) fn enter(&self) -> Arc<Connection> {
        let connection =
            Connection { waiting: self.clone(), state: Mutex::default(), closed: Arc::default() };
        connection.change(|state| state.asks = true);
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

    /// Changes what it waits for. It keeps its turn as long as it waits for anything.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let waits = state.asks || state.answers;
        match state.turn {
            None if waits => {
                let closed = Arc::clone(&self.closed);
                state.turn = Some(self.waiting.queue(|queue| {
                    let turn = queue.next;
                    queue.next = turn.saturating_add(1);
                    queue.turns.insert(turn, closed);
                    turn
                }));
                self.waiting.0.more.notify_one();
            }
            Some(turn) if !waits => {
                self.waiting.queue(|queue| queue.turns.remove(&turn));
                state.turn = None;
            }
            _ => {}
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.change(|state| *state = State { turn: state.turn, ..State::default() });
    }
}

/// The stream of a connection, which waits for its client while nothing more can be written.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    connection: Arc<Connection>,
    is_blocked: bool,
}

impl<S: Unpin> Watched<S> {
    pub(super) fn new(stream: S, connection: &Arc<Connection>) -> Self {
        Self { stream, connection: Arc::clone(connection), is_blocked: false }
    }

    /// What a write has led to.
    fn wrote<T>(&mut self, result: Poll<T>) -> Poll<T> {
        let is_blocked = result.is_pending();
        if is_blocked != self.is_blocked {
            self.is_blocked = is_blocked;
            self.connection.change(|state| state.answers = is_blocked);
        }
        result
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
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
            connection.change(|state| state.asks = false);
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
            self.connection.change(|state| state.asks = false);
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
        self.connection.change(|state| state.asks = true);
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
        let change = |at: usize, asks: bool, answers: bool| {
            connections[at].change(|state| (state.asks, state.answers) = (asks, answers));
        };
        change(0, false, false);
        assert_eq!(next(&waiting, &connections), Some(1));
        change(0, true, false);
        change(1, false, false);
        assert_eq!(next(&waiting, &connections), Some(2));
        // It does not read, and then sends nothing: it waits for its client all the time.
        change(1, false, true);
        change(0, false, false);
        change(0, true, false);
        change(1, true, true);
        change(1, true, false);
        change(2, false, false);
        assert_eq!(next(&waiting, &connections), Some(1));
        connections.remove(1);
        assert_eq!(next(&waiting, &connections), Some(0));
        connections.remove(0);
        assert_eq!(next(&waiting, &connections), None);
    }
}
