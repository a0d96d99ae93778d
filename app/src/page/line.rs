//! The line to the worker: what was sent, what waits to be sent, and what is open.

use gloo::render::AnimationFrame;
use highwater_core::Config;
use wasm_bindgen::prelude::*;
use web_sys::Worker;

use crate::model::input::Input;
use crate::model::protocol::{self, Largest, ToWorker};

/// What the engine remembers of the worker; the user never sees it.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is about another thing that was sent")]
pub(super) struct Line {
    pub(super) worker: Option<Worker>,
    pub(super) ready: bool,
    pub(super) generation: u64,
    /// The request that the worker is busy with.
    pub(super) under_way: Option<Request>,
    /// What to open as soon as the worker is free.
    pub(super) open_next: Option<Opening>,
    /// What to estimate as soon as the worker is free.
    pub(super) estimate_next: Option<Wanted>,
    /// The event that the worker is looking at.
    pub(super) looking: Option<usize>,
    /// The event to look at as soon as it has answered.
    pub(super) look_next: Option<usize>,
    pub(super) frame: Option<AnimationFrame>,
    /// The newest input that opened, and what was wanted of it that had an answer.
    pub(super) good: Option<(Input, Wanted)>,
    /// The text of that input, if it has one.
    pub(super) good_text: Option<String>,
    /// The example on the page whose answer travelled with it, with its largest batches: the worker has not opened it yet.
    pub(super) lacks: Option<Box<(Opening, Largest)>>,
    /// Messages that wait until the worker has what is on the page.
    pub(super) held: Vec<ToWorker>,
    /// Whether the worker has begun with the request that was sent last.
    pub(super) has_begun: bool,
    /// Whether the worker lacks the model that is on the page: it has replaced one that was busy.
    pub(super) is_bare: bool,
    /// Whether what the first answer does not need has been asked for.
    pub(super) has_rest: bool,
    /// Whether the models that need no file have been asked for.
    pub(super) has_names: bool,
    /// COUNT: workers that died since the user last asked for something.
    pub(super) deaths: usize,
    /// The settings that the user has chosen for models before this one; else the defaults.
    pub(super) own: Config,
    /// The settings as what is open brought them: itself, a message about it, a recipe, a link. They end with it.
    pub(super) brought: Config,
}

/// A request to the worker.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Open(Box<Opening>),
    /// Open what is answered on the page already.
    CatchUp,
    Estimate(Box<Wanted>),
}

/// What an estimate is wanted for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) config: Config,
    /// Which reading of a recorded run.
    pub(super) reading: usize,
}

/// An input on its way in.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    pub(super) input: Input,
    pub(super) config: Config,
    /// The settings that it is to have, whatever it suggests itself.
    pub(super) wanted: Option<Config>,
    /// What the user has chosen before; nothing where that stays as it is.
    pub(super) own: Option<Config>,
    pub(super) by: By,
}

/// How an input came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A file was chosen or dropped.
    File,
    /// A text was pasted or dropped, or begun: one that is no model is shown in the editor.
    Text,
    /// The text in the editor has changed.
    Typing,
    /// The page opens it to show what an answer looks like.
    Page,
    /// Opened once more after a crash, not because the user asked.
    Restart,
}

impl Opening {
    pub(super) fn again(input: Input, good: Wanted) -> Self {
        Self { input, config: good.config, wanted: None, own: None, by: By::Restart }
    }
}

impl Line {
    /// Opens the model on the page again where the worker lacks it, and nothing came in its place.
    pub(super) fn bring_back(&mut self, by: By) {
        if self.is_bare && by != By::Restart && self.open_next.is_none() {
            self.open_next = self.good.clone().map(|(input, good)| Opening::again(input, good));
        }
    }

    /// Ends the worker, and what it was busy with.
    pub(super) fn stop_worker(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.terminate();
        }
        self.ready = false;
        self.under_way = None;
        self.looking = None;
        self.has_names = false;
    }

    /// Sends a message as soon as the worker listens and has what is on the page.
    pub(super) fn send(&mut self, message: ToWorker) {
        if self.ready && self.lacks.is_none() && self.held.is_empty() {
            self.post(&message, &JsValue::NULL);
        } else {
            self.held.push(message);
        }
    }

    /// Sends what was held.
    pub(super) fn send_held(&mut self) {
        for message in std::mem::take(&mut self.held) {
            self.post(&message, &JsValue::NULL);
        }
    }

    pub(super) fn post(&self, message: &ToWorker, attached: &JsValue) {
        let packed = protocol::pack(message, attached);
        if let (Some(worker), Some((data, transfer))) = (&self.worker, packed) {
            // Fails only for values that cannot be cloned; files and bytes always can.
            drop(worker.post_message_with_transfer(&data, &transfer));
        }
    }

    /// The request that has just been answered, unless the page was closed meanwhile.
    pub(super) fn answered(&mut self, generation: u64) -> Option<Request> {
        let request = self.under_way.take();
        request.filter(|_| generation == self.generation)
    }
}
