//! `serve`: jobs over HTTP, and clients that mean no good.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::run::{highwater, model};

pub(crate) const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// `127.0.0.1:PORT`, or the path of its socket.
    address: String,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_at(&[&["--listen", "127.0.0.1:0"], arguments].concat())
    }

    fn start_at(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        let mut child =
            command.arg("serve").args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("Listening on ").unwrap();
        let address = address.strip_prefix("http://").unwrap_or(address).to_owned();
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        // A test that waits for ever is worse than one that fails.
        stream.set_read_timeout(Some(Duration::from_mins(5))).unwrap();
        stream
    }

    fn get(&self, path: &str) -> Response {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        exchange(self.connect(), head.as_bytes()).unwrap()
    }

    pub(crate) fn post(&self, path: &str, kind: &str, body: &str) -> Response {
        exchange(self.connect(), &request(path, kind, body)).unwrap()
    }

    pub(crate) fn estimate(&self, job: &Value) -> Response {
        self.post("/v1/estimate", JSON, &job.to_string())
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// KiB that the process has in memory, where the system tells.
    fn resident(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn kind(&self) -> String {
        self.json()["error"]["kind"].as_str().unwrap_or_default().to_owned()
    }
}

fn request(path: &str, kind: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: \
         {}\r\n\r\n",
        body.len()
    );
    (head + body).into_bytes()
}

/// Sends bytes; `None` where the server closed the connection without an answer.
pub(crate) fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> Option<Response> {
    // The server may refuse a request before it was sent whole.
    stream.write_all(bytes).ok();
    receive(stream)
}

fn receive(mut stream: impl Read) -> Option<Response> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        unchunked(body)
    } else {
        body.to_owned()
    };
    Some(Response { status, head: head.to_ascii_lowercase(), body })
}

fn unchunked(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body += &rest[..size];
        text = rest.get(size + 2..).unwrap_or_default();
    }
    body
}

pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn the_description_is_the_committed_one() {
    let server = Server::start(&[]);
    let document = format!("{:#}\n", server.get("/openapi.json").json());
    expect_test::expect_file!["openapi.json"].assert_eq(&document);
}

#[test]
fn a_job_has_the_answer_of_its_line() {
    let server = Server::start(&[]);
    let job = json!({ "id": [1, null], "model": "resnet18", "batch": 2, "devices": ["t4"] });
    let answer = server.estimate(&job);
    assert_eq!(answer.status, 200, "{answer:?}");
    let bad = json!({ "id": "bad", "model": "resnet18", "devices": ["t44"] });
    let refused = server.estimate(&bad);
    assert_eq!((refused.status, &*refused.kind()), (400, "bad-config"));
    let batch = server.post("/v1/batch", LINES, &format!("{job}\n\n{bad}\n{{\n{job}"));
    assert_eq!(batch.status, 200);
    let lines: Vec<&str> = batch.body.lines().collect();
    assert_eq!(lines[0], answer.body.trim_end());
    assert_eq!(lines[1], refused.body.trim_end());
    assert!(lines[2].contains("bad-json"), "{}", lines[2]);
    assert_eq!((lines[3], lines.len()), (lines[0], 4));
}

#[test]
fn lists_and_counters_can_be_read() {
    let server = Server::start(&[]);
    assert_eq!((server.get("/healthz").status, &*server.get("/healthz").body), (200, "ok\n"));
    let devices = server.get("/v1/devices").json();
    assert!(devices.as_array().unwrap().iter().any(|device| device["id"] == "t4"));
    let models = server.get("/v1/models").json();
    assert!(models.as_array().unwrap().iter().any(|model| model["id"] == "resnet50"));
    server.estimate(&json!({ "model": "resnet18", "batch": 1 }));
    let metrics = server.get("/metrics").body;
    for line in [
        "highwater_requests_total{route=\"/v1/estimate\",status=\"200\"} 1",
        "highwater_requests_total{route=\"/healthz\",status=\"200\"} 2",
        "highwater_request_seconds_count{route=\"/v1/estimate\"} 1",
        "highwater_jobs_in_flight 0",
        "highwater_models_kept 1",
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line} is missing in {metrics}");
    }
}

/// What a document describes is what is sent: statuses and types of all routes.
#[test]
fn answers_are_those_of_the_description() {
    let server = Server::start(&["--body-limit", "1000"]);
    let described = server.get("/openapi.json").json();
    let check = |method: &str, path: &str, response: &Response| {
        let route = path.split('?').next().unwrap();
        let known = &described["paths"][route][method]["responses"][response.status.to_string()];
        let kind = response.head.split("content-type: ").nth(1).unwrap();
        let kind = kind.split([';', '\r']).next().unwrap();
        assert!(
            known["content"][kind].is_object(),
            "{method} {path}: {response:?} is not in {known}"
        );
    };
    let mut statuses = Vec::new();
    let paths = described["paths"].as_object().unwrap();
    for path in paths.keys().filter(|path| paths[*path]["get"].is_object()) {
        let response = server.get(path);
        assert_eq!(response.status, 200, "{path}");
        check("get", path, &response);
        let misdirected =
            format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
        check("get", path, &exchange(server.connect(), misdirected.as_bytes()).unwrap());
        let hostless = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n");
        check("get", path, &exchange(server.connect(), hostless.as_bytes()).unwrap());
    }
    let job = json!({ "model": "resnet18", "batch": 1, "words": null }).to_string();
    let pod = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": { "uid": "1" },
    });
    let long = " ".repeat(1001);
    let requests = [
        ("/v1/estimate", JSON, &*job),
        ("/v1/estimate", JSON, "{}"),
        ("/v1/batch", LINES, &*job),
        ("/v1/batch", "application/jsonl", ""),
        ("/v1/batch", JSON, "{}"),
        ("/v1/admission", JSON, &*pod.to_string()),
        ("/v1/admission", JSON, "{}"),
        ("/v1/admission", JSON, r#"{"apiVersion": "admission.k8s.io/v1", "request": {}}"#),
        ("/v1/admission?request=all", JSON, &*pod.to_string()),
    ];
    for (path, kind, body) in requests {
        for (kind, body) in [(kind, body), ("text/plain", body), (kind, &long)] {
            let response = server.post(path, kind, body);
            check("post", path, &response);
            statuses.push(response.status);
        }
    }
    assert_eq!(statuses[..3], [200, 415, 413]);
    assert_eq!(statuses[6..12], [200, 415, 413, 200, 415, 413]);
    assert_eq!(
        statuses.iter().step_by(3).copied().collect::<Vec<_>>(),
        [200, 400, 200, 200, 200, 200, 400, 400, 400]
    );
    // A body that may be sent has all that is needed.
    let body = |path: &str, kind: &str| {
        described["paths"][path]["post"]["requestBody"]["content"][kind]["schema"].clone()
    };
    assert_eq!(body("/v1/admission", JSON)["required"], json!(["apiVersion", "request"]));
    for kind in [LINES, "application/jsonl", JSON] {
        assert_eq!(body("/v1/batch", kind), body("/v1/estimate", JSON), "{kind}");
    }
    // All of the policy's names are there.
    let names = &described["paths"]["/v1/admission"]["post"]["parameters"][1]["schema"]["enum"];
    for name in names.as_array().unwrap() {
        let path = format!("/v1/admission?request={}", name.as_str().unwrap());
        assert_eq!(server.post(&path, JSON, &pod.to_string()).status, 200, "{name}");
    }
    assert_eq!(names.as_array().unwrap().len(), 4);
}

#[test]
fn a_request_names_one_host() {
    let server = Server::start(&[]);
    let ask = |version: &str, hosts: &[&str]| {
        let hosts: String = hosts.iter().flat_map(|host| ["Host: ", host, "\r\n"]).collect();
        let head = format!("GET /healthz HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n");
        exchange(server.connect(), head.as_bytes()).unwrap().status
    };
    for (version, hosts, status) in [
        ("1.1", &["localhost"][..], 200),
        ("1.1", &["LOCALHOST:8080"], 200),
        ("1.1", &["[::1]:8080"], 200),
        ("1.1", &[], 400),
        ("1.1", &["localhost", "localhost"], 400),
        ("1.1", &["localhost", "evil.example"], 400),
        ("1.1", &["evil.example"], 421),
        ("1.0", &[], 200),
        ("1.0", &["localhost", "localhost"], 400),
        ("1.0", &["evil.example"], 421),
    ] {
        assert_eq!(ask(version, hosts), status, "HTTP {version}, {hosts:?}");
    }
    let absolute =
        "GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(server.connect(), absolute.as_bytes()).unwrap().status, 421);
}

#[test]
fn what_is_no_job_is_refused() {
    let server = Server::start(&["--body-limit", "1000", "--batch-lines", "3"]);
    let job = json!({ "model": "resnet18" }).to_string();
    let status = |path: &str, kind: &str, body: &str| {
        let response = server.post(path, kind, body);
        (response.status, response.kind())
    };
    let is = |status: u16, kind: &str| (status, kind.to_owned());
    assert_eq!(status("/v1/estimate", "text/plain", &job), is(415, "content-type"));
    assert_eq!(status("/v1/estimate", JSON, &"x".repeat(1001)), is(413, "too-long"));
    assert_eq!(status("/v1/batch", LINES, "1\n2\n3\n4\n"), is(413, "too-long"));
    assert_eq!(status("/v1/nothing", JSON, &job), is(404, "not-found"));
    assert_eq!(server.get("/v1/estimate").status, 405);
    let elsewhere = b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(server.connect(), elsewhere).unwrap().status, 421);
}

#[test]
fn only_models_in_allowed_folders_are_read() {
    let (inside, outside) = (folder("inside"), folder("outside"));
    let source = model("train/squeezenet1_1");
    fs::copy(&source, inside.join("model.onnx")).unwrap();
    fs::copy(&source, outside.join("model.onnx")).unwrap();
    std::os::unix::fs::symlink(outside.join("model.onnx"), inside.join("link.onnx")).unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("folder")).unwrap();
    let path = |path: PathBuf| path.to_str().unwrap().to_owned();
    let within = [path(inside.join("model.onnx")), "model.onnx".to_owned()];
    let without = [
        path(outside.join("model.onnx")),
        path(inside.join("link.onnx")),
        path(inside.join("folder/model.onnx")),
        path(inside.join("../outside/model.onnx")),
        "../inside/model.onnx".to_owned(),
        "/etc/passwd".to_owned(),
        "/dev/zero".to_owned(),
        "missing.onnx".to_owned(),
        String::new(),
    ];
    let closed = Server::start(&[]);
    let open = Server::start(&["--allow", inside.to_str().unwrap()]);
    let kind = |server: &Server, model: &str| {
        let answer = server.estimate(&json!({ "model": model, "batch": 1 }));
        (answer.status, answer.kind())
    };
    for model in &within {
        assert_eq!(kind(&open, model), (200, String::new()), "{model}");
    }
    for model in within.iter().chain(&without) {
        assert_eq!(kind(&closed, model), (400, "unknown-model".to_owned()), "{model}");
    }
    for model in &without {
        let (status, kind) = kind(&open, model);
        // The folder itself is no file.
        let expected = if model.is_empty() { "wrong-format" } else { "unknown-model" };
        assert_eq!((status, &*kind), (400, expected), "{model}");
    }
}

/// Opening a pipe waits for a writer, who may never come.
#[test]
fn a_pipe_in_an_allowed_folder_holds_no_thread() {
    let inside = folder("pipes");
    let path = |name: &str| inside.join(name).to_str().unwrap().to_owned();
    assert!(Command::new("mkfifo").arg(path("pipe.onnx")).status().unwrap().success());
    std::os::unix::fs::symlink(inside.join("pipe.onnx"), inside.join("link.onnx")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(inside.join("socket.onnx")).unwrap();
    fs::copy(model("train/squeezenet1_1"), inside.join("model.onnx")).unwrap();
    let limits = ["--threads", "1", "--time-limit", "60", "--allow", inside.to_str().unwrap()];
    let server = Server::start(&limits);
    let start = Instant::now();
    for name in ["pipe.onnx", "link.onnx", "socket.onnx", "pipe.onnx"] {
        for model in [name.to_owned(), path(name)] {
            let answer = server.estimate(&json!({ "model": model, "batch": 1 }));
            assert_eq!((answer.status, &*answer.kind()), (400, "wrong-format"), "{answer:?}");
            assert!(answer.body.contains("no regular file"), "{answer:?}");
        }
    }
    assert_eq!(server.estimate(&json!({ "model": "model.onnx", "batch": 1 })).status, 200);
    assert!(start.elapsed() < Duration::from_secs(50), "{:?}", start.elapsed());
    // From a shell, too.
    for command in ["estimate", "advise", "explain", "replay"] {
        let outcome = highwater(&[command, &path("pipe.onnx")]);
        assert_eq!(outcome.status, Some(2), "{command}: {outcome:?}");
    }
}

#[test]
fn other_machines_are_not_served_unless_that_is_allowed() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let outcome = highwater(&["serve", "--listen", address]);
        assert_eq!(outcome.status, Some(2));
        assert!(outcome.stderr.contains("--public"), "{}", outcome.stderr);
    }
}

#[test]
fn a_socket_is_served_and_removed() {
    let path = folder("socket").join("highwater.sock");
    let at = path.to_str().unwrap();
    // A server that was killed leaves its socket behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let mut server = Server::start_at(&["--socket", at]);
    assert_eq!(server.address, at);
    let again = highwater(&["serve", "--socket", at]);
    assert!(again.stderr.contains("another server"), "{}", again.stderr);
    let job = request("/v1/estimate", JSON, "{\"model\": \"resnet18\", \"batch\": 1}");
    let answer = exchange(UnixStream::connect(&path).unwrap(), &job).unwrap();
    assert_eq!(answer.status, 200);
    server.signal("-INT");
    assert!(server.child.wait().unwrap().success());
    assert!(!path.exists());
    fs::write(&path, "mine").unwrap();
    assert_eq!(highwater(&["serve", "--socket", at]).status, Some(2));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

/// What a user of some id may do with a socket: the status of an answer, or why there is no connection.
#[cfg(target_os = "linux")]
fn asked_by(user: u32, group: u32, path: &std::path::Path) -> Result<u16, std::io::ErrorKind> {
    use rustix::process::{Gid, Uid};
    use rustix::thread;

    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    // The rights of one thread, which ends.
    let ask = || {
        thread::set_thread_groups(&[]).unwrap();
        thread::set_thread_res_gid(group, group, group).unwrap();
        thread::set_thread_res_uid(user, user, user).unwrap();
        let stream = UnixStream::connect(path).map_err(|error| error.kind())?;
        let head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        Ok(exchange(stream, head).unwrap().status)
    };
    std::thread::scope(|scope| scope.spawn(ask).join().unwrap())
}

/// Controllers of schedulers have users of their own.
#[cfg(target_os = "linux")]
#[test]
#[expect(clippy::print_stderr, reason = "a test that is skipped states it")]
fn the_rights_of_a_socket_decide_who_may_ask() {
    use std::io::ErrorKind::PermissionDenied;
    use std::os::unix::fs::PermissionsExt as _;

    const OTHER: u32 = 65_534;
    // Other users must be able to reach it.
    let folder = tempfile::tempdir().unwrap();
    let rights =
        |mode: u32| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    let path = folder.path().join("highwater.sock");
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can be other users");
    }
    let own_group = rustix::process::getegid().as_raw();
    for (mode, socket, of_other, of_group) in [
        (None, 0o666, Ok(200), Ok(200)),
        (Some("666"), 0o666, Ok(200), Ok(200)),
        (Some("0660"), 0o660, Err(PermissionDenied), Ok(200)),
        (Some("600"), 0o600, Err(PermissionDenied), Err(PermissionDenied)),
    ] {
        let mut arguments = vec!["--socket", path.to_str().unwrap()];
        arguments.extend(mode.iter().flat_map(|mode| ["--socket-mode", mode]));
        let _server = Server::start_at(&arguments);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, socket, "{mode:?}");
        if is_root {
            rights(0o755);
            assert_eq!(asked_by(OTHER, OTHER, &path), of_other, "{mode:?}");
            assert_eq!(asked_by(OTHER, own_group, &path), of_group, "{mode:?}");
            rights(0o700);
            assert_eq!(asked_by(OTHER, own_group, &path), Err(PermissionDenied), "{mode:?}");
        }
    }
    for wrong in ["888", "rw", "1666", ""] {
        let outcome =
            highwater(&["serve", "--socket", path.to_str().unwrap(), "--socket-mode", wrong]);
        assert!(outcome.status == Some(2) && outcome.stderr.contains("such as 660"), "{outcome:?}");
    }
    assert_eq!(highwater(&["serve", "--socket-mode", "660"]).status, Some(2));
}

/// How long the slowest of some requests takes.
fn slowest(server: &Server) -> Duration {
    let ask = |_| {
        let start = Instant::now();
        assert_eq!(server.get("/healthz").status, 200);
        start.elapsed()
    };
    (0..10).map(ask).max().unwrap_or_default()
}

/// More clients than places, who send their requests slowly.
#[test]
fn slow_clients_delay_nobody() {
    let server = Server::start(&["--read-time", "60"]);
    let job = request("/v1/estimate", JSON, &" ".repeat(1000));
    let starts = [&b""[..], b"GET /heal", &job[..20], &job[..500]];
    let begin = |number: usize| {
        let mut stream = server.connect();
        stream.write_all(starts[number % starts.len()]).unwrap();
        stream
    };
    let slow: Vec<TcpStream> = (0..300).map(begin).collect();
    let slowest = slowest(&server);
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    drop(slow);
}

/// Clients who ask and do not read have all places.
#[test]
fn clients_who_do_not_read_delay_nobody() {
    let limits = ["--read-time", "60", "--connections", "4", "--body-limit", "100000000"];
    let server = Server::start(&limits);
    // Answers repeat the id: more than the system keeps for a client.
    let line = json!({ "id": "x".repeat(100_000) }).to_string() + "\n";
    let long = request("/v1/batch", LINES, &line.repeat(300));
    let begin = |_| {
        let mut stream = server.connect();
        stream.write_all(&long).unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
        stream
    };
    let slow: Vec<TcpStream> = (0..4).map(begin).collect();
    let slowest = slowest(&server);
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    drop(slow);
}

/// A job that takes seconds in any build.
fn slow() -> Value {
    let devices: Vec<&str> =
        highwater_core::device::all().iter().map(|device| device.id).take(60).collect();
    json!({ "model": "llama-3.1-70b", "devices": devices, "largest": true, "time": true })
}

#[test]
fn a_full_queue_and_slow_jobs_are_refused() {
    let limits = ["--threads", "1", "--queue", "1", "--time-limit", "1"];
    let server = Server::start(&limits);
    let statuses: Vec<Response> = thread::scope(|scope| {
        let ask = |_| scope.spawn(|| server.estimate(&slow()));
        let all: Vec<_> = (0..8).map(ask).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let count = |status: u16| statuses.iter().filter(|one| one.status == status).count();
    assert!(count(503) > 0 && count(504) > 0, "{statuses:?}");
    assert_eq!(count(503) + count(504), 8, "{statuses:?}");
    for refused in statuses.iter().filter(|one| one.status == 503) {
        assert!(refused.head.contains("retry-after: 1"), "{refused:?}");
        assert_eq!(refused.kind(), "busy");
    }
    // Others are answered while a thread is still at work on what nobody waits for.
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn what_is_under_way_is_finished_after_a_signal() {
    let mut server = Server::start(&["--time-limit", "600", "--grace", "600"]);
    let devices = ["t4", "l4", "a100-80gb", "h100-80gb"];
    let job = json!({ "model": "llama-3.1-70b", "devices": devices, "largest": true }).to_string();
    let mut stream = server.connect();
    stream.write_all(&request("/v1/estimate", JSON, &job)).unwrap();
    loop {
        let metrics = server.get("/metrics").body;
        assert!(!metrics.contains("/v1/estimate"), "the job was over before the signal: {metrics}");
        if metrics.contains("highwater_jobs_in_flight 1") {
            break;
        }
    }
    server.signal("-TERM");
    assert_eq!(receive(stream).unwrap().status, 200);
    assert!(server.child.wait().unwrap().success());
    assert!(TcpStream::connect(&server.address).is_err());
}

/// What clients send, by turns.
const TURNS: usize = 12;

/// One request, which may mean no good; how many jobs it had.
fn turn(server: &Server, number: usize) -> usize {
    let batch = number % 32 + 1;
    let job = json!({ "id": number, "model": "resnet18", "batch": batch, "devices": ["t4"] });
    let status = |response: Option<Response>| response.map(|response| response.status);
    match number % TURNS {
        0 => {
            let garbage: Vec<u8> =
                (0..2000_u32).map(|at| (at * 37 % 251).to_le_bytes()[0]).collect();
            let answer = status(exchange(server.connect(), &garbage));
            assert!(matches!(answer, None | Some(400)), "{answer:?}");
        }
        1 => {
            let head = "POST /v1/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                        Content-Length: 99999999999\r\n\r\n";
            let huge = [head.as_bytes(), &vec![b' '; 2 << 20]].concat();
            let answer = status(exchange(server.connect(), &huge));
            assert!(matches!(answer, None | Some(413)), "{answer:?}");
        }
        // They begin and say no more; the connection stays open for a while, or ends.
        2 => {
            let mut stream = server.connect();
            stream.write_all(b"POST /v1/esti").unwrap();
            let answer = status(receive(stream));
            assert!(matches!(answer, None | Some(408)), "{answer:?}");
        }
        3 => {
            let bytes = request("/v1/estimate", JSON, &job.to_string());
            server.connect().write_all(&bytes[..bytes.len() - 5]).unwrap();
        }
        4 => {
            let bytes = request("/v1/estimate", JSON, &job.to_string());
            let stream = server.connect();
            (&stream).write_all(&bytes[..bytes.len() - 5]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let answer = status(receive(stream));
            assert!(!matches!(answer, Some(200)), "{answer:?}");
        }
        5 => {
            let answer = server.estimate(&json!({ "model": "../../../../etc/passwd" }));
            assert_eq!((answer.status, &*answer.kind()), (400, "unknown-model"));
        }
        6 => {
            let answer = server.post("/v1/estimate", JSON, &"[".repeat(100_000));
            assert_eq!((answer.status, &*answer.kind()), (400, "bad-json"));
        }
        7 => {
            let absurd = json!({ "model": "resnet18", "batch": u64::MAX });
            assert_eq!(server.estimate(&absurd).status, 400);
        }
        8 => {
            let lines = format!("{job}\n{{\"id\": 1}}\n[]\n");
            let answer = server.post("/v1/batch", LINES, &lines);
            assert_eq!((answer.status, answer.body.lines().count()), (200, 3));
            return 1;
        }
        _ => {
            let answer = server.estimate(&job);
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.json()["id"], number);
            return 1;
        }
    }
    0
}

/// Many requests from some clients; how many jobs were answered.
fn storm(server: &Server, clients: usize, requests: usize) -> usize {
    let (next, jobs) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests {
                        break;
                    }
                    jobs.fetch_add(turn(server, number), Ordering::Relaxed);
                }
            });
        }
    });
    jobs.into_inner()
}

#[test]
fn bad_clients_do_not_disturb_others() {
    let mut server = Server::start(&["--queue", "64", "--read-time", "1", "--time-limit", "600"]);
    assert_eq!(storm(&server, 16, 240), 80);
    assert_eq!(server.get("/healthz").status, 200);
    server.signal("-TERM");
    assert!(server.child.wait().unwrap().success());
}

/// `docs/schedulers.md` has the command and the figures.
#[test]
#[ignore = "ten thousand requests take minutes"]
#[expect(clippy::print_stderr, reason = "its figures are read by people")]
fn ten_thousand_requests_of_64_clients() {
    let server = Server::start(&["--queue", "64", "--read-time", "1", "--time-limit", "600"]);
    let mut resident = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        let jobs = storm(&server, 64, 2000);
        resident.extend(server.resident());
        eprintln!("2000 requests, {jobs} jobs: {:?}, {resident:?} KiB", start.elapsed());
    }
    assert_eq!(server.get("/healthz").status, 200);
    // All that is kept is there after the second part.
    if let [_, second, .., last] = resident[..] {
        assert!(last < second + second / 4, "{resident:?} KiB");
    }
}
