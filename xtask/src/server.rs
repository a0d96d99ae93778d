//! `dist/` over HTTP, on this machine only.
//!
//! It answers `GET` and `HEAD` for plain files and nothing else, with gzip as static hosts do. While the page is
//! being built, it serves a waiting page instead.
//!
//! A browser may keep a file with a fingerprint in its name for ever. It revalidates any other, so a reload shows
//! a rebuilt page.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::process::{Failure, Result};
use crate::progress::{self, Progress};
use crate::{site, waiting};

/// SIZE: the longest request that is read, in bytes.
const REQUEST_MAX: u64 = 16 * 1024;

/// Takes a port of this machine.
///
/// # Errors
/// The port is taken.
pub(crate) fn listen(port: u16) -> Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map_err(|error| Failure::new(format!("port {port}: {error}; choose another with --port")))
}

/// Serves a folder from now on; while it is being built, a page that says so.
pub(crate) fn start(listener: TcpListener, folder: PathBuf) {
    let packed = Packed::default();
    let answer_all = move || {
        thread::scope(|scope| {
            for stream in listener.incoming().flatten() {
                let (folder, packed) = (&folder, &packed);
                // A browser that goes away in the middle of an answer is no news.
                scope.spawn(move || drop(answer(&stream, folder, packed)));
            }
        });
    };
    thread::spawn(answer_all);
}

fn answer(stream: &TcpStream, folder: &Path, packed: &Packed) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut request = String::new();
    let mut lines = BufReader::new(stream.take(REQUEST_MAX));
    lines.read_line(&mut request)?;
    // All headers are read, though one matters: closing on unread bytes resets the connection.
    let (mut header, mut takes_gzip) = (String::new(), false);
    while lines.read_line(&mut header)? > 2 {
        takes_gzip |= accepts_gzip(&header);
        header.clear();
    }
    let Response { status, media_type, headers, body, file } =
        respond(&request, folder, &progress::now());
    let (body, coding) = if takes_gzip && is_compressible(media_type) {
        (packed.gzip(file.as_deref(), &body)?, "Content-Encoding: gzip\r\n")
    } else {
        (body.into(), "")
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n{coding}\
         Vary: Accept-Encoding\r\n{headers}\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n\r\n",
        body.len(),
    )?;
    if !request.starts_with("HEAD ") {
        stream.write_all(&body)?;
    }
    stream.flush()
}

/// Compressed files, and when what they hold was written.
type Kept = BTreeMap<PathBuf, (SystemTime, Arc<[u8]>)>;

/// Files that were compressed before.
#[derive(Default)]
struct Packed(Mutex<Kept>);

impl Packed {
    /// Compresses what is to be sent; what comes from a file once only, until the file changes.
    fn gzip(&self, file: Option<&Path>, body: &[u8]) -> std::io::Result<Arc<[u8]>> {
        let Some(file) = file else { return gzip(body).map(Arc::from) };
        let written = fs::metadata(file)?.modified()?;
        if let Some((at, kept)) = self.lock().get(file)
            && *at == written
        {
            return Ok(Arc::clone(kept));
        }
        let packed: Arc<[u8]> = gzip(body)?.into();
        self.lock().insert(file.to_owned(), (written, Arc::clone(&packed)));
        Ok(packed)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Response {
    status: &'static str,
    media_type: &'static str,
    /// Further headers.
    headers: &'static str,
    body: Vec<u8>,
    /// Where the body comes from.
    file: Option<PathBuf>,
}

impl Response {
    fn sentence(status: &'static str) -> Self {
        let media_type = "text/plain; charset=utf-8";
        let headers = "Cache-Control: no-store";
        Self { status, media_type, headers, body: status.into(), file: None }
    }

    /// The page that waits for the build; by `Retry-After` it knows that it has to ask again.
    fn waiting(progress: &Progress) -> Self {
        Self {
            status: "503 Service Unavailable",
            media_type: "text/html; charset=utf-8",
            headers: "Cache-Control: no-store\r\nRetry-After: 1",
            body: waiting::page(progress).into_bytes(),
            file: None,
        }
    }
}

fn respond(request: &str, folder: &Path, progress: &Progress) -> Response {
    let mut words = request.split_whitespace();
    let (Some("GET" | "HEAD"), Some(target)) = (words.next(), words.next()) else {
        return Response::sentence("405 Method Not Allowed");
    };
    let Some(name) = file_of(target) else {
        return Response::sentence("404 Not Found");
    };
    // A page that is open already goes on with the files of the build before.
    if !progress.is_ready && has_ending(&name, "html") {
        return Response::waiting(progress);
    }
    let file = folder.join(&name);
    match fs::read(&file) {
        Err(_) if !progress.is_ready => Response::waiting(progress),
        Ok(body) => Response {
            status: "200 OK",
            media_type: media_type(&name),
            headers: caching(&name),
            body,
            file: Some(file),
        },
        Err(_) => Response::sentence("404 Not Found"),
    }
}

/// The file below the served folder that a request's target names; `None` if it leads out of it.
fn file_of(target: &str) -> Option<PathBuf> {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let relative = Path::new(path.trim_start_matches('/'));
    let stays_inside = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let file = if path.ends_with('/') { relative.join("index.html") } else { relative.to_owned() };
    stays_inside.then_some(file)
}

fn has_ending(file: &Path, ending: &str) -> bool {
    file.extension().is_some_and(|found| found == ending)
}

/// Whether a line of the request says that its sender unpacks gzip.
fn accepts_gzip(header: &str) -> bool {
    header.split_once(':').is_some_and(|(name, value)| {
        name.eq_ignore_ascii_case("accept-encoding")
            && value
                .split(',')
                .any(|coding| coding.split(';').next().unwrap_or("").trim() == "gzip")
    })
}

/// Whether a file of a type becomes smaller; pictures are packed already.
fn is_compressible(media_type: &str) -> bool {
    !matches!(media_type, "image/png" | "image/x-icon" | "font/woff2")
}

fn gzip(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body)?;
    encoder.finish()
}

/// How long a browser may keep a file: one with a fingerprint in its name never changes.
fn caching(file: &Path) -> &'static str {
    if site::is_hashed(&file.to_string_lossy()) {
        "Cache-Control: public, max-age=31536000, immutable"
    } else {
        "Cache-Control: no-cache"
    }
}

fn media_type(file: &Path) -> &'static str {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("json" | "map") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("csv") => "text/csv; charset=utf-8",
        Some("txt" | "md") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};
    use std::path::Path;
    use std::sync::Arc;

    use flate2::read::GzDecoder;

    use super::{Packed, accepts_gzip, caching, file_of, listen, media_type, respond, start};
    use crate::place;
    use crate::progress::Progress;

    #[test]
    fn targets_name_files_inside_the_folder() {
        let cases = [
            ("/", Some("index.html")),
            ("/?model=resnet", Some("index.html")),
            ("/styles/page.css", Some("styles/page.css")),
            ("/examples/", Some("examples/index.html")),
            ("/../Cargo.toml", None),
            ("/styles/../../Cargo.toml", None),
        ];
        for (target, expected) in cases {
            assert_eq!(file_of(target).as_deref(), expected.map(Path::new), "{target}");
        }
    }

    #[test]
    fn browsers_compile_wasm_while_it_streams() {
        assert_eq!(media_type(Path::new("app_bg.wasm")), "application/wasm");
    }

    #[test]
    fn gzip_is_for_those_who_ask_for_it() {
        assert!(accepts_gzip("Accept-Encoding: br, gzip;q=0.8\r\n"));
        assert!(!accepts_gzip("accept-encoding: br\r\n"));
        assert!(!accepts_gzip("X-Wants: gzip\r\n"));
    }

    #[test]
    fn only_names_with_a_fingerprint_are_kept() {
        let kept = |name: &str| caching(Path::new(name)).contains("immutable");
        assert!(kept("highwater-app-281418c0c6d62193_bg.wasm") && kept("highwater-ee5ce067.css"));
        assert!(!kept("index.html") && !kept("worker.js") && !kept("highwater-reader_bg.wasm"));
    }

    #[test]
    fn requests_are_answered() {
        let folder = place::root().join("public");
        let building = Progress::default();
        let ready = Progress { is_ready: true, ..Progress::default() };
        let cases = [
            ("POST / HTTP/1.1", &ready, "405 Method Not Allowed"),
            ("", &ready, "405 Method Not Allowed"),
            ("GET /boot.js HTTP/1.1", &ready, "200 OK"),
            ("GET /none.js HTTP/1.1", &ready, "404 Not Found"),
            ("GET /boot.js HTTP/1.1", &building, "200 OK"),
            ("GET /none.js HTTP/1.1", &building, "503 Service Unavailable"),
            ("GET / HTTP/1.1", &building, "503 Service Unavailable"),
            ("GET /../Cargo.toml HTTP/1.1", &building, "404 Not Found"),
        ];
        for (request, progress, expected) in cases {
            assert_eq!(respond(request, &folder, progress).status, expected, "{request}");
        }
    }

    /// Sends a request; gives the head of the answer and its body.
    fn ask(address: SocketAddr, headers: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(address).expect("a connection");
        write!(stream, "GET / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let body = answer.split_off(end);
        (String::from_utf8(answer).expect("a head of text"), body)
    }

    #[test]
    fn the_server_answers_before_there_is_a_page() {
        let listener = listen(0).expect("a port");
        let address = listener.local_addr().expect("an address");
        start(listener, place::root().join("no page"));
        let (head, plain) = ask(address, "");
        assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("\r\nRetry-After: 1\r\n"));
        assert!(head.contains(&format!("Content-Length: {}\r\n", plain.len())), "{head}");
        let (head, packed) = ask(address, "Accept-Encoding: gzip\r\n");
        assert!(head.contains("\r\nContent-Encoding: gzip\r\n"), "{head}");
        let mut unpacked = Vec::new();
        GzDecoder::new(&*packed).read_to_end(&mut unpacked).expect("gzip");
        assert_eq!(unpacked, plain);
    }

    #[test]
    fn a_file_is_compressed_once() {
        let file = place::root().join("public/boot.js");
        let packed = Packed::default();
        let pack = |file| packed.gzip(file, b"text").expect("compressed");
        assert!(Arc::ptr_eq(&pack(Some(&file)), &pack(Some(&file))));
        assert!(!Arc::ptr_eq(&pack(None), &pack(None)));
    }
}
