//! `highwater serve`: answers jobs over HTTP, on this machine.

mod admission;
mod desk;
mod listen;
mod metrics;
mod openapi;
mod page;
mod routes;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::args;
use crate::jobs::{Engine, Files, Pool, threads};

use self::desk::Desk;
use self::listen::{Limits, Listener};
use self::metrics::Metrics;
pub(crate) use self::page::open;
use self::routes::Server;

/// Serves until it is told to stop.
///
/// # Errors
/// When it cannot listen there, or may not.
pub(crate) fn serve(arguments: &args::Serve) -> Result<(), String> {
    let seconds = |seconds: std::num::NonZeroU32| Duration::from_secs(seconds.get().into());
    let time_limit = seconds(arguments.time_limit);
    let engine = Arc::new(Engine::new(Files::within(&arguments.allow, time_limit)?));
    let threads = arguments.threads.map_or_else(threads, std::num::NonZeroUsize::get);
    let pool = Pool::start(&engine, threads)
        .map_err(|error| format!("cannot start {threads} threads: {error}"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.min(4))
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the server: {error}"))?;
    let metrics = Metrics::default();
    let server = Arc::new(Server {
        desk: Desk::new(pool, engine, threads, arguments.queue.get(), time_limit),
        metrics,
        body_limit: arguments.body_limit.get(),
        body_time: seconds(arguments.read_time),
        batch_lines: arguments.batch_lines.get(),
        any_host: arguments.public || arguments.socket.is_some(),
    });
    let limits = Limits {
        connections: arguments.connections.get(),
        read: seconds(arguments.read_time),
        write: seconds(arguments.read_time),
        grace: seconds(arguments.grace),
    };
    runtime.block_on(async {
        let listener = match &arguments.socket {
            #[cfg(unix)]
            Some(path) => Listener::socket(path, arguments.socket_mode)?,
            #[cfg(not(unix))]
            Some(_) => return Err("this system has no Unix sockets; use --listen".to_owned()),
            None => Listener::tcp(arguments.listen, arguments.public).await?,
        };
        announce(&listener);
        listen::run(listener, routes::router(server), limits).await
    })?;
    // A computation that takes longer than the grace is not waited for.
    runtime.shutdown_background();
    Ok(())
}

/// Where the server listens: whoever starts it with port 0 reads the port here.
fn announce(listener: &Listener) {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "Listening on {}", listener.address()).and_then(|()| stdout.flush()).ok();
}
