from __future__ import annotations

import numpy as np
import pytest

from attention_core.cache import tensor_scatter


def row_by_row(past: np.ndarray, update: np.ndarray, start: list[int], axis: int) -> np.ndarray:
    """The definition, one index at a time; places beyond the end begin again at the front."""
    present = past.copy()
    for place in np.ndindex(update.shape):
        target = list(place)
        target[axis] = (start[place[0]] + place[axis]) % past.shape[axis]
        present[tuple(target)] = update[place]
    return present


@pytest.mark.parametrize("axis", [1, 2, 3, -1, -2, -3])
@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_rows_are_written_where_each_entry_of_the_batch_says(axis: int, mode: str) -> None:
    rng = np.random.default_rng(10)
    past = rng.normal(size=(2, 3, 5, 4)).astype(np.float32)
    shape = list(past.shape)
    shape[axis] = 2
    update = rng.normal(size=shape).astype(np.float32)
    start = [0, past.shape[axis] - 2] if mode == "linear" else [1, past.shape[axis] - 1]
    before = past.copy()
    present = tensor_scatter(past, update, np.array(start), axis=axis, mode=mode)  # type: ignore[arg-type]
    np.testing.assert_array_equal(present, row_by_row(past, update, start, axis % 4))
    np.testing.assert_array_equal(past, before)
    assert present.dtype == np.float32
    assert not np.shares_memory(present, past)


def test_without_indices_writing_begins_at_the_front() -> None:
    present = tensor_scatter(np.zeros((2, 3, 1)), np.ones((2, 2, 1)))
    assert present[..., 0].tolist() == [[1, 1, 0], [1, 1, 0]]


def test_a_full_write_fills_the_cache_and_an_empty_one_leaves_it() -> None:
    past = np.arange(6.0).reshape(1, 3, 2)
    np.testing.assert_array_equal(tensor_scatter(past, past + 1, [0]), past + 1)
    np.testing.assert_array_equal(tensor_scatter(past, np.ones((1, 0, 2)), [3]), past)


PAST = np.zeros((2, 4, 3))
REFUSED = {
    "past the end": ({"update": np.ones((2, 2, 3)), "write_indices": [1, 3]}, "go beyond the 4"),
    "before the front": ({"update": np.ones((2, 1, 3)), "write_indices": [-1, 0]}, "go beyond the 4"),
    "before the front, around": (
        {"update": np.ones((2, 1, 3)), "write_indices": [-1, 0], "mode": "circular"},
        "go beyond the 4",
    ),
    "longer than the cache": (
        {"update": np.ones((2, 5, 3)), "write_indices": [0, 0], "mode": "circular"},
        r"update \(2, 5, 3\) cannot be written into past \(2, 4, 3\) along axis 1",
    ),
    "another width": ({"update": np.ones((2, 1, 4)), "write_indices": [0, 0]}, "cannot be written into past"),
    "another batch": ({"update": np.ones((1, 1, 3)), "write_indices": [0, 0]}, "cannot be written into past"),
    "an index too few": ({"update": np.ones((2, 1, 3)), "write_indices": [0]}, "one whole number for each"),
    "half an index": ({"update": np.ones((2, 1, 3)), "write_indices": [0.5, 1]}, "one whole number for each"),
    "the batch axis": ({"update": np.ones((2, 1, 3)), "axis": 0}, "axis 0 is the batch"),
    "no such axis": ({"update": np.ones((2, 1, 3)), "axis": 3}, "axis 3 of past"),
    "no such mode": ({"update": np.ones((2, 1, 3)), "mode": "round"}, "linear or circular, not 'round'"),
}


@pytest.mark.parametrize(("given", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_write_that_does_not_fit_is_refused(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        tensor_scatter(PAST, **given)  # type: ignore[arg-type]
    assert not PAST.any()
