//! `POST /v1/admission`: a Kubernetes API server asks about each pod before it stores it.
//!
//! The pod states what it trains in an annotation. A pod that fits on none of the GPUs that it may get is refused. One
//! that surely fits gets a request for its memory. Every other pod stays as it is, with a warning to its owner.
//!
//! | module | concern |
//! |---|---|
//! | [`pod`] | the annotations of a pod, its GPUs, and patches of it |

mod pod;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use self::pod::Pod;

/// The version that is understood; API servers speak it since Kubernetes 1.16.
pub(super) const VERSION: &str = "admission.k8s.io/v1";

/// A node's label `nvidia.com/gpu.memory` counts more than a process may use: at most 32 for each 31.
const LABEL: (u64, u64) = (32, 31);

/// What an administrator decides for all pods; annotations of a pod go before.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Policy {
    /// What the API server adds to the address: how long it waits.
    #[serde(rename = "timeout")]
    pub(super) _timeout: String,
    /// Ids of the GPUs of the cluster, with commas between: the GPUs of pods that do not choose.
    pub(super) devices: String,
    /// What a pod that fits gets.
    pub(super) request: Request,
}

/// What a pod that fits gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Request {
    /// `nvidia.com/gpumem`, which HAMi counts and enforces.
    #[default]
    Gpumem,
    /// A node whose GPUs have enough memory, by the label `nvidia.com/gpu.memory`.
    Memory,
    /// A slice instead of a whole GPU, by MIG: the smallest on which it fits.
    Mig,
    /// Nothing: pods are only checked.
    Nothing,
}

impl Request {
    /// All, by their names.
    pub(super) const TABLE: [(&str, Self); 4] = [
        ("gpumem", Self::Gpumem),
        ("memory", Self::Memory),
        ("mig", Self::Mig),
        ("nothing", Self::Nothing),
    ];

    /// What an annotation names.
    fn named(name: &str) -> Result<Self, String> {
        let found = Self::TABLE.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, request)| request).ok_or_else(|| {
            let prefix = pod::PREFIX;
            format!(
                "the annotation {prefix}request is `{name}`; it can be gpumem, memory, mig or nothing"
            )
        })
    }
}

/// `AdmissionReview` of `admission.k8s.io/v1`, what is needed of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    request: Option<Asked>,
}

#[derive(Deserialize)]
struct Asked {
    uid: String,
    object: Option<Value>,
}

/// What is needed of the answer to a job.
#[derive(Deserialize)]
struct Answer {
    error: Option<Problem>,
    #[serde(default)]
    devices: Vec<OnDevice>,
}

#[derive(Deserialize)]
struct Problem {
    message: String,
}

#[derive(Deserialize)]
struct OnDevice {
    verdict: String,
    sentence: String,
    requests: Option<Requests>,
    #[serde(default)]
    slices: Vec<Slice>,
}

#[derive(Deserialize)]
struct Slice {
    profile: String,
}

#[derive(Deserialize)]
struct Requests {
    memory_mib: u64,
    is_sure: bool,
}

/// A review that was read.
pub(super) struct Opened {
    api_version: String,
    uid: String,
    /// The pod and its job; `None` where it has none, an error where it cannot be checked.
    question: Result<Option<Question>, String>,
}

/// A pod, and what is asked about it.
struct Question {
    pod: Pod,
    /// The number of the container that trains.
    container: usize,
    request: Request,
    /// As JSON.
    job: String,
}

/// What is decided on a pod.
enum Decision {
    /// It is stored as it is.
    AsItIs,
    /// It is stored as it is, and its owner reads why.
    Warned(Vec<String>),
    /// It is changed by a JSON patch.
    Patched(Vec<Value>),
    /// It is not stored.
    Refused(String),
}

impl Opened {
    /// A review as the API server sends it.
    ///
    /// # Errors
    /// The text is no review with a request.
    pub(super) fn read(text: &[u8], policy: &Policy) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| format!("this is no AdmissionReview: {error}");
        let Review { api_version, request } = serde_json::from_slice(text).map_err(wrong)?;
        let Some(Asked { uid, object }) = request else {
            return Err("this AdmissionReview has no request".to_owned());
        };
        if api_version != VERSION {
            let message = format!("this AdmissionReview is one of {api_version}, not of {VERSION}");
            return Err(message);
        }
        let question = object.map_or(Ok(None), |object| Question::of(object, policy));
        Ok(Self { api_version, uid, question })
    }

    /// The job to answer, as JSON.
    pub(super) fn job(&self) -> Option<&str> {
        Some(&self.question.as_ref().ok()?.as_ref()?.job)
    }

    /// The review with its response, from the answer to the job.
    pub(super) fn review(self, answer: Value) -> Value {
        let decision = match self.question {
            Ok(None) => Ok(Decision::AsItIs),
            Ok(Some(question)) => question.decide(answer),
            Err(why) => Err(why),
        };
        let mut response = json!({"uid": self.uid, "allowed": true});
        match decision {
            Ok(Decision::AsItIs) => {}
            Ok(Decision::Warned(warnings)) => response["warnings"] = json!(warnings),
            Ok(Decision::Patched(patch)) => {
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(STANDARD.encode(json!(patch).to_string()));
            }
            Ok(Decision::Refused(message)) => {
                response["allowed"] = json!(false);
                response["status"] =
                    json!({"code": 403, "reason": "Forbidden", "message": message});
            }
            Err(why) => {
                let warning = format!("Highwater did not check this pod: {why}.");
                response["warnings"] = json!([warning]);
            }
        }
        json!({"apiVersion": self.api_version, "kind": "AdmissionReview", "response": response})
    }
}

impl Question {
    /// What is asked about a pod. An error is why it cannot be checked; it does not stop the pod.
    fn of(object: Value, policy: &Policy) -> Result<Option<Self>, String> {
        let pod = Pod::of(object)?;
        let Some(words) = pod.annotation("job") else { return Ok(None) };
        let devices = pod.devices(&policy.devices)?;
        let request = pod.annotation("request").map_or(Ok(policy.request), Request::named)?;
        let container = pod.container()?;
        let gpus = pod.gpus(container)?;
        if gpus > 1 && !words.contains("gpus") {
            return Err(format!("it asks for {gpus} GPUs, and its job has no gpus="));
        }
        let slices = request == Request::Mig;
        let job = json!({"words": words, "devices": devices, "slices": slices}).to_string();
        Ok(Some(Self { pod, container, request, job }))
    }

    fn decide(&self, answer: Value) -> Result<Decision, String> {
        let unread = |error: serde_json::Error| format!("the answer cannot be read: {error}");
        let answer: Answer = serde_json::from_value(answer).map_err(unread)?;
        if let Some(Problem { message }) = answer.error {
            return Err(message);
        }
        let (fails, fits): (Vec<_>, Vec<_>) =
            answer.devices.into_iter().partition(|device| device.verdict == "does-not-fit");
        let sentences = |devices: &[OnDevice]| {
            devices.iter().map(|device| device.sentence.clone()).collect::<Vec<_>>()
        };
        if fits.is_empty() {
            return Ok(Decision::Refused(sentences(&fails).join(" ")));
        }
        let sure = |device: &OnDevice| {
            device.requests.as_ref().filter(|requests| requests.is_sure).map(|it| it.memory_mib)
        };
        // The same pod needs more on a larger GPU, whose context is larger.
        let Some(sizes) = fits.iter().map(sure).collect::<Option<Vec<_>>>() else {
            let mut warnings = sentences(&fits);
            warnings.push("Highwater: that is not sure, so the pod stays as it is.".to_owned());
            return Ok(Decision::Warned(warnings));
        };
        let memory_mib = sizes.into_iter().max().unwrap_or(0);
        let patch = match self.request {
            Request::Nothing => Ok(Vec::new()),
            Request::Gpumem => self.pod.with_gpumem(self.container, memory_mib),
            Request::Memory => {
                let (of_label, usable) = LABEL;
                let label = memory_mib.saturating_mul(of_label).div_ceil(usable);
                Ok(self.pod.with_memory_label(label))
            }
            Request::Mig => match profile(&fits) {
                Ok(profile) => self.pod.with_slice(self.container, profile),
                Err(why) => Err(format!("Highwater: {why}, so the pod stays as it is.")),
            },
        };
        Ok(match patch {
            Ok(mut patch) => {
                patch.push(Pod::with_answer(&sentences(&fits).join(" ")));
                Decision::Patched(patch)
            }
            Err(warning) => Decision::Warned(vec![warning]),
        })
    }
}

/// The profile of the smallest slice on which the pod fits, on any of its GPUs.
fn profile(devices: &[OnDevice]) -> Result<&str, String> {
    let profiles = devices.iter().map(|device| device.slices.first().map(|slice| &*slice.profile));
    let Some(mut profiles) = profiles.collect::<Option<Vec<_>>>() else {
        return Err("it does not surely fit on a slice of each of its GPUs".to_owned());
    };
    profiles.dedup();
    match profiles.as_slice() {
        [one] => Ok(one),
        several => {
            let several = several.join(" and ");
            Err(format!("its GPUs have different slices for it ({several})"))
        }
    }
}
