"""Decides what each rank of a distributed training run records. Either rank 0 alone writes
a file, or every rank writes its own fragment, or the ranks of a tensor-parallel group
write one file together.

Every wait for another rank has a time limit. Only the step's number decides whether a
step is recorded, so that all recording ranks take part in the same exchanges even after
a failure on one rank. Exchanges use a separate gloo group, so that they never mix with
the collectives of the training."""

from __future__ import annotations

import datetime
import os
import time
import uuid
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ._statistics import missing

# The longest time in seconds that a rank waits for another rank.
WAIT_SECONDS = 60.0

# Number of times that this process has opened a watch on each file name, minus 1;
# all ranks have the same numbers.
_n_watched: dict[str, int] = {}


def rank_and_world() -> tuple[int, int]:
    """Returns the rank and world size: from the process group if it exists, otherwise
    from torchrun's environment variables, otherwise (0, 1)."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    try:
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1
    return (rank, world) if 0 <= rank < world else (0, 1)


def fragment_path(path: str, rank: int) -> str:
    """Returns the path of a rank's file: run.db for rank 0, run.rank3.db for rank 3."""
    if rank == 0:
        return path
    stem, ending = os.path.splitext(path)
    return f"{stem}.rank{rank}{ending}"


def _limit() -> datetime.timedelta:
    return datetime.timedelta(seconds=WAIT_SECONDS)


def _key(path: str) -> str:
    """Returns the key under which a call of es.watch uses the process group's
    store. All ranks get the same key for the same call."""
    name = os.path.basename(path)  # each rank may have a different folder
    number = _n_watched[name] = _n_watched.get(name, -1) + 1
    return f"entropyscan/{name}/{number}"


def _store() -> Any:
    """Returns the process group's key-value store. Unlike a collective, it does not
    block if a rank does not take part."""
    return torch.distributed.distributed_c10d._get_default_store()


def _shared_uuid(key: str, rank: int) -> str:
    """Returns the uuid that rank 0 has chosen for the run."""
    store = _store()
    if rank == 0:
        store.set(key, str(uuid.uuid4()))
    else:
        store.wait([key], _limit())
    return store.get(key).decode()


def unwrapped(model: nn.Module) -> nn.Module:
    """Removes the wrappers of torch.compile, DDP and others from a model."""
    for name in ("_orig_mod", "module"):
        inner = getattr(model, name, None)
        if isinstance(inner, nn.Module) and len(list(model.children())) == 1:
            return unwrapped(inner)
    return model


def layer_numbers(model: nn.Module, names: list[str]) -> list[int | None]:
    """Returns the layer_idx of each module; None for modules without this attribute,
    such as modules from outside transformers."""
    found = []
    for name in names:
        number = getattr(model.get_submodule(name), "layer_idx", None)
        found.append(number if isinstance(number, int) else None)
    return found


class Ranks:
    """The role of this process in a distributed training run. path: the
    process' run file; has_file: true if the process writes a file;
    is_measuring: true if its attention is measured."""

    def __init__(
        self,
        path: str,
        all_ranks: bool,
        first_layer: int | None,
        first_head: int,
        tensor_parallel: Any,
    ) -> None:
        rank, world = rank_and_world()
        self.path = path
        self.has_file = rank == 0
        self.is_measuring = rank == 0
        self.fragment: dict[str, Any] | None = None
        self.uuid: str | None = None
        self.trouble: str | None = None
        self._first_layer = first_layer
        self._gather: Gather | None = None
        self.stop: Stop | None = None
        try:
            self._divide(rank, world, all_ranks, first_head, tensor_parallel)
        except Exception as error:
            what = " ".join(str(error).split()) or type(error).__name__
            self.trouble = f"{self.path}: the ranks do not record together: {what}"

    def _divide(
        self, rank: int, world: int, all_ranks: bool, head: int, group: Any
    ) -> None:
        ranks, key = [rank], _key(self.path)
        if world > 1 and torch.distributed.is_initialized():
            self.stop = Stop(key + "/stop", rank)
        if all_ranks and world > 1:
            self.path = fragment_path(self.path, rank)
            self.has_file = self.is_measuring = True
        if group is not None and world > 1:
            if hasattr(group, "get_group"):  # a DeviceMesh
                group = group.get_group()
            ranks = torch.distributed.get_process_group_ranks(group)
            self.has_file = rank == ranks[0] and (all_ranks or rank == 0)
            self.is_measuring = all_ranks or 0 in ranks
        if all_ranks and world > 1:
            self.fragment = {
                "world": world,
                "ranks": sorted(ranks),
                "layer": self._first_layer or 0,
                "head": int(head),
            }
            if not torch.distributed.is_initialized():
                raise RuntimeError(
                    "all_ranks needs an initialised process group: call "
                    "torch.distributed.init_process_group before es.watch"
                )
            self.uuid = _shared_uuid(key, rank)
        if self.is_measuring and len(ranks) > 1:
            self._gather = Gather(ranks, rank)

    @property
    def is_gathering(self) -> bool:
        return self._gather is not None

    def describe(self, run: dict[str, Any]) -> dict[str, Any]:
        """Adds the uuid that all ranks share, and the position of this rank's fragment,
        to the description of a run."""
        if self.uuid is not None:
            run["uuid"] = self.uuid
        if self.fragment is not None:
            # Keep a reference to self.fragment, because begin() later sets its first
            # layer.
            run["config"] = {**run.get("config", {}), "fragment": self.fragment}
        return run

    def begin(self, model: nn.Module, names: list[str]) -> None:
        """Sets the first layer of a pipeline stage, if its modules know their layer
        numbers in the whole model. names: the attention modules that were seen."""
        if self.fragment is None or self._first_layer is not None:
            return
        numbers = layer_numbers(model, names)
        first = numbers[0] if numbers else None
        if first is not None and numbers == [first + i for i in range(len(numbers))]:
            self.fragment["layer"] = first

    def gathered(
        self,
        phase: str,
        step: int,
        heads: dict[int, Tensor],
        n_heads: int | None,
        on_error: Callable[[BaseException], None],
    ) -> dict[int, Tensor] | None:
        """Returns the statistics of the heads that this rank records, including the
        heads of its tensor-parallel group; None if another rank records them."""
        if self._gather is not None:
            heads = self._gather.exchange(phase, step, heads, n_heads, on_error)
        return heads if self.has_file else None

    def leave(self) -> None:
        """Ends all exchanges with other ranks; called when an exception ends the
        training."""
        if self._gather is not None:
            self._gather.leave()


class Stop:
    """Makes all ranks stop after the same step. Once the training script has
    read should_stop, rank 0 publishes at each recorded step whether a stop has
    been requested, and the other ranks wait for this answer."""

    def __init__(self, key: str, rank: int) -> None:
        self._key, self._rank = key, rank
        self._since: int | None = None  # step at which rank 0 got its request
        self.is_wanted = False
        self.is_agreed = False

    def agree(self, step: int, is_requested: bool) -> None:
        """Publishes (rank 0) or reads (other ranks) the request to stop at the end of a
        recorded step. Raises RuntimeError if rank 0 does not answer within
        WAIT_SECONDS; later calls do not wait."""
        if not self.is_wanted:
            return
        if self._rank == 0:
            if is_requested and self._since is None:
                self._since = step
            since = -1 if self._since is None else self._since
            _store().set(self._key, f"{step} {since}")
        else:
            since = self._read(step)
        self.is_agreed = 0 <= since <= step

    def _read(self, step: int) -> int:
        """Waits until rank 0 has ended `step`. Returns the step at which rank 0
        received a request to stop; -1 if there is no request."""
        limit = time.monotonic() + WAIT_SECONDS
        self.is_wanted = False
        store = _store()
        store.wait([self._key], _limit())
        while True:
            done, since = map(int, store.get(self._key).split())
            if done >= step:
                self.is_wanted = True
                return since
            if time.monotonic() > limit:
                raise RuntimeError(
                    f"rank 0 did not end step {step} in time: should_stop stays false "
                    "on this rank"
                )
            time.sleep(0.001)


class Gather:
    """Collects the head statistics of all ranks in a tensor-parallel group, in the
    order of the ranks."""

    def __init__(self, ranks: list[int], rank: int) -> None:
        self._place, self._n = ranks.index(rank), len(ranks)
        self._widths: dict[int, int] = {}  # number of heads by rank of the group
        self._group: Any = torch.distributed.new_group(
            ranks,
            timeout=_limit(),
            backend="gloo",
            use_local_synchronization=True,
            group_desc="entropyscan",
        )

    def leave(self) -> None:
        self._group = None

    def exchange(
        self,
        phase: str,
        step: int,
        heads: dict[int, Tensor],
        n_heads: int | None,
        on_error: Callable[[BaseException], None],
    ) -> dict[int, Tensor]:
        """Returns the statistics of the heads of all ranks, as a dict with the
        modules' indices as keys. heads: a dict with the same keys, whose values
        are arrays (series, heads of this rank). After a failure the values of
        the other ranks' heads are missing."""
        mine = {place: found.numpy() for place, found in heads.items()}
        parts = {self._place: mine}
        if self._group is not None:
            try:
                parts = self._exchange(phase, step, mine)
            except Exception as error:
                self._group = None
                on_error(
                    RuntimeError(
                        "the heads of other ranks are missing from this step on: "
                        + " ".join(str(error).split())
                    )
                )
        found = {place for part in parts.values() for place in part}
        return {place: self._joined(parts, place, n_heads) for place in found}

    def _exchange(
        self, phase: str, step: int, mine: dict[int, Any]
    ) -> dict[int, dict[int, Any]]:
        out: list[Any] = [None] * self._n
        torch.distributed.all_gather_object(
            out, (self._place, phase, step, mine), group=self._group
        )
        for place, other_phase, other_step, _ in out:
            if (other_phase, other_step) != (phase, step):
                raise RuntimeError(
                    f"rank {place} of the group has reached {other_phase} step "
                    f"{other_step}, but this rank {phase} step {step}: call step() "
                    "and evaluation() on all ranks"
                )
        return {place: heads for place, _, _, heads in out}

    def _joined(
        self, parts: dict[int, dict[int, Any]], place: int, n_heads: int | None
    ) -> Tensor:
        known = {i: part[place] for i, part in parts.items() if place in part}
        first = next(iter(known.values()))
        if n_heads is not None and first.shape[1] == n_heads:
            return torch.from_numpy(first)  # every rank has all of them
        self._widths.update({i: part.shape[1] for i, part in known.items()})
        rows = []
        for i in range(self._n):
            if i in known:
                rows.append(torch.from_numpy(known[i]))
            else:
                width = self._widths.get(i, first.shape[1])
                rows.append(missing(first.shape[0], width))
        return torch.cat(rows, 1)
