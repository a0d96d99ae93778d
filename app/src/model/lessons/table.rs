//! The texts of all lessons. The page gives the lessons, and `xtask` makes a page of documentation from each: it
//! includes this file, which therefore uses nothing of this crate.

/// One lesson.
#[derive(Debug)]
pub(crate) struct Lesson {
    /// Stable name, as in `?lesson=second-step`.
    pub(crate) id: &'static str,
    /// What it answers.
    pub(crate) title: &'static str,
    /// Its model, a layer spec or the name of a published one.
    pub(crate) model: &'static str,
    /// Its steps, at least one.
    pub(crate) steps: &'static [Step],
}

/// One step of a lesson.
#[derive(Debug)]
pub(crate) struct Step {
    /// The model from this step on, where it is another one: a layer spec, or a name.
    pub(crate) model: Option<&'static str>,
    /// What there is to know before.
    pub(crate) text: &'static str,
    /// Settings other than the defaults, named as on the command line; those of open dimensions begin
    /// with `dim:`.
    pub(crate) settings: &'static [(&'static str, &'static str)],
    /// What is to be guessed.
    pub(crate) ask: Option<Ask>,
    /// What there is to see then; its parts are those of [`parts`].
    pub(crate) reveal: &'static str,
    /// Iteration that the timeline shows while one guesses; its sizes are hidden where it is all of them.
    pub(crate) guessing: Option<usize>,
    /// Iteration that the timeline shows.
    pub(crate) iteration: Option<usize>,
    /// The part of the page that it is about, as a selector; empty for none.
    pub(crate) about: &'static str,
}

/// A size to guess.
#[derive(Debug)]
pub(crate) struct Ask {
    /// The question.
    pub(crate) question: &'static str,
    /// SIZE: the largest that can be guessed, in MiB.
    pub(crate) most_mib: u64,
    /// The answer.
    pub(crate) of: Asked,
}

/// What of a report is to be guessed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    /// The most that activations take.
    Activations,
    /// The peak of the second iteration.
    Second,
    /// The peak of reserved memory.
    Reserved,
    /// The peak of allocated memory.
    Allocated,
    /// Parameters, gradients and the optimizer's state.
    Trained,
}

const PERCEPTRON: &str = "\
name: perceptron
input: [N, 1024]
dims: {N: 4096}
layers:
  - repeat: 4
    block:
      - linear: 1024
      - relu
  - linear: 10
";

const LANGUAGE_MODEL: &str = "\
name: small-gpt
input: {tokens: [N, L]}
dims: {N: 8, L: 512}
layers:
  - {name: wte, embedding: {vocab: 8192, dim: 512}}
  - name: h
    repeat: 8
    block:
      - transformer_block: {heads: 8, causal: true}
  - {name: ln, layernorm: }
  - {name: head, linear: {out: 8192, bias: false}}
";

const CONVOLUTIONS: &str = "\
name: odd-sizes
input: [N, 3, 64, 64]
dims: {N: 32}
layers:
  - conv2d: {out: 24, k: 3, p: 1}
  - relu
  - conv2d: {out: 40, k: 3, p: 1}
  - relu
  - maxpool2d: 2
  - conv2d: {out: 56, k: 3, p: 1}
  - relu
  - global_avgpool
  - flatten
  - linear: 10
";

/// All lessons, the tour first.
pub(crate) const LESSONS: &[Lesson] = &[
    Lesson {
        id: "tour",
        title: "A tour of the page",
        model: LANGUAGE_MODEL,
        steps: &[
            Step {
                model: None,
                text: "The answer is at the top: what the run needs, where it peaks, and which GPUs it fits on. It follows every setting at once.",
                settings: &[],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".headline",
            },
            Step {
                model: None,
                text: "Drag the batch, and see how the answer and the picture change. Precision, optimizer and device are below; the training loop is under “How it trains”.",
                settings: &[],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".settings",
            },
            Step {
                model: None,
                text: "Memory over three iterations: forward climbs, backward falls, the optimizer steps. The line above is what PyTorch has taken from the GPU. Move over it, or use the arrow keys; a click pins a moment.",
                settings: &[],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".timeline",
            },
            Step {
                model: None,
                text: "Every GPU, with what it needs there and the largest batch. Choose one, and everything is computed for it.",
                settings: &[],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".gpu-strip",
            },
            Step {
                model: None,
                text: "The assumptions at the end list everything that was recognised, assumed or omitted.",
                settings: &[],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".rests-on",
            },
        ],
    },
    Lesson {
        id: "saved-for-backward",
        title: "What is kept for the backward pass?",
        model: PERCEPTRON,
        steps: &[
            Step {
                model: None,
                text: "Four linear layers, 1024 wide, each with a ReLU, and a batch of 4096 rows. The weights take {parameters}. The backward pass needs what the forward pass computed.",
                settings: &[("optimizer", "sgd")],
                ask: Some(Ask {
                    question: "How much do activations take when there are most of them?",
                    most_mib: 256,
                    of: Asked::Activations,
                }),
                reveal: "{activations}. One row of 1024 numbers takes 4 KiB, a batch of them 16 MiB, and each ReLU's result is kept once: for its own backward and for the layer behind it. What the linear layer gave to the ReLU is not kept, because nobody needs it again.",
                guessing: None,
                iteration: Some(1),
                about: ".timeline",
            },
            Step {
                model: None,
                text: "Now the batch is twice as large: 8192 rows.",
                settings: &[("optimizer", "sgd"), ("dim:N", "8192")],
                ask: Some(Ask {
                    question: "How much do activations take now?",
                    most_mib: 512,
                    of: Asked::Activations,
                }),
                reveal: "{activations}: activations grow with the batch. Parameters ({parameters}) and gradients ({gradients}) do not depend on it.",
                guessing: None,
                iteration: Some(1),
                about: ".timeline",
            },
        ],
    },
    Lesson {
        id: "second-step",
        title: "Why is Adam's second iteration the peak?",
        model: PERCEPTRON,
        steps: &[
            Step {
                model: None,
                text: "A multilayer perceptron, trained with AdamW. Its first iteration peaks at {first}. The second does exactly the same work on another batch.",
                settings: &[],
                ask: Some(Ask {
                    question: "How high is the peak of the second iteration?",
                    most_mib: 400,
                    of: Asked::Second,
                }),
                reveal: "{second}. Adam makes its two moments in its first step, {state} of them, when the activations are gone. From then on they stay, and the next forward climbs on top of them. A run that survives the first iteration can fail in the second.",
                guessing: Some(1),
                iteration: None,
                about: ".timeline",
            },
            Step {
                model: None,
                text: "Plain SGD keeps nothing between its steps.",
                settings: &[("optimizer", "sgd")],
                ask: Some(Ask {
                    question: "How high is the peak of the second iteration now?",
                    most_mib: 400,
                    of: Asked::Second,
                }),
                reveal: "{second}, as in the first: {first}.",
                guessing: Some(1),
                iteration: None,
                about: ".timeline",
            },
        ],
    },
    Lesson {
        id: "reserved",
        title: "Why does PyTorch hold more than tensors need?",
        model: CONVOLUTIONS,
        steps: &[Step {
            model: None,
            text: "Three convolutions over small pictures. Tensors take {allocated} at most. PyTorch does not ask the GPU for each of them: it takes larger segments and cuts blocks from them, because asking is slow.",
            settings: &[],
            ask: Some(Ask {
                question: "How much has PyTorch taken from the GPU in the end?",
                most_mib: 400,
                of: Asked::Reserved,
            }),
            reveal: "{reserved}, which is {unused} more. Small tensors share segments of 2 MiB, larger ones lie in segments of 20 MiB or of their own size, and a segment stays even when nothing is in it. The line above the picture is this; nvidia-smi shows it, and the CUDA context on top.",
            guessing: None,
            iteration: None,
            about: ".timeline",
        }],
    },
    Lesson {
        id: "checkpointing",
        title: "What does checkpointing trade?",
        model: LANGUAGE_MODEL,
        steps: &[Step {
            model: None,
            text: "A small GPT of eight blocks. Without checkpointing, everything that its blocks compute waits for the backward pass, and memory peaks at 1.90 GiB. With it, each block keeps its input only, and runs once more when backward reaches it.",
            settings: &[("checkpoint", "blocks")],
            ask: Some(Ask {
                question: "How high is the peak with checkpointing?",
                most_mib: 2048,
                of: Asked::Allocated,
            }),
            reveal: "{allocated}. Look at the backward: small teeth, each one block that is computed again and gone. The price is one more forward, about a third more time. What is left is the loss over 8192 words, which no checkpointing of blocks touches.",
            guessing: None,
            iteration: Some(2),
            about: ".timeline",
        }],
    },
    Lesson {
        id: "mixed-precision",
        title: "What does mixed precision halve?",
        model: LANGUAGE_MODEL,
        steps: &[
            Step {
                model: None,
                text: "The small GPT again, in float32: memory peaks at 1.90 GiB. Under autocast, matrix products run in bfloat16: two bytes for a number in place of four.",
                settings: &[("precision", "amp-bf16")],
                ask: Some(Ask {
                    question: "How high is the peak with autocast?",
                    most_mib: 2048,
                    of: Asked::Allocated,
                }),
                reveal: "{allocated}, more than half. What matrix products return takes half as much. Layer norms and the loss still compute in float32 and keep what they need in it, and until the forward ends there is a bfloat16 copy of each weight.",
                guessing: None,
                iteration: Some(2),
                about: ".timeline",
            },
            Step {
                model: None,
                text: "What is trained is something else: parameters, their gradients, and Adam’s two moments. In float32 they take {parameters}, {gradients} and {state}.",
                settings: &[],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: Some(2),
                about: ".timeline",
            },
            Step {
                model: None,
                text: "And now with autocast again. Each gradient has the type of its parameter, and each moment, too.",
                settings: &[("precision", "amp-bf16")],
                ask: Some(Ask {
                    question: "How much do parameters, gradients and moments take together now?",
                    most_mib: 1024,
                    of: Asked::Trained,
                }),
                reveal: "Exactly as much: {parameters}, {gradients} and {state}. Autocast casts what kernels read, and not what is trained. A model whose parameters and moments alone are too large does not fit with it either; that needs another optimizer, LoRA, or parameters in bfloat16.",
                guessing: None,
                iteration: Some(2),
                about: ".timeline",
            },
        ],
    },
    Lesson {
        id: "fragmentation",
        title: "Fragmentation, step by step",
        model: CONVOLUTIONS,
        steps: &[
            Step {
                model: None,
                text: "The same convolutions. At the peak, tensors take {allocated} of {reserved}: the rest lies in holes between them, or in segments that nobody uses at that moment.",
                settings: &[],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".segment-map",
            },
            Step {
                model: None,
                text: "A hole serves a tensor only if it is large enough, and memory is never moved together. So a request may need a new segment although enough is free in all.",
                settings: &[],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".segment-map",
            },
            Step {
                model: None,
                text: "Now the GPU is small: CUDA and this run together get 650 MiB of an A100, less than the run would like to reserve.",
                settings: &[("capacity", "681574400")],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".headline",
            },
            Step {
                model: None,
                text: "It survives: when the GPU has no memory left, PyTorch releases all empty segments and tries again. That costs time, and helps only against empty segments, not against holes.",
                settings: &[("capacity", "681574400")],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".gpu-strip",
            },
        ],
    },
    Lesson {
        id: "other-estimators",
        title: "Why do estimators differ?",
        model: "highwater model resnet50",
        steps: &[
            Step {
                model: None,
                text: "Estimators differ by what they look at. This is ResNet-50 in batches of 32, trained with SGD and momentum. Formulas take the sizes of layers, FakeTensor follows the tensors of one pass, xMem and Highwater rebuild what PyTorch’s allocator does.",
                settings: &[("device", "a100-40gb"), ("dim:batch", "32")],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".others",
            },
            Step {
                model: None,
                text: "With Adam, somebody has measured this run: the line marked “measured” is what its process took from an A100. That is tensors, what the allocator holds on top, and the CUDA context. Whoever counts tensors alone lies below it. Horus lies far above: it counts the gradients of all weights once for each picture.",
                settings: &[("optimizer", "adam"), ("device", "a100-40gb"), ("dim:batch", "32")],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".others",
            },
            Step {
                model: None,
                text: "Now the batch is four times as large. What counts activations grows with it; what counts parameters only (accelerate, ZeRO) does not move. The lines are what GPUs have: an estimate on the wrong side of one is a wrong answer to the question whether the run fits.",
                settings: &[("optimizer", "adam"), ("device", "a100-40gb"), ("dim:batch", "128")],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".others",
            },
            Step {
                model: Some("highwater model gpt2"),
                text: "This is GPT-2, 8 texts of 512 words. Now the calculators for transformers answer, too. Each assumes a training of its own: LLMem half precision and blocks that run twice, Megatron-LM fused attention and 18 bytes per parameter. None of them knows how you train; read what they leave out before you believe a figure.",
                settings: &[("device", "a100-40gb"), ("dim:batch", "8"), ("dim:seq", "512")],
                ask: None,
                reveal: "",
                guessing: None,
                iteration: None,
                about: ".others",
            },
        ],
    },
];
