"""The same run by transformers' own `Trainer`: its loop, its collator's batch, its clipping."""

import tempfile
from pathlib import Path
from typing import Any

import torch

from truth.loop import Loop


class TrainerLoop(Loop):
    """A model, and the Trainer that trains it; the phases are marked where it enters them."""

    def prepare_batch(self):
        """Nothing is on the device before the Trainer moves it."""
        return (), torch.empty(0)

    def run(self) -> None:
        """As many optimizer steps as there are iterations."""
        from transformers import Trainer, TrainingArguments

        chosen, loop = self.chosen, self
        length = chosen.seq or 512

        class Texts(torch.utils.data.Dataset):
            def __len__(self) -> int:
                return 64 * chosen.batch * chosen.accumulate

            def __getitem__(self, _: int) -> dict[str, torch.Tensor]:
                return {name: torch.zeros(length, dtype=torch.long) for name in ('input_ids', 'labels')}

        arguments = TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=chosen.batch,
            gradient_accumulation_steps=chosen.accumulate,
            max_steps=chosen.iters,
            max_grad_norm=0.0 if chosen.clip == 0 else chosen.clip or 1.0,
            bf16=chosen.amp == 'bfloat16',
            fp16=chosen.amp == 'float16',
            report_to=[],
            save_strategy='no',
            logging_strategy='no',
        )

        class Marked(Trainer):
            """Says which phase begins."""

            def get_batch_samples(self, *given: Any, **named: Any) -> Any:
                loop.begin()
                return super().get_batch_samples(*given, **named)

            def training_step(self, *given: Any, **named: Any) -> Any:
                loop.enter('forward')
                return super().training_step(*given, **named)

            def create_optimizer(self, *given: Any, **named: Any) -> Any:
                self.optimizer = loop.optimizer if chosen.opt != 'trainer' else super().create_optimizer()
                return self.optimizer

            def create_accelerator_and_postprocess(self) -> None:
                super().create_accelerator_and_postprocess()
                backward = self.accelerator.backward

                def marked(*given: Any, **named: Any) -> Any:
                    loop.enter('backward')
                    backward(*given, **named)
                    loop.enter('optimizer')

                self.accelerator.backward = marked

        with self.tagger or open('/dev/null'):
            trainer = Marked(model=self.model, args=arguments, train_dataset=Texts())
            trainer.train()
            self.finish()
        torch.cuda.synchronize()

    def begin(self) -> None:
        """The next iteration begins, or the first."""
        self.finish()
        self.peaks.append({})
        self.enter('zero_grad')

    def finish(self) -> None:
        """An iteration has ended, if one was under way."""
        if self.peaks:
            self.leave()
            self.mark(len(self.peaks), 'end')
            if self.tagger:
                self.owners[len(self.peaks)] = self.find_owners()

    def enter(self, name: str) -> None:
        """A phase of the iteration that is under way."""
        self.leave()
        self.under_way = name
        self.mark(len(self.peaks), name)
        torch.cuda.reset_peak_memory_stats()

    def leave(self) -> None:
        """Keeps the peaks of the phase that ends."""
        from truth.loop import statistics

        if name := getattr(self, 'under_way', None):
            now = statistics()
            before = self.peaks[-1].get(name, now)
            self.peaks[-1][name] = {key: max(now[key], before[key]) for key in now}
        self.under_way = None
