"""Sizes of replies by a mixture: which file a pair of draws takes."""

from typing import cast

import numpy as np

from dispatchsim.sim.load.reply_sizes import draw_sizes
from dispatchsim.sim.state.laws import ReplyMix


class Given:
    """Draws that were written down, in the order in which they are asked for."""

    def random(self, shape: tuple[int, int]) -> np.ndarray:
        rows = [[0.0, 0.0], [0.29, 0.99], [0.3, 0.0], [0.49, 0.34], [0.5, 0.5], [0.99, 0.99]]
        assert shape == (len(rows), 2)
        return np.array(rows)


def test_a_draw_takes_a_class_by_its_share_and_another_a_file_of_it() -> None:
    # Shares of 0.3, 0.2 and 0.5: a class begins at the sum of the shares before it.
    mix = ReplyMix((0.3, 0.2, 0.5), ((100, 200), (1_000, 2_000, 3_000), (70_000,)))
    sizes = draw_sizes(mix, cast(np.random.Generator, Given()), 6)
    assert sizes.dtype == np.int64
    assert sizes.tolist() == [100, 200, 1_000, 2_000, 70_000, 70_000]
