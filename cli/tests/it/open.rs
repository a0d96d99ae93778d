//! `open`: the page on this machine, with a model.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::read::DeflateDecoder;
use serde_json::{Value, json};

use crate::run::{contents, highwater, model};
use crate::serve::{Response, exchange, folder};

/// A page that is served until it is dropped.
struct Opened {
    child: Child,
    /// What stands behind `http://`: host and port, then the rest.
    address: String,
}

impl Opened {
    fn start(page: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.arg("open").args(arguments).args(["--no-browser", "--page"]).arg(page);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (_, address) = line.trim().split_once(" is open at http://").unwrap();
        Self { child, address: address.to_owned() }
    }

    fn host(&self) -> &str {
        self.address.split('/').next().unwrap()
    }

    fn ask(&self, method: &str, path: &str, host: &str) -> Response {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        exchange(TcpStream::connect(self.host()).unwrap(), head.as_bytes()).unwrap()
    }

    fn get(&self, path: &str) -> (u16, String) {
        let response = self.ask("GET", path, self.host());
        (response.status, response.body)
    }

    /// The state in the address.
    fn state(&self) -> Value {
        let (_, packed) = self.address.split_once("#v1.").unwrap();
        let packed = URL_SAFE_NO_PAD.decode(packed).unwrap();
        let mut text = String::new();
        DeflateDecoder::new(&*packed).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A folder with what could be a page, and files next to it that are none of it.
fn page(name: &str) -> PathBuf {
    let folder = folder(name);
    let page = folder.join("page");
    fs::create_dir_all(page.join("examples")).unwrap();
    fs::write(folder.join("secret.txt"), "secret").unwrap();
    fs::write(page.join("index.html"), "<p>page</p>").unwrap();
    fs::write(page.join("boot.js"), "start()").unwrap();
    fs::write(page.join("program.wasm"), "\0asm").unwrap();
    fs::write(page.join("sw.js"), "keep()").unwrap();
    fs::write(page.join("examples/one.json"), "{}").unwrap();
    std::os::unix::fs::symlink(folder.join("secret.txt"), page.join("link.txt")).unwrap();
    page
}

#[test]
fn the_page_and_the_model_are_served() {
    let (page, path) = (page("opened"), model("train/alexnet"));
    let settings = ["--batch", "64", "--optimizer", "sgd", "--device", "t4", "--dim=batch=64"];
    let opened = Opened::start(&page, &[&[&*path], settings.as_slice()].concat());
    assert!(opened.host().starts_with("127.0.0.1:"), "{}", opened.address);
    assert!(opened.address.contains("/?served=alexnet.onnx#"), "{}", opened.address);
    assert_eq!(
        opened.state(),
        json!({
            "highwater": 1, "file": "alexnet.onnx", "dims": { "batch": 64 },
            "settings": { "optimizer": "sgd", "device": "t4" }
        })
    );
    assert_eq!(opened.get("/"), (200, "<p>page</p>".to_owned()));
    assert_eq!(opened.get("/?served=alexnet.onnx"), (200, "<p>page</p>".to_owned()));
    assert_eq!(opened.get("/examples/one.json"), (200, "{}".to_owned()));
    for (path, kind) in [
        ("/boot.js", "text/javascript"),
        ("/program.wasm", "application/wasm"),
        ("/model", "application/octet-stream"),
    ] {
        let response = opened.ask("HEAD", path, "localhost");
        assert_eq!((response.status, &*response.body), (200, ""), "{path}");
        assert!(response.head.contains(&format!("content-type: {kind}")), "{}", response.head);
        assert!(response.head.contains("cross-origin-resource-policy: same-origin"));
    }
    let length = format!("content-length: {}", contents("train/alexnet").len());
    let served = opened.ask("GET", "/model", opened.host());
    assert!(served.head.contains(&length), "{}", served.head);
    assert_eq!(served.body, String::from_utf8_lossy(&contents("train/alexnet")));
}

#[test]
fn nothing_else_is_served_and_to_nobody_else() {
    let opened = Opened::start(&page("guarded"), &[&model("train/alexnet")]);
    for path in [
        "/../secret.txt",
        "/examples/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/link.txt",
        "//secret.txt",
        "/examples",
        "/missing.js",
        "/sw.js",
        "/model/../boot.js",
    ] {
        assert_eq!(opened.get(path).0, 404, "{path}");
    }
    for host in ["evil.example", "evil.example:80", "192.0.2.1", ""] {
        assert_eq!(opened.ask("GET", "/model", host).status, 421, "{host}");
    }
    assert_eq!(opened.ask("POST", "/", opened.host()).status, 405);
}

#[test]
fn a_name_is_in_the_address() {
    let mut opened = Opened::start(&page("named"), &["gpt2", "--batch", "4"]);
    let state = opened.state();
    assert_eq!((&state["text"], &state["dims"]["batch"]), (&json!("GPT-2 124M"), &json!(4)));
    assert_eq!(state["content"], "highwater model gpt2");
    assert_eq!(opened.get("/model").0, 404);
    let id = opened.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert!(opened.child.wait().unwrap().success());
}

#[test]
fn without_a_page_or_a_model_it_is_refused() {
    let empty = folder("no-page");
    let refused = |arguments: &[&str]| {
        let outcome = highwater(&[&["open"], arguments].concat());
        assert_eq!((outcome.status, &*outcome.stdout), (Some(2), ""), "{}", outcome.stderr);
        outcome.stderr
    };
    let message = refused(&["gpt2", "--page", empty.to_str().unwrap()]);
    let expected = format!("error: the files of the page are not in {}", empty.display());
    assert!(message.starts_with(&expected), "{message}");
    for part in ["`cargo xtask build`", "`--page`", "HIGHWATER_PAGE"] {
        assert!(message.contains(part), "{message}");
    }
    // Next to the program there is none.
    assert!(refused(&["gpt2"]).contains("share/highwater/page"));
    let page = page("refused");
    let message = refused(&["no-such.onnx", "--page", page.to_str().unwrap()]);
    assert!(message.contains("no-such.onnx: cannot read"), "{message}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command.args(["open", "gpt2"]).env("HIGHWATER_PAGE", &empty).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.starts_with(&expected), "{message}");
}
