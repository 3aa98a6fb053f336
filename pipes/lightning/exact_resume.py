"""`ExactResume`: a callback that saves the right states of loaders in Lightning's checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from ..errors import StateError
from ..loader import Loader, gathered, state_before
from ..loading.state import State

if TYPE_CHECKING:
    Callback: TypeAlias = object
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback


Trainer: TypeAlias = Any
"""A trainer of Lightning."""
Trained: TypeAlias = dict[int, tuple[Loader[Any], State]]
"""Loaders and their states, by their place among the loaders that have a state."""


class ExactResume(Callback):
    """Makes a Lightning run that is resumed from a checkpoint train on each row of an epoch once.

    Without it, a checkpoint holds the states of loaders as they are when it is written. Lightning takes an element
    ahead of training if a length is not known, so a resume would lose that element. It keeps the state of the first
    rank only, which says nothing of the other ranks of a streamed pipe. And it loads no state from a checkpoint that
    was written after an epoch, so the loader would begin with epoch 0 again.

    With it, a checkpoint holds the states of all ranks at the step that was trained last. It may be written anywhere:
    in mid-epoch, in the middle of accumulated gradients, during or after a validation, after an epoch, an exception, or
    the end of `fit`. All ranks must save together, as they do with `trainer.save_checkpoint` and `ModelCheckpoint`. It
    looks after the feedpipe loaders that are trained on, and leaves others to Lightning.

    With `reload_dataloaders_every_n_epochs`, a new loader begins the epoch of the trainer, and not epoch 0 again. With
    `overfit_batches`, each epoch has the batches of epoch 0.

    `limit_train_batches` drops the rest of an epoch. Give `steps=` to the loader to train on it in the next one.
    If `max_steps` or `max_time` ends `fit` in mid-epoch, Lightning counts that epoch as complete. A resumed run begins
    Lightning's next epoch with the rest of the loader's.

    Raises:
        StateError: a checkpoint does not fit the loaders.
        RankError: a rank does not save with the others.

    Example:
        import feedpipe as fp
        from feedpipe.lightning import ExactResume
        from lightning import Trainer

        trainer = Trainer(callbacks=[ExactResume()])
        trainer.fit(model, fp.Loader(pipe, workers=4), ckpt_path="last.ckpt")
    """

    def __init__(self) -> None:
        self._loaded: list[Any] = []
        self._last: Trained = {}  # when training ended
        self._known: WeakSet[Loader[Any]] = WeakSet()

    def on_save_checkpoint(self, trainer: Trainer, pl_module: object, checkpoint: dict[str, Any]) -> None:
        """Replace the states of loaders in the checkpoint by those of the step that was trained last."""
        saved = checkpoint["loops"]["fit_loop"]["state_dict"].get("combined_loader")
        if saved:
            ended = trainer.fit_loop._data_fetcher is None
            for place, (loader, state) in (self._last if ended else _trained(trainer)).items():
                saved[place] = gathered(loader, state)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: object, checkpoint: dict[str, Any]) -> None:
        """Take the states of loaders out of the checkpoint, for `on_train_start`."""
        if trainer.state.fn == "fit":
            self._loaded = checkpoint["loops"]["fit_loop"]["state_dict"].pop("combined_loader", [])

    def on_train_start(self, trainer: Trainer, pl_module: object) -> None:
        """Load the states, and let the trainer take its first elements again."""
        self._known.update(_loaders(trainer))
        states, self._loaded = self._loaded, []
        if not states:
            return
        loaders = _stateful_loaders(trainer)
        if len(loaders) != len(states):
            raise StateError(
                f"the checkpoint has the states of {len(states)} loaders, and the trainer has {len(loaders)} that can "
                "load one; give it the loaders that it had when the checkpoint was written"
            )
        for loader, state in zip(loaders, states, strict=True):
            if isinstance(loader, Loader) and state["step"] >= trainer.num_training_batches:
                loader.set_epoch(state["epoch"] + 1)  # `limit_train_batches` drops the rest of the epoch
            else:
                loader.load_state_dict(state)
        iter(trainer.fit_loop._data_fetcher)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: object) -> None:
        """Let a loader that was made for this epoch begin the epoch of the trainer, unless it has begun another."""
        if trainer.overfit_batches:
            for loader in _loaders(trainer):
                loader.set_epoch(0)
            return
        for loader in _loaders(trainer) - {*self._known}:
            if loader.epoch == 0 < trainer.current_epoch:
                loader.set_epoch(trainer.current_epoch)
            self._known.add(loader)

    def on_train_end(self, trainer: Trainer, pl_module: object) -> None:
        """Keep the states: the trainer then drops the elements that it took ahead."""
        self._last = _trained(trainer)

    def on_exception(self, trainer: Trainer, pl_module: object, exception: BaseException) -> None:
        """Keep the states, as at the end of training."""
        if trainer.state.fn == "fit" and trainer.fit_loop._data_fetcher is not None:
            self._last = _trained(trainer)


def _trained(trainer: Trainer) -> Trained:
    """The states after the step that was trained last."""
    loop = trainer.fit_loop
    progress = loop.epoch_loop.batch_progress.current
    ahead = len(getattr(loop._data_fetcher, "batches", ())) + progress.ready - progress.processed
    loaders = enumerate(_stateful_loaders(trainer))
    return {place: (loader, state_before(loader, ahead)) for place, loader in loaders if isinstance(loader, Loader)}


def _loaders(trainer: Trainer) -> set[Loader[Any]]:
    return {loader for loader in _stateful_loaders(trainer) if isinstance(loader, Loader)}


def _stateful_loaders(trainer: Trainer) -> list[Any]:
    """The loaders that the trainer trains on and whose states it saves."""
    loaders = trainer.fit_loop._combined_loader.flattened
    return [loader for loader in loaders if hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")]
