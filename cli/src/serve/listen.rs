//! Connections: where they come from, how many there are, and how long they may take.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

/// SIZE: bytes of a request's head.
const HEAD: usize = 16 << 10;

/// How long to wait before the next connection where the system refused one.
const PAUSE: Duration = Duration::from_millis(100);

/// Limits of all connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// COUNT: connections at once; others wait.
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

    /// Listens on a Unix socket. One that nobody listens on any more is replaced.
    ///
    /// # Errors
    /// When there is another file, or somebody listens there.
    #[cfg(unix)]
    pub(super) fn socket(path: &Path) -> Result<Self, String> {
        use std::os::unix::fs::FileTypeExt as _;
        use std::os::unix::net::UnixStream;

        let shown = path.display();
        if let Ok(file) = path.symlink_metadata() {
            if !file.file_type().is_socket() {
                return Err(format!("{shown}: this file exists and is no socket; choose another"));
            }
            if UnixStream::connect(path).is_ok() {
                return Err(format!("{shown}: another server listens there"));
            }
            std::fs::remove_file(path).map_err(|error| format!("{shown}: {error}"))?;
        }
        let listener = UnixListener::bind(path)
            .map_err(|error| format!("cannot listen on {shown}: {error}"))?;
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
                stream.set_nodelay(true)?;
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
    let graceful = GracefulShutdown::new();
    let mut stop = pin!(stop()?);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.read).max_buf_size(HEAD);
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, stream) = tokio::select! {
            next = next => next,
            () = &mut stop => break,
        };
        let Ok(stream) = stream else {
            sleep(PAUSE).await;
            continue;
        };
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(limits.write));
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // What a client does wrong ends its connection and nothing else.
            connection.await.ok();
            drop(place);
        });
    }
    drop(listener);
    timeout(limits.grace, graceful.shutdown()).await.ok();
    Ok(())
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
