//! Models of Keras, and models inside them: layers in the order in which they can run.

use std::collections::BTreeMap;

use super::super::spec::tree::fault;
use super::super::spec::{Body, Flow, Join, Layer, Module};
use super::layers::{Given, Part, Row};
use super::{Made, Node, Origin, called, get, list, nodes, origins, outputs};
use crate::error::Error;

/// COUNT: models inside each other, at most.
const DEPTH_MAX: usize = 8;

/// A call on its way: the names of what it reads, the first of them, and what they are.
struct Call<'c> {
    /// Its position among the layer's calls.
    index: usize,
    /// Name of its result.
    name: String,
    sources: &'c [String],
    flows: &'c [Flow],
    /// Name of the result before, which a layer reads unless it says otherwise.
    before: &'c str,
}

impl Row<'_> {
    /// Adds the layers of a model that is given `made`, and says what all of them make.
    pub(super) fn model(
        &mut self,
        nodes: &[Node<'_>],
        is_sequential: bool,
        mut made: Made,
    ) -> Result<Made, Error> {
        let inputs = nodes.iter().filter(|node| node.class == "InputLayer");
        let first = inputs.map(|node| node.name.clone()).next();
        let first = first.or_else(|| made.keys().next().cloned());
        let mut before = first.unwrap_or_default();
        let mut waiting: Vec<(&Node<'_>, usize)> = nodes
            .iter()
            .filter(|node| node.class != "InputLayer")
            .flat_map(|node| (0..node.calls.len().max(1)).map(move |call| (node, call)))
            .collect();
        while !waiting.is_empty() {
            let mut left = Vec::new();
            let count = waiting.len();
            for (node, index) in waiting {
                let origins = node.calls.get(index).map_or(&[][..], Vec::as_slice);
                if let Some(origin) = origins.iter().find(|origin| origin.result != 0) {
                    let message = say!(
                        "`{name}` reads result {result} of `{layer}`; only the first result of a layer is read here",
                        name = node.name,
                        result = origin.result,
                        layer = origin.layer
                    );
                    return Err(fault(node.place, message));
                }
                let sources: Vec<String> = if is_sequential || origins.is_empty() {
                    vec![before.clone()]
                } else {
                    origins.iter().map(Origin::name).collect()
                };
                let flows = sources.iter().map(|source| made.get(source).cloned());
                let Some(flows) = flows.collect::<Option<Vec<Flow>>>() else {
                    left.push((node, index));
                    continue;
                };
                let name = called(&node.name, index);
                let call = Call {
                    index,
                    name: name.clone(),
                    sources: &sources,
                    flows: &flows,
                    before: &before,
                };
                let y = self.layer(node, &call)?;
                if made.insert(name.clone(), y).is_some() {
                    return Err(fault(node.place, say!("two layers are called `{name}`", name)));
                }
                before = name;
            }
            if left.len() == count {
                let node = left.first().map(|(node, _)| *node);
                let (place, name) =
                    node.map_or_else(Default::default, |it| (it.place, it.name.clone()));
                return Err(fault(place, say!("nothing makes what `{name}` reads", name)));
            }
            waiting = left;
        }
        Ok(made)
    }

    /// Adds a layer, and says what comes out.
    fn layer(&mut self, node: &Node<'_>, call: &Call<'_>) -> Result<Flow, Error> {
        let given = Given(node);
        let (Some(source), Some(x)) = (call.sources.first(), call.flows.first()) else {
            return Err(given.fault(&say!("it reads nothing")));
        };
        let from = (source != call.before).then(|| source.clone());
        let join = match node.class.as_str() {
            "Add" | "Subtract" | "Average" | "Maximum" | "Minimum" => Some(Join::Add),
            "Multiply" => Some(Join::Mul),
            "Concatenate" => Some(Join::Concat),
            _ => None,
        };
        let push = |row: &mut Self, body: Body| {
            let layer = Layer { place: node.place, from: from.clone(), ..Layer::new(body) };
            row.layers.push(layer.named(call.name.clone()));
        };
        if let Some(join) = join {
            let dim = self.joined_along(&given, x);
            let y = self.draft.join(join, call.flows, dim, node.place)?;
            let with = call.sources.iter().skip(1).cloned().collect();
            push(self, Body::Join { join, with, dim });
            return Ok(y);
        }
        let (body, y) = if node.is_model() {
            self.nested(node, call)?
        } else {
            self.single(&given, call, source, x)?
        };
        // A layer's further calls are the same module.
        let body = if call.index == 0 {
            body
        } else {
            Body::Module(Module::new("again")?.with("layer", node.name.as_str())?)
        };
        push(self, body);
        Ok(y)
    }

    /// A layer that is no model, and what it makes.
    fn single(
        &mut self,
        given: &Given<'_, '_>,
        call: &Call<'_>,
        source: &str,
        x: &Flow,
    ) -> Result<(Body, Flow), Error> {
        let others = || call.sources.iter().zip(call.flows).skip(1);
        if let Some((other, flow)) = others().find(|(other, _)| *other != source) {
            if given.0.class != "MultiHeadAttention" {
                return Err(given.fault(&say!("several inputs are not read here")));
            }
            if others().any(|(name, _)| name != other) {
                return Err(given.fault(&say!("keys and values of two layers are not read here")));
            }
            self.draft.name(other, flow);
            self.context = Some(other.clone());
        }
        let mut part = Part { layers: Vec::new(), x: x.clone() };
        self.module(given, &mut part)?;
        self.own_activation(given, &mut part)?;
        let mut layers = part.layers;
        if layers.is_empty() {
            layers.push(Module::new("identity")?.into());
        }
        let body = match layers.as_slice() {
            [only] => only.body.clone(),
            _ => Body::Sequential(layers),
        };
        Ok((body, part.x))
    }

    /// A model inside this one: its inputs are what the call reads, under their own names.
    fn nested(&mut self, node: &Node<'_>, call: &Call<'_>) -> Result<(Body, Flow), Error> {
        let given = Given(node);
        self.depth = self.depth.saturating_add(1);
        if self.depth > DEPTH_MAX {
            return Err(given.fault(&say!(
                "models lie more than {depth_max} deep in each other",
                depth_max = DEPTH_MAX
            )));
        }
        let entries = get(node.config, "layers").map(list).unwrap_or_default();
        let inside = nodes(entries)?;
        let mut names = Vec::new();
        if let Some(inputs) = get(node.config, "input_layers") {
            let mut found = Vec::new();
            origins(inputs, &mut found);
            names.extend(found.into_iter().map(|origin| origin.layer));
        }
        if names.is_empty() {
            let inputs = inside.iter().filter(|node| node.class == "InputLayer");
            names.extend(inputs.map(|node| node.name.clone()));
        }
        if names.is_empty() {
            names.push("input".to_owned());
        }
        if names.len() != call.sources.len() {
            let (want, have) = (names.len(), call.sources.len());
            return Err(given.fault(&say!(
                "it has {want} inputs, and is given {have}",
                want,
                have
            )));
        }
        let outside = std::mem::take(&mut self.layers);
        let mut made: Made = BTreeMap::new();
        for (name, (source, flow)) in names.iter().zip(call.sources.iter().zip(call.flows)) {
            let layer = <Layer as From<Module>>::from(Module::new("identity")?).named(name.clone());
            // The first input is what the model itself reads.
            self.layers.push(if made.is_empty() { layer } else { layer.from(source.clone()) });
            made.insert(name.clone(), flow.clone());
        }
        let made = self.model(&inside, node.class == "Sequential", made)?;
        let returned = outputs(node.config, &self.layers, &made)?;
        let last = self.layers.last().and_then(|layer| layer.name.clone()).unwrap_or_default();
        let name = match returned.as_slice() {
            [] => last,
            [only] => {
                let layer = <Layer as From<Module>>::from(Module::new("identity")?).named("output");
                self.layers.push(layer.from(only.clone()));
                only.clone()
            }
            _ => {
                return Err(
                    given.fault(&say!("a model inside with several outputs is not read here"))
                );
            }
        };
        let y = made.get(&name).cloned().ok_or_else(|| given.fault(&say!("it is empty")))?;
        self.depth = self.depth.saturating_sub(1);
        let layers = std::mem::replace(&mut self.layers, outside);
        Ok((Body::Sequential(layers), y))
    }
}
