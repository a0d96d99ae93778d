//! `highwater open`: the page with a model, on this machine.

use std::env;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use futures_util::stream;
use highwater_core::formats::catalogue::MARK;
use highwater_core::{Config, Error};
use serde_json::{Map, Value, json};
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

use super::listen::{self, Limits, Listener};
use super::routes::misdirected;
use crate::{Models, args, called, locate, named};

/// The variable with the folder of the page.
const VARIABLE: &str = "HIGHWATER_PAGE";
/// The path under which the page finds the model: `public/keep.js` asks for it.
const MODEL: &str = "model";
/// What keeps the page for times without a network: a page that ends with its server is not kept.
const KEEPER: &str = "sw.js";
/// SIZE: bytes that are read at once.
const CHUNK: usize = 1 << 16;

const LIMITS: Limits = Limits {
    connections: 64,
    read: Duration::from_secs(10),
    write: Duration::from_mins(1),
    grace: Duration::from_secs(1),
};

/// What is served.
#[derive(Debug)]
struct Site {
    /// The page's files.
    folder: PathBuf,
    /// The model, where it is a file.
    model: Option<PathBuf>,
}

/// Serves the page until somebody stops it.
///
/// # Errors
/// When the model cannot be read, the page's files are not here, or the port cannot be had.
pub(crate) fn open(arguments: &args::Open, models: Models<'_>) -> Result<(), String> {
    let of_model = |error: Error| locate(&arguments.model, &error);
    let model = models.open(&arguments.model).map_err(of_model)?;
    let config = arguments.training.of(&model).map_err(of_model)?;
    let folder = folder(arguments.page.as_deref())?;
    let entry = named::find(&arguments.model).map_err(of_model)?;
    let is_file = entry.is_none();
    let state = match entry {
        Some(entry) => {
            let content = [MARK, entry.id].concat();
            json!({ "text": entry.name, "content": content })
        }
        None => json!({ "file": called(&model) }),
    };
    let fragment = fragment(state, &config);
    let site = Site { folder, model: is_file.then(|| arguments.model.clone()) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the server: {error}"))?;
    runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
        let listener = Listener::tcp(address, false).await?;
        let name = called(&model);
        let query = if is_file { format!("?served={}", quoted(&name)) } else { String::new() };
        let address = format!("{}/{query}#{fragment}", listener.address());
        announce(&name, &address);
        if !arguments.no_browser {
            // Without a browser, whoever reads the address opens it.
            open::that_detached(&address).ok();
        }
        listen::run(listener, router(Arc::new(site)), LIMITS).await
    })?;
    runtime.shutdown_background();
    Ok(())
}

fn announce(name: &str, address: &str) {
    let mut stdout = std::io::stdout();
    let text = format!("{name} is open at {address}\nCtrl+C stops.\n");
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).ok();
}

/// A text as the value of a parameter of an address.
fn quoted(text: &str) -> String {
    let quoted = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(quoted).collect()
}

/// The state of the page as its address has it: `v1.` and base64url of deflated JSON, with all settings that are not
/// the defaults.
fn fragment(mut state: Value, config: &Config) -> String {
    let settings: Map<String, Value> = config
        .changed()
        .map(|setting| (setting.name.to_owned(), setting.value(config).text().into()))
        .collect();
    state["highwater"] = 1.into();
    state["dims"] = json!(config.dims);
    state["settings"] = Value::Object(settings);
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    packed.write_all(state.to_string().as_bytes()).ok();
    format!("v1.{}", URL_SAFE_NO_PAD.encode(packed.finish().unwrap_or_default()))
}

/// The folder with the page's files.
///
/// # Errors
/// When there is none.
fn folder(given: Option<&Path>) -> Result<PathBuf, String> {
    let given = given.map(Path::to_owned).or_else(|| env::var_os(VARIABLE).map(PathBuf::from));
    let candidates = match given {
        Some(folder) => vec![folder],
        None => near_program(),
    };
    let has_page = |folder: &&PathBuf| folder.join("index.html").is_file();
    let found = candidates.iter().find(has_page).and_then(|folder| folder.canonicalize().ok());
    found.ok_or_else(|| {
        let looked: Vec<_> = candidates.iter().map(|folder| folder.display().to_string()).collect();
        format!(
            "the files of the page are not in {}; `cargo xtask build` in Highwater's repository writes them to `dist`, \
             then give that folder with `--page` or the variable {VARIABLE}",
            looked.join(" and not in ")
        )
    })
}

/// The folders in which an installation has the page.
fn near_program() -> Vec<PathBuf> {
    let program = env::current_exe().and_then(|program| program.canonicalize()).unwrap_or_default();
    let near = program.parent().unwrap_or_else(|| Path::new(""));
    let above = near.parent().unwrap_or(near);
    vec![near.join("page"), above.join("share/highwater/page")]
}

fn router(site: Arc<Site>) -> Router {
    Router::new().fallback(answer).with_state(site)
}

/// Answers with a file, where the request is for one and was sent to this machine by its own name: a page of another
/// site may reach this port by a name of its own, and must not read the model.
async fn answer(State(site): State<Arc<Site>>, request: Request) -> Response {
    if let Some((status, message)) = misdirected(&request, false) {
        return (status, format!("{message}\n")).into_response();
    }
    let with_body = match *request.method() {
        Method::GET => true,
        Method::HEAD => false,
        _ => return (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")]).into_response(),
    };
    let Some(path) = site.file(request.uri().path()) else {
        return (StatusCode::NOT_FOUND, "there is no such file\n").into_response();
    };
    match send(&path, with_body).await {
        Ok(response) => response,
        Err(error) => {
            (StatusCode::NOT_FOUND, format!("this file cannot be read: {error}\n")).into_response()
        }
    }
}

impl Site {
    /// The file behind the path of an address: the model, or one of the page's; nothing outside of its folder.
    fn file(&self, path: &str) -> Option<PathBuf> {
        let path = Path::new(path.strip_prefix('/')?);
        if path == Path::new(MODEL) {
            return self.model.clone();
        }
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || path == Path::new(KEEPER) {
            return None;
        }
        let path = if path == Path::new("") { Path::new("index.html") } else { path };
        // A link may lead out of the folder.
        let file = self.folder.join(path).canonicalize().ok()?;
        (file.starts_with(&self.folder) && file.is_file()).then_some(file)
    }
}

/// A file, in pieces: models have gigabytes.
async fn send(path: &Path, with_body: bool) -> std::io::Result<Response> {
    let file = File::open(path).await?;
    let length = file.metadata().await?.len();
    let body = if with_body {
        Body::from_stream(stream::try_unfold(file, async |mut file| {
            let mut piece = vec![0; CHUNK];
            let read = file.read(&mut piece).await?;
            piece.truncate(read);
            Ok::<_, std::io::Error>((read > 0).then(|| (Bytes::from(piece), file)))
        }))
    } else {
        Body::empty()
    };
    let headers = [
        (CONTENT_TYPE, kind(path).to_owned()),
        (CONTENT_LENGTH, length.to_string()),
        (CACHE_CONTROL, "no-cache".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin".to_owned()),
    ];
    Ok((headers, body).into_response())
}

/// The type of a file, by the end of its name.
fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(|end| end.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("json") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
