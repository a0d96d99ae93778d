//! Connections: where they come from, how many there are, and how long they may take.
//!
//! A client that is slow takes no place from others: where all are taken, the connection is closed whose client has let
//! the server wait the longest ([`Waiting`]).
//!
//! | module | concern |
//! |---|---|
//! | [`waiting`] | the connections that wait for their clients |

mod waiting;

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

use self::waiting::{Answering, Arriving, Connection, Waiting, Watched};

/// SIZE: bytes of a request's head.
const HEAD: usize = 16 << 10;

/// How long to wait before the next connection where the system refused one.
const PAUSE: Duration = Duration::from_millis(100);

/// Limits of all connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// COUNT: connections at once.
    pub(super) connections: usize,
    /// How long the head of a request may take to arrive, also the next one of the same connection.
    pub(super) read: Duration,
    /// How long the client may leave an answer unread.
    pub(super) write: Duration,
    /// How long requests under way have at the end.
    pub(super) grace: Duration,
}

/// Where connections come from.
#[derive(Debug)]
pub(super) enum Listener {
    /// A port.
    Tcp(TcpListener, SocketAddr),
    /// A file, which goes away with it.
    #[cfg(unix)]
    Socket(UnixListener, PathBuf),
}

impl Listener {
    /// Listens on a port.
    ///
    /// # Errors
    /// When others than this machine could connect and `public` is not set, or the port cannot be had.
    pub(super) async fn tcp(address: SocketAddr, public: bool) -> Result<Self, String> {
        if !address.ip().is_loopback() && !public {
            return Err(format!(
                "{address} can be reached from other machines, and the server asks nobody for a password; listen on \
                 127.0.0.1, or allow it with `--public`"
            ));
        }
        let cannot = |error: io::Error| format!("cannot listen on {address}: {error}");
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        Ok(Self::Tcp(listener, address))
    }

    /// Listens on a Unix socket with these rights. One that nobody listens on any more is replaced.
    ///
    /// # Errors
    /// When there is another file, or somebody listens there.
    #[cfg(unix)]
    pub(super) fn socket(path: &Path, rights: u32) -> Result<Self, String> {
        use std::os::unix::fs::FileTypeExt as _;
        use std::os::unix::net::UnixStream;

        use rustix::fs::Mode;
        use rustix::process::umask;

        let shown = path.display();
        if let Ok(file) = path.symlink_metadata() {
            if !file.file_type().is_socket() {
                return Err(format!("{shown}: this file exists and is no socket; choose another"));
            }
            match UnixStream::connect(path) {
                Ok(_) => return Err(format!("{shown}: another server listens there")),
                Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => {
                    return Err(format!(
                        "{shown}: this socket exists, and cannot be tried: {error}"
                    ));
                }
                Err(_) => {}
            }
            std::fs::remove_file(path).map_err(|error| format!("{shown}: {error}"))?;
        }
        // The socket never has other rights, not even until they are changed.
        let before = umask(Mode::from_raw_mode(0o777 & !rights));
        let listener = UnixListener::bind(path);
        umask(before);
        let listener = listener.map_err(|error| format!("cannot listen on {shown}: {error}"))?;
        Ok(Self::Socket(listener, path.to_owned()))
    }

    /// For people, and for `curl`.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Tcp(_, address) => format!("http://{address}"),
            #[cfg(unix)]
            Self::Socket(_, path) => path.display().to_string(),
        }
    }

    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, _) = listener.accept().await?;
                // One that was reset meanwhile ends when it is read.
                stream.set_nodelay(true).ok();
                Ok(Box::new(stream))
            }
            #[cfg(unix)]
            Self::Socket(listener, _) => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}

#[cfg(unix)]
impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Socket(_, path) = self {
            std::fs::remove_file(path).ok();
        }
    }
}

/// A connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Serves connections until a signal comes. Then no more are accepted, and those under way have some time to end.
///
/// # Errors
/// When signals cannot be received.
pub(super) async fn run(listener: Listener, router: Router, limits: Limits) -> Result<(), String> {
    let places = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let waiting = Waiting::default();
    let graceful = GracefulShutdown::new();
    let mut stop = pin!(stop()?);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.read).max_buf_size(HEAD);
    loop {
        let next = async {
            let stream = listener.accept().await?;
            Ok::<_, io::Error>((stream, place(&places, &waiting).await))
        };
        let next = tokio::select! {
            next = next => next,
            () = &mut stop => break,
        };
        let Ok((stream, place)) = next else {
            sleep(PAUSE).await;
            continue;
        };
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(limits.write));
        let client = waiting.enter();
        let stream = Watched::new(Box::pin(stream), &client);
        let service = service(&router, &client);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            tokio::select! {
                // What a client does wrong ends its connection and nothing else.
                _ = connection => {}
                () = client.closed() => {}
            }
            drop(place);
        });
    }
    drop(listener);
    timeout(limits.grace, graceful.shutdown()).await.ok();
    Ok(())
}

/// A place for a connection. Where all are taken, the one is closed that has waited for its client the longest.
async fn place(places: &Arc<Semaphore>, waiting: &Waiting) -> Option<OwnedSemaphorePermit> {
    if let Ok(place) = Arc::clone(places).try_acquire_owned() {
        return Some(place);
    }
    waiting.close_one().await;
    // Never closed.
    Arc::clone(places).acquire_owned().await.ok()
}

/// The service for a connection, which does not wait for its client from when a request has arrived until its answer is
/// made.
fn service(
    router: &Router,
    client: &Arc<Connection>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response<Body>,
    Error = std::convert::Infallible,
    Future: Send,
> + use<> {
    let (router, client) = (TowerToHyperService::new(router.clone()), Arc::clone(client));
    service_fn(move |request: Request<Incoming>| {
        let client = Arc::clone(&client);
        let request = request.map(|body| Body::new(Arriving::new(body, &client)));
        let answer = router.call(request);
        async move {
            answer.await.map(|answer| answer.map(|body| Body::new(Answering::new(body, client))))
        }
    })
}

/// Ends at SIGTERM or SIGINT.
#[cfg(unix)]
fn stop() -> Result<impl Future<Output = ()>, String> {
    use tokio::signal::unix::{SignalKind, signal};

    let cannot = |error: io::Error| format!("cannot receive signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Ends at Ctrl-C.
#[cfg(not(unix))]
fn stop() -> Result<impl Future<Output = ()>, String> {
    Ok(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
}
