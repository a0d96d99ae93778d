//! A mixture of experts: `MixtralSparseMoeBlock`, its experts run by `grouped_mm_experts_forward`
//! (transformers 5.23, `integrations/moe.py`).

use super::model::Model;
use super::parts::Act;
use super::program::{Program, Tensor, signed};
use super::settings::Settings;
use crate::error::Error;
use crate::graph::Attribute;

/// Feed-forward parts beside each other, and the router that picks some for each token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Experts {
    width: u64,
    hidden: u64,
    /// COUNT: experts, and those that a token passes through.
    count: u64,
    picked: u64,
    act: Act,
}

impl Experts {
    pub(super) fn of(
        c: Settings<'_>,
        m: &mut Model,
        [width, hidden]: [u64; 2],
        act: Act,
    ) -> Result<Self, Error> {
        let count = c.count(&["num_local_experts", "num_experts"], 8)?;
        let picked = c.count(&["num_experts_per_tok"], 2)?;
        if picked > count {
            return Err(c.fault("num_experts_per_tok", "there are fewer experts"));
        }
        if c.number(&["router_jitter_noise"], 0.0) > 0.0 || c.flag(&["output_router_logits"], false)
        {
            m.say(
                "not-followed",
                "noise at the router and its auxiliary loss are not followed: they take some KiB \
                 per token more",
            );
        }
        m.say(
            "assumed-experts",
            "experts are taken to run as grouped products (`grouped_mm`, the default of \
             transformers 5 from compute capability 8.0 on): what is allocated does not depend on \
             how tokens spread over experts; earlier versions loop over experts, where it does",
        );
        Ok(Self { width, hidden, count, picked, act })
    }

    /// `MixtralTopKRouter`, `MixtralExperts`.
    pub(super) fn register(&self, p: &mut Program) {
        p.within("gate", |p| p.parameter("weight", &[self.count, self.width]));
        p.within("experts", |p| {
            let double = self.hidden.saturating_mul(2);
            p.parameter("gate_up_proj", &[self.count, double, self.width]);
            p.parameter("down_proj", &[self.count, self.width, self.hidden]);
        });
    }

    pub(super) fn forward(&self, p: &mut Program, x: Tensor) -> Tensor {
        let shape = p.shape_of(x);
        let rows = p.reshape(x, &[-1, signed(self.width)]);
        p.bind("hidden_states", rows);
        let [logits, weights, picks] = p.module("gate", |p| self.route(p, rows));
        p.bind("_", logits);
        p.bind("top_k_weights", weights);
        p.bind("top_k_index", picks);
        let y = p.module("experts", |p| self.run(p, rows, weights, picks));
        let y = p.bind("hidden_states", y);
        p.op("Reshape", &[y, shape])
    }

    /// Scores of all experts for each token; weights and numbers of those that it passes through.
    fn route(&self, p: &mut Program, x: Tensor) -> [Tensor; 3] {
        let logits = p.product(x);
        p.bind("router_logits", logits);
        let wide = p.float(logits);
        let probabilities = p.softmax(wide);
        p.bind("router_probs", probabilities);
        let picked = p.ints(&[signed(self.picked)]);
        let [values, picks] =
            p.run("TopK", &[probabilities, picked], &[("axis", Attribute::Int(-1))]);
        p.bind("router_indices", picks);
        let axes = p.ints(&[-1]);
        let sum = p.with("ReduceSum", &[values, axes], "keepdims", 1);
        let [values] = p.run("Div", &[values, sum], &[("in_place", Attribute::Int(1))]);
        [logits, p.bind("router_top_value", values), picks]
    }

    /// `grouped_mm_experts_forward`.
    fn run(&self, p: &mut Program, x: Tensor, weights: Tensor, picks: Tensor) -> Tensor {
        let weights = p.reshape(weights, &[-1]);
        let picks = p.reshape(picks, &[-1]);
        let [sorted, order] = p.run("torch.Sort", &[picks], &[]);
        p.bind("expert_ids_g", sorted);
        p.bind("perm", order);
        let each = p.int(signed(self.picked));
        let tokens = p.op("Div", &[order, each]);
        let selected = p.op("torch.TableRows", &[x, tokens]);
        p.bind("selected_hidden_states_g", selected);
        let weights = p.op("torch.TableRows", &[weights, order]);
        p.bind("sample_weights_g", weights);
        let [numbers, histogram, ends] =
            p.run("torch.GroupEnds", &[sorted], &[("experts", Attribute::Int(signed(self.count)))]);
        p.bind("histc_input", numbers);
        p.bind("tokens_per_expert", histogram);
        p.bind("offsets", ends);
        let weight = p.get("gate_up_proj");
        let y = p.op("torch.GroupedMm", &[selected, weight, ends]);
        let y = p.bind("proj_out", y);
        let y = p.function(|p| {
            let [gate, up] = p.split(y, [self.hidden; 2], -1);
            let gate = self.act.call(p, "act_fn", gate);
            p.mul(gate, up)
        });
        let y = p.bind("proj_out", y);
        let weight = p.get("down_proj");
        let y = p.op("torch.GroupedMm", &[y, weight, ends]);
        let y = p.bind("proj_out", y);
        let weights = p.unsqueeze(weights, -1);
        let y = p.mul(y, weights);
        let y = p.bind("weighted_out", y);
        let back = p.op("torch.InverseOrder", &[order]);
        p.bind("inv_perm", back);
        let y = p.op("torch.TableRows", &[y, back]);
        let y = p.bind("weighted_out", y);
        let y = p.reshape(y, &[-1, signed(self.picked), signed(self.width)]);
        let axes = p.ints(&[1]);
        let y = p.with("ReduceSum", &[y, axes], "keepdims", 0);
        let y = p.bind("final_hidden_states", y);
        p.op("CastLike", &[y, x])
    }
}
