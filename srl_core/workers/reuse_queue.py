"""The bounded queue of batches that gives each its uses: the paper's sample reuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srl_core.api import SampleBatch, SampleSpec


class ReuseQueue:
    """Most uses left first, then newest; overflow drops the batch with fewest uses left, then oldest."""

    def __init__(self, size: int, uses: int) -> None:
        """At most `size` batches wait; each is handed out `uses` times unless it is dropped before."""
        self._size, self._uses = size, uses
        self._batches: list[tuple[int, int, SampleBatch]] = []
        self._clock = 0
        self.dropped = 0
        """Batches dropped before their first use."""
        self.dropped_reuses = 0
        """Uses lost with batches that had been used before."""

    def __len__(self) -> int:
        return len(self._batches)

    def free(self) -> int:
        """Batches that may be put without another being dropped."""
        return self._size - len(self._batches)

    def put(self, batch: SampleBatch) -> list[SampleBatch]:
        """Add a new batch; returns what was dropped for it, so that its memory can be used again."""
        batch.reuses_left, batch.uses = self._uses - 1, 0
        self._clock += 1
        self._insert(self._uses, self._clock, batch)
        dropped = []
        while len(self._batches) > self._size:
            left, _, old = self._batches.pop(0)
            self.dropped += old.uses == 0
            self.dropped_reuses += left if old.uses else 0
            dropped.append(old)
        return dropped

    def get(self) -> SampleBatch | None:
        """The batch to train on now; give it back with `done` afterwards. None if there is none."""
        if not self._batches:
            return None
        self._current = self._batches.pop()
        return self._current[2]

    def done(self, batch: SampleBatch) -> bool:
        """`batch` was trained on; whether it will come again (if not, its memory is free)."""
        left, time, _ = self._current
        batch.uses += 1
        batch.reuses_left = max(left - 2, 0)
        if left <= 1:
            return False
        if not self.free():
            self.dropped_reuses += left - 1
            return False
        self._insert(left - 1, time, batch)
        return True

    def _insert(self, left: int, time: int, batch: SampleBatch) -> None:
        at = next((i for i, b in enumerate(self._batches) if (b[0], b[1]) > (left, time)), len(self._batches))
        self._batches.insert(at, (left, time, batch))

    def state_dict(self) -> dict[str, Any]:
        """All waiting batches and the counters."""
        return {
            "batches": [
                {"left": left, "time": time, "uses": batch.uses, "arrays": dict(batch.arrays)}
                for left, time, batch in self._batches
            ],
            "clock": self._clock,
            "dropped": self.dropped,
            "dropped_reuses": self.dropped_reuses,
        }

    def load_state_dict(self, state: Mapping[str, Any], spec: SampleSpec) -> None:
        self._clock, self.dropped = int(state["clock"]), int(state["dropped"])
        self.dropped_reuses = int(state["dropped_reuses"])
        self._batches = []
        for saved in state["batches"]:
            left, uses = int(saved["left"]), int(saved["uses"])
            batch = SampleBatch(dict(saved["arrays"]), spec, reuses_left=left - 1, uses=uses)
            self._batches.append((left, int(saved["time"]), batch))
