"""Forward passes that simultaneous answers share: a model's weights are read once for all.

A token of one answer takes a pass over its rows, and most of a pass with few rows is the same work
for any number of them. Here answers run in one thread, each until it needs such a pass; one pass
then does for all that wait. Rows keep their bits beside any others
(`dpicl_rag.language_models.tiles`), so an answer is the same, bit by bit, as if it were the only
one. What goes in steps, such as a count, gives way to others between two of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch

from dpicl_rag._packaged import optional
from dpicl_rag.language_models.packed_rows import PackedRows, forward_each
from dpicl_rag.language_models.transformers_rows import Batch, NewTokens, shared_pass, width_of
from dpicl_rag.language_models.turns import taking_turns


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Work that goes on when its pass was run.

    Attributes:
        go_on: Called with the pass's log-probabilities, or None to run it by itself.
        batch: Whose pass.
        token_ids: The one new token, or that of each row.
    """

    go_on: Callable[[torch.Tensor | None], object]
    batch: PackedRows
    token_ids: NewTokens


class JointPasses:
    """Runs work in one thread, each piece of it until it needs a pass that others may share.

    Nothing runs at the same time as anything else. All methods are for one thread.

    Raises:
        MissingDependencyError: greenlet is not installed.
    """

    def __init__(self) -> None:
        self._greenlets = optional("greenlet", "dpicl-rag[server]")
        self._waiting: list[_Waiting] = []
        self._between_steps: deque[Callable[[], object]] = deque()

    @property
    def waiting(self) -> int:
        """Number of pieces of work that wait for a pass."""
        return len(self._waiting)

    @property
    def between_steps(self) -> int:
        """Number of pieces of work that have given way to others."""
        return len(self._between_steps)

    def start(self, work: Callable[[], None]) -> None:
        """Run work until its end, or until it waits for a pass, or gives way.

        Args:
            work: Must not raise, and must not hold what other work needs while it asks a model.
        """

        def run() -> None:
            shared_pass.set(self._ask)  # a greenlet has a context of its own
            with taking_turns(self._give_way):
                work()

        self._greenlets.greenlet(run).switch()

    def run_pass(self) -> None:
        """Run one pass for all that wait, and let them go on in the order of asking."""
        waiting, self._waiting = self._waiting, []
        while waiting:
            mine = [one for one in waiting if one.batch.shares_passes(waiting[0].batch)]
            waiting = [one for one in waiting if one not in mine]
            for one, found in zip(mine, _joint_passes(mine), strict=True):
                one.go_on(found)

    def go_on(self) -> None:
        """Let the work that gave way first do its next step."""
        if self._between_steps:
            self._between_steps.popleft()()

    def _give_way(self) -> None:
        here = self._greenlets.getcurrent()
        self._between_steps.append(here.switch)
        here.parent.switch()

    def _ask(self, batch: Batch, token_ids: NewTokens, keep: int) -> torch.Tensor | None:
        if not isinstance(batch, PackedRows) or width_of(token_ids) > 1:
            return None  # of several new tokens there is enough to do
        if not batch.shares_passes(batch):
            return None  # a row that is read alone
        here = self._greenlets.getcurrent()
        self._waiting.append(_Waiting(here.switch, batch, token_ids))
        found: torch.Tensor | None = here.parent.switch()
        return found


def _joint_passes(waiting: list[_Waiting]) -> list[torch.Tensor | None]:
    """The result for each. An error is for each to meet by itself: it may be that of another."""
    nothing: list[torch.Tensor | None] = [None] * len(waiting)
    if len(waiting) == 1:
        return nothing
    try:
        with torch.inference_mode():
            return list(
                forward_each(
                    [one.batch for one in waiting], [one.token_ids for one in waiting], keep=1
                )
            )
    except Exception:
        return nothing
