//! [`Pod`]: the annotations of a pod, the GPUs that it may get, and patches of it.

use std::collections::BTreeMap;

use highwater_core::device;
use serde::Deserialize;
use serde_json::{Value, json};

/// How the annotations begin.
pub(super) const PREFIX: &str = "highwater.dev/";

/// Whole GPUs of a container.
const GPU: &str = "nvidia.com/gpu";
/// MiB of GPU memory of a container, which HAMi enforces.
const GPUMEM: &str = "nvidia.com/gpumem";
/// How slices of GPUs begin: `nvidia.com/mig-1g.10gb`.
const MIG: &str = "nvidia.com/mig-";
/// The label of nodes with the GPU's name, of NVIDIA's GPU feature discovery.
const PRODUCT: &str = "nvidia.com/gpu.product";
/// The label of nodes with the GPU's memory in MiB.
const MEMORY: &str = "nvidia.com/gpu.memory";

/// A pod, and what is needed of it.
pub(super) struct Pod {
    object: Value,
    parts: Parts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parts {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    containers: Vec<Container>,
    node_selector: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    name: String,
    resources: Resources,
}

/// Quantities are texts or numbers.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    limits: BTreeMap<String, Value>,
}

impl Container {
    /// COUNT: of a resource whose quantities are whole numbers.
    fn limit(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(limit) = self.resources.limits.get(name) else { return Ok(None) };
        let text = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
        let count = whole(&text);
        count.map(Some).ok_or_else(|| format!("its limit {name} is `{text}`, no whole number"))
    }
}

/// COUNT: a quantity that is a whole number. API servers write 1000 as `1k`.
fn whole(quantity: &str) -> Option<u64> {
    let digits = quantity.trim_end_matches(|c: char| !c.is_ascii_digit());
    let scale = match quantity.strip_prefix(digits)? {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

impl Pod {
    /// # Errors
    /// The object is no pod.
    pub(super) fn of(object: Value) -> Result<Self, String> {
        let parts =
            Parts::deserialize(&object).map_err(|error| format!("it is no pod: {error}"))?;
        Ok(Self { object, parts })
    }

    /// The text of one of our annotations.
    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.parts.metadata.annotations.get(&[PREFIX, name].concat()).map(String::as_str)
    }

    /// The number of the container that trains: the one that an annotation names, else the first with a GPU, else the
    /// first.
    pub(super) fn container(&self) -> Result<usize, String> {
        let containers = &self.parts.spec.containers;
        let found = if let Some(name) = self.annotation("container") {
            containers.iter().position(|container| container.name == name)
        } else {
            let with_gpu = |container: &Container| {
                container.resources.limits.keys().any(|name| name.starts_with("nvidia.com/"))
            };
            Some(containers.iter().position(with_gpu).unwrap_or(0))
                .filter(|_| !containers.is_empty())
        };
        found.ok_or_else(|| "it has no container of that name".to_owned())
    }

    /// COUNT: whole GPUs of a container.
    ///
    /// # Errors
    /// It asks for slices of GPUs, or the limit is no number.
    pub(super) fn gpus(&self, container: usize) -> Result<u64, String> {
        let Some(container) = self.parts.spec.containers.get(container) else { return Ok(1) };
        if let Some(slice) = container.resources.limits.keys().find(|name| name.starts_with(MIG)) {
            return Err(format!("it asks for {slice}, and slices are not checked"));
        }
        Ok(container.limit(GPU)?.unwrap_or(1))
    }

    /// Ids of the GPUs that it may get: those of its annotation, else those of the nodes that it selects, else all of
    /// the cluster.
    pub(super) fn devices(&self, of_cluster: &str) -> Result<Vec<String>, String> {
        if let Some(devices) = self.annotation("devices") {
            return Ok(listed(devices));
        }
        let selected = match self.parts.spec.node_selector.get(PRODUCT) {
            Some(product) => Some(vec![product.as_str()]),
            None => self.products_by_affinity(),
        };
        if let Some(products) = selected {
            return products.into_iter().map(id_of).collect();
        }
        let devices = listed(of_cluster);
        if devices.is_empty() {
            return Err("it is unknown which GPUs the pod may get".to_owned());
        }
        Ok(devices)
    }

    /// Products of the nodes that it requires; `None` where one alternative allows every product.
    fn products_by_affinity(&self) -> Option<Vec<&str>> {
        let mut products = Vec::new();
        for term in terms(&self.object).filter(|terms| !terms.is_empty())? {
            let expressions = term.get("matchExpressions")?.as_array()?;
            let is_product = |expression: &&Value| {
                expression["key"] == PRODUCT && expression["operator"] == "In"
            };
            let values = expressions.iter().find(is_product)?.get("values")?.as_array()?;
            products.extend(values.iter().filter_map(Value::as_str));
        }
        Some(products)
    }

    /// Limits a container to this memory.
    ///
    /// # Errors
    /// It has a limit already, which is lower or no number; the error is a warning.
    pub(super) fn with_gpumem(&self, container: usize, mib: u64) -> Result<Vec<Value>, String> {
        let none = Ok(Vec::new());
        let Some(found) = self.parts.spec.containers.get(container) else { return none };
        if let Some(limit) = found.limit(GPUMEM)? {
            if limit < mib {
                let name = &found.name;
                return Err(format!(
                    "Highwater: container {name} may need {mib} MiB of GPU memory, and its {GPUMEM} is {limit}."
                ));
            }
            return none;
        }
        let path = format!("/spec/containers/{container}/resources");
        let mut resources = self.object.pointer(&path).cloned().unwrap_or_else(|| json!({}));
        for kind in ["limits", "requests"] {
            let listed = within(&mut resources, kind);
            *within(listed, GPUMEM) = json!(mib.to_string());
            let gpus = within(listed, GPU);
            if gpus.is_null() {
                *gpus = json!("1");
            }
        }
        Ok(vec![json!({"op": "add", "path": path, "value": resources})])
    }

    /// Gives a container a slice with this profile instead of a whole GPU.
    pub(super) fn with_slice(&self, container: usize, profile: &str) -> Result<Vec<Value>, String> {
        if self.gpus(container)? > 1 {
            return Err("Highwater: a pod of several GPUs gets no slice.".to_owned());
        }
        let path = format!("/spec/containers/{container}/resources");
        let mut resources = self.object.pointer(&path).cloned().unwrap_or_else(|| json!({}));
        for kind in ["limits", "requests"] {
            let listed = within(&mut resources, kind);
            *within(listed, &[MIG, profile].concat()) = json!("1");
            if let Some(listed) = listed.as_object_mut() {
                listed.remove(GPU);
            }
        }
        Ok(vec![json!({"op": "add", "path": path, "value": resources})])
    }

    /// Requires nodes whose GPUs have this memory.
    pub(super) fn with_memory_label(&self, mib: u64) -> Vec<Value> {
        // `Gt` is the only comparison that there is.
        let least = mib.saturating_sub(1).to_string();
        let enough = json!({"key": MEMORY, "operator": "Gt", "values": [least]});
        let mut terms = terms(&self.object).cloned().unwrap_or_default();
        if terms.is_empty() {
            terms.push(json!({}));
        }
        for term in &mut terms {
            let found = within(term, "matchExpressions");
            let mut expressions = found.as_array().cloned().unwrap_or_default();
            if !expressions.contains(&enough) {
                expressions.push(enough.clone());
            }
            *found = expressions.into();
        }
        let mut affinity =
            self.object.pointer("/spec/affinity").cloned().unwrap_or_else(|| json!({}));
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let required = within(within(&mut affinity, "nodeAffinity"), required);
        *within(required, "nodeSelectorTerms") = terms.into();
        vec![json!({"op": "add", "path": "/spec/affinity", "value": affinity})]
    }

    /// Records the answer in an annotation, where `kubectl describe` shows it.
    pub(super) fn with_answer(answer: &str) -> Value {
        let path = format!("/metadata/annotations/{}answer", PREFIX.replace('/', "~1"));
        json!({"op": "add", "path": path, "value": answer})
    }
}

/// Alternatives of the nodes that a pod requires.
fn terms(object: &Value) -> Option<&Vec<Value>> {
    let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    object.pointer(path)?.as_array()
}

/// The value of a key, which is null where it was missing.
fn within<'v>(value: &'v mut Value, key: &str) -> &'v mut Value {
    if !value.is_object() {
        *value = json!({});
    }
    &mut value[key]
}

fn listed(devices: &str) -> Vec<String> {
    devices.split(',').map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).collect()
}

/// The id of a product, such as `NVIDIA-A100-SXM4-80GB` or `Tesla-T4-SHARED`.
fn id_of(product: &str) -> Result<String, String> {
    let name = product.trim_end_matches("-SHARED").replace('-', " ");
    match device::typed(&name) {
        Ok(device) => Ok(device.id.to_owned()),
        Err(error) => Err(format!("its nodes have {product}: {error}")),
    }
}
