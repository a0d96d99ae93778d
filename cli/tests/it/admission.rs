//! `POST /v1/admission`: reviews as an API server of Kubernetes sends them, and their responses.
#![cfg(unix)]
#![expect(clippy::needless_pass_by_value, reason = "pods are written where they are used")]

use serde_json::{Value, json};

use crate::serve::{JSON, Server};

/// A pod with annotations of ours and a specification.
fn pod(annotations: &[(&str, &str)], spec: Value) -> Value {
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(name, value)| (format!("highwater.dev/{name}"), json!(value)))
        .collect();
    let metadata = json!({ "name": "train", "namespace": "team", "annotations": annotations });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

/// One container with limits.
fn container(limits: Value) -> Value {
    json!({ "containers": [{ "name": "train", "image": "pytorch", "resources": { "limits": limits } }] })
}

/// A review, with what an API server sends in addition to what is read.
fn review(object: &Value) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": { "group": "", "version": "v1", "kind": "Pod" },
            "resource": { "group": "", "version": "v1", "resource": "pods" },
            "requestKind": { "group": "", "version": "v1", "kind": "Pod" },
            "requestResource": { "group": "", "version": "v1", "resource": "pods" },
            "name": "train",
            "namespace": "team",
            "operation": "CREATE",
            "userInfo": { "username": "ada", "groups": ["system:authenticated"] },
            "object": object,
            "oldObject": null,
            "dryRun": false,
            "options": { "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1" },
        },
    })
}

/// The response to a review of an object.
fn respond(server: &Server, policy: &str, object: &Value) -> Value {
    let path = format!("/v1/admission{policy}");
    let response = server.post(&path, JSON, &review(object).to_string());
    assert_eq!(response.status, 200, "{response:?}");
    let review = response.json();
    assert_eq!(review["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(review["kind"], "AdmissionReview");
    assert_eq!(review["response"]["uid"], "705ab4f5-6393-11e8-b7cc-42010a800002");
    review["response"].clone()
}

/// The warnings of an object that stays as it is.
fn warnings(response: &Value) -> String {
    assert_eq!(response["allowed"], true, "{response}");
    assert!(response["patch"].is_null(), "{response}");
    response["warnings"].as_array().map_or_else(String::new, |warnings| {
        warnings.iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>().join(" ")
    })
}

/// The operations of a patch.
fn patch(response: &Value) -> Vec<Value> {
    assert_eq!(response["allowed"], true, "{response}");
    assert_eq!(response["patchType"], "JSONPatch", "{response}");
    let bytes = decode(response["patch"].as_str().unwrap());
    serde_json::from_slice(&bytes).unwrap()
}

/// Base64 with its padding.
fn decode(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    assert_eq!(text.len() % 4, 0, "{text}");
    let digits: Vec<usize> = text
        .trim_end_matches('=')
        .bytes()
        .map(|byte| DIGITS.iter().position(|digit| *digit == byte).unwrap())
        .collect();
    let group = |digits: &[usize]| {
        let bits = (0..4).fold(0, |bits, at| bits << 6 | digits.get(at).copied().unwrap_or(0));
        [bits >> 16, bits >> 8, bits].map(|byte| u8::try_from(byte & 255).unwrap())
            [..digits.len() - 1]
            .to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}

const FITS: &str = "model=resnet18 batch=8 optimizer=adamw";
const TOO_LARGE: &str = "model=llama-3.1-8b batch=1";

#[test]
fn a_pod_that_fits_gets_its_memory() {
    let server = Server::start(&[]);
    let spec = container(json!({ "nvidia.com/gpu": "1", "cpu": "4" }));
    let object = pod(&[("job", FITS), ("devices", "t4")], spec);
    let patch = patch(&respond(&server, "?timeout=5s", &object));
    assert_eq!(patch.len(), 2, "{patch:?}");
    assert_eq!(patch[0]["op"], "add");
    assert_eq!(patch[0]["path"], "/spec/containers/0/resources");
    let job = json!({ "words": FITS, "devices": ["t4"] });
    let requests = server.estimate(&job).json()["devices"][0]["requests"].clone();
    let memory = requests["memory_mib"].to_string();
    let expected = json!({
        "limits": { "cpu": "4", "nvidia.com/gpu": "1", "nvidia.com/gpumem": memory },
        "requests": { "nvidia.com/gpu": "1", "nvidia.com/gpumem": memory },
    });
    assert_eq!(patch[0]["value"], expected);
    assert_eq!(patch[1]["path"], "/metadata/annotations/highwater.dev~1answer");
    let answer = patch[1]["value"].as_str().unwrap();
    assert!(answer.starts_with("resnet18 at batch 8 fits on a T4"), "{answer}");
}

#[test]
fn a_pod_that_fits_on_no_gpu_of_its_nodes_is_refused() {
    let server = Server::start(&[]);
    let mut spec = container(json!({ "nvidia.com/gpu": 1 }));
    spec["nodeSelector"] = json!({ "nvidia.com/gpu.product": "Tesla-T4-SHARED" });
    let response = respond(&server, "?devices=h200", &pod(&[("job", TOO_LARGE)], spec.clone()));
    assert_eq!(response["allowed"], false, "{response}");
    assert_eq!(response["status"]["code"], 403);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("Does not fit on a T4: llama-3.1-8b"), "{message}");

    // One of two alternatives is enough.
    let products = |products: Value| {
        json!({ "matchExpressions": [
            { "key": "nvidia.com/gpu.product", "operator": "In", "values": products },
        ] })
    };
    let affinity = |terms: Value| {
        let required = json!({ "nodeSelectorTerms": terms });
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } })
    };
    spec["nodeSelector"] = json!({});
    spec["affinity"] = affinity(json!([products(json!(["Tesla-T4", "NVIDIA-A10"]))]));
    let refused = respond(&server, "?devices=h200", &pod(&[("job", TOO_LARGE)], spec.clone()));
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(message.contains("on a T4") && message.contains("on an A10:"), "{message}");
    spec["affinity"] =
        affinity(json!([products(json!(["Tesla-T4"])), products(json!(["NVIDIA-H200"]))]));
    patch(&respond(&server, "", &pod(&[("job", TOO_LARGE)], spec.clone())));
    // A term without products allows every GPU of the cluster.
    spec["affinity"] = affinity(json!([products(json!(["Tesla-T4"])), {}]));
    patch(&respond(&server, "?devices=t4,h200", &pod(&[("job", TOO_LARGE)], spec)));
}

#[test]
fn a_pod_gets_the_smallest_slice_instead_of_a_gpu() {
    let server = Server::start(&[]);
    let object = || pod(&[("job", FITS)], container(json!({ "nvidia.com/gpu": "1", "cpu": "4" })));
    let patch = patch(&respond(&server, "?devices=a100-80gb&request=mig", &object()));
    let expected = json!({
        "limits": { "cpu": "4", "nvidia.com/mig-1g.10gb": "1" },
        "requests": { "nvidia.com/mig-1g.10gb": "1" },
    });
    assert_eq!(patch[0]["value"], expected);
    for (devices, part) in [
        ("a100-80gb,a30", "different slices for it (1g.10gb and 1g.6gb)"),
        ("a100-80gb,t4", "does not surely fit on a slice of each of its GPUs"),
    ] {
        let query = format!("?devices={devices}&request=mig");
        let warnings = warnings(&respond(&server, &query, &object()));
        assert!(warnings.contains(part), "{warnings}");
    }
}

#[test]
fn nodes_are_required_by_their_label() {
    let server = Server::start(&[]);
    let mut spec = container(json!({ "nvidia.com/gpu": 1 }));
    let zone = json!({ "key": "zone", "operator": "In", "values": ["a"] });
    let required = json!({ "nodeSelectorTerms": [{ "matchExpressions": [zone] }] });
    spec["affinity"] =
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
    let object = pod(&[("job", FITS)], spec);
    let patch = patch(&respond(&server, "?devices=t4&request=memory", &object));
    assert_eq!(patch[0]["path"], "/spec/affinity");
    let terms = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = patch[0]["value"].pointer(terms).unwrap();
    let expressions = terms[0]["matchExpressions"].as_array().unwrap();
    assert_eq!(expressions[0], zone);
    assert_eq!(expressions[1]["key"], "nvidia.com/gpu.memory");
    assert_eq!(expressions[1]["operator"], "Gt");
    let job = json!({ "words": FITS, "devices": ["t4"] });
    let memory =
        server.estimate(&job).json()["devices"][0]["requests"]["memory_mib"].as_u64().unwrap();
    assert_eq!(expressions[1]["values"], json!([((memory * 32).div_ceil(31) - 1).to_string()]));
    // Nothing but the answer.
    let object = pod(&[("job", FITS), ("request", "nothing")], container(json!({})));
    assert_eq!(self::patch(&respond(&server, "?devices=t4", &object)).len(), 1);
}

#[test]
fn other_pods_stay_as_they_are_and_their_owners_read_why() {
    let server = Server::start(&[]);
    let one = || container(json!({ "nvidia.com/gpu": 1 }));
    let cases = [
        (pod(&[], one()), ""),
        (pod(&[("job", "model=resnet50 batch=153")], one()), "so the pod stays as it is."),
        (
            pod(&[("job", "model=resnet5000")], one()),
            "Highwater did not check this pod: there is no",
        ),
        (pod(&[("job", "resnet50")], one()), "`resnet50` is not KEY=VALUE"),
        (pod(&[("job", FITS), ("request", "all")], one()), "can be gpumem, memory, mig or nothing"),
        (pod(&[("job", FITS), ("container", "main")], one()), "no container of that name"),
        (pod(&[("job", FITS)], json!({ "containers": [] })), "no container"),
        (
            pod(&[("job", FITS)], container(json!({ "nvidia.com/gpu": 2 }))),
            "2 GPUs, and its job has no gpus=",
        ),
        (
            pod(&[("job", FITS)], container(json!({ "nvidia.com/gpumem": "100" }))),
            "and its nvidia.com/gpumem is 100.",
        ),
        (
            pod(&[("job", FITS)], container(json!({ "nvidia.com/gpumem": "1k" }))),
            "and its nvidia.com/gpumem is 1000.",
        ),
        (
            pod(&[("job", FITS)], container(json!({ "nvidia.com/gpumem": "1.5Gi" }))),
            "its limit nvidia.com/gpumem is `1.5Gi`, no whole number",
        ),
        (
            pod(&[("job", FITS)], container(json!({ "nvidia.com/mig-1g.10gb": 1 }))),
            "asks for nvidia.com/mig-1g.10gb, and slices are not checked",
        ),
        (pod(&[("job", FITS)], json!({ "containers": "none" })), "it is no pod"),
        (json!(7), "it is no pod"),
    ];
    for (object, expected) in cases {
        let found = warnings(&respond(&server, "?devices=t4", &object));
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
    }
    let unknown = warnings(&respond(&server, "", &pod(&[("job", FITS)], one())));
    assert!(unknown.contains("it is unknown which GPUs the pod may get"), "{unknown}");
    let mut spec = one();
    spec["nodeSelector"] = json!({ "nvidia.com/gpu.product": "NVIDIA-B900" });
    let unknown = warnings(&respond(&server, "?devices=t4", &pod(&[("job", FITS)], spec)));
    assert!(unknown.contains("its nodes have NVIDIA-B900"), "{unknown}");
}

#[test]
fn what_is_no_review_is_refused() {
    let server = Server::start(&[]);
    let old = json!({ "apiVersion": "admission.k8s.io/v1beta1", "request": { "uid": "1" } });
    let bodies = ["", "{}", r#"{"apiVersion": "admission.k8s.io/v1"}"#, &old.to_string()];
    for body in bodies {
        let response = server.post("/v1/admission", JSON, body);
        assert_eq!((response.status, response.kind()), (400, "bad-review".to_owned()), "{body}");
    }
    let object = review(&pod(&[], json!({}))).to_string();
    for policy in ["?request=all", "?gpus=t4"] {
        let response = server.post(&format!("/v1/admission{policy}"), JSON, &object);
        assert_eq!((response.status, response.kind()), (400, "policy".to_owned()), "{policy}");
    }
}
