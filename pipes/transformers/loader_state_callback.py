"""`LoaderStateCallback`: a callback that puts the state of the loader into the checkpoints of Transformers' Trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ArgumentTypeError
from ..loader import Loader, gather_state
from ..loading.state import State

if TYPE_CHECKING:

    class TrainerCallback:
        """Transformers' base class of callbacks."""

    class ExportableState:
        """Transformers' base class of entries of `trainer_state.json`."""

else:
    from transformers import TrainerCallback
    from transformers.trainer_callback import ExportableState


class LoaderStateCallback(TrainerCallback, ExportableState):
    """Makes a resumed Trainer continue at the position in the data at which the checkpoint was saved.

    Without it, the Trainer counts its steps, and `PreparedLoader` skips as many elements. A stream reads them for that.
    If `steps=` ends an epoch in the middle of the data, a resumed run does not find the position.

    The states of all ranks are in `trainer_state.json`, so the run may continue with another number of processes. If
    a checkpoint has none, elements are skipped. With `ignore_data_skip` the epoch starts again.

    Raises:
        ArgumentTypeError: the Trainer does not train on a `PreparedLoader`.

    Example:
        from feedpipe.accelerate import PreparedLoader
        from feedpipe.transformers import LoaderStateCallback
        from transformers import Trainer

        class FeedTrainer(Trainer):
            def get_train_dataloader(self):
                return PreparedLoader(self.train_dataset)

        trainer = FeedTrainer(model, arguments, train_dataset=loader, callbacks=[LoaderStateCallback()])
        trainer.train(resume_from_checkpoint=True)
    """

    def __init__(self) -> None:
        self.loader_state: State | None = None
        self.global_step = 0  # at which it was taken

    def state(self) -> dict[str, Any]:
        """Return the entry of this callback in `trainer_state.json`."""
        return {"args": {}, "attributes": {"loader_state": self.loader_state, "global_step": self.global_step}}

    def on_train_begin(
        self, args: Any, state: Any, control: Any, *, train_dataloader: object, **others: object
    ) -> None:
        """Load the state, if the Trainer resumes from a checkpoint that has one."""
        saved = state.stateful_callbacks.setdefault(type(self).__name__, self.state())["attributes"]
        loader = _loader(train_dataloader)
        if state.global_step > 0 and saved["global_step"] == state.global_step and not args.ignore_data_skip:
            loader.load_state_dict(saved["loader_state"])

    def on_step_end(self, args: object, state: Any, control: Any, **others: object) -> None:
        """Gather the states of all ranks, if a checkpoint may follow."""
        # An evaluation may show that the model is the best one yet, which is then saved.
        if control.should_save or control.should_evaluate:
            self.loader_state = gather_state(_loader(others["train_dataloader"]))
            self.global_step = state.global_step

    on_epoch_end = on_step_end


def _loader(train_dataloader: object) -> Loader[Any]:
    loader = getattr(train_dataloader, "loader", None)  # of a `PreparedLoader`
    if not isinstance(loader, Loader):
        raise ArgumentTypeError(
            "`get_train_dataloader` must return a feedpipe.accelerate.PreparedLoader for this callback but returned: "
            f"{train_dataloader!r}"
        )
    return loader
