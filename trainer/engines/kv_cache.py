"""A key-value cache for rows of different lengths that come and go, behind the cache interface of transformers.

Every row is stored from column 0 without holes, so a token's column is its position. Buffers start as zeros: masked
columns are still multiplied (by 0), and uninitialised memory may hold NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache

GROWTH = 64  # columns are added in such steps


class RowCache(Cache):  # type: ignore[misc]
    """Keys and values of `lengths[row]` tokens per row and layer.

    Before a forward pass `place` is told where the block's tokens stand; every layer then writes its keys and values
    there and gives back what the block may look at.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.keys: list[torch.Tensor] = []  # a layer: [rows, columns, heads, head size]
        self.values: list[torch.Tensor] = []
        self.lengths = torch.zeros(0, dtype=torch.long)
        self.columns = 0  # the last column is scratch: padding is written there
        self.rows_index = torch.zeros(0, dtype=torch.long)
        self.block = torch.zeros(0, dtype=torch.long)
        self.seen = 0

    def start(self, rows: int, device: torch.device) -> None:
        """Begins with `rows` empty rows."""
        self.keys, self.values, self.columns = [], [], 0
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        self.rows_index = torch.arange(rows, device=device)[:, None]

    def take(self, rows: Sequence[int]) -> None:
        """Keeps `rows`, in that order; a row named twice is copied."""
        index = torch.tensor(rows, dtype=torch.long, device=self.lengths.device)
        self.keys = [keys.index_select(0, index) for keys in self.keys]
        self.values = [values.index_select(0, index) for values in self.values]
        self.lengths = self.lengths.index_select(0, index)
        self.rows_index = torch.arange(len(rows), device=index.device)[:, None]

    def place(self, counts: torch.Tensor, width: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Plans a left-padded block of `width` tokens, of which the last `counts[row]` are real.

        Returns position ids [rows, width] and the additive mask [rows, 1, width, seen]. The caller advances `lengths`.
        """
        self.seen = int((self.lengths + counts).max())
        self._grow(self.seen + 1)
        offset = torch.arange(width, device=counts.device)[None, :] - width + counts[:, None]
        real = offset >= 0
        self.block = torch.where(real, self.lengths[:, None] + offset, self.columns - 1)
        columns = torch.arange(self.seen, device=counts.device)
        hidden = columns[None, None, :] > self.block[:, :, None]
        mask = torch.zeros(hidden.shape, dtype=dtype, device=counts.device)
        mask.masked_fill_(hidden, torch.finfo(dtype).min)
        return torch.where(real, self.block, 0), mask[:, None]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes a layer's block ([rows, heads, width, head size]) and returns all that is seen, in the same layout."""
        if layer_idx == len(self.keys):
            rows, heads, _, size = key_states.shape
            self.keys.append(key_states.new_zeros(rows, self.columns, heads, size))
            self.values.append(value_states.new_zeros(rows, self.columns, heads, value_states.shape[-1]))
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        keys[self.rows_index, self.block] = key_states.transpose(1, 2)
        values[self.rows_index, self.block] = value_states.transpose(1, 2)
        return keys[:, : self.seen].transpose(1, 2), values[:, : self.seen].transpose(1, 2)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.seen

    def _grow(self, columns: int) -> None:
        if columns <= self.columns:
            return
        self.columns = -(-columns // GROWTH) * GROWTH
        for buffers in (self.keys, self.values):
            for layer, old in enumerate(buffers):
                buffers[layer] = old.new_zeros(old.shape[0], self.columns, *old.shape[2:])
                buffers[layer][:, : old.shape[1]] = old
