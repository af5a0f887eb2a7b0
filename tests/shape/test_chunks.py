"""How much a worker gets at once, where it reads the next item while one runs."""

from __future__ import annotations

import pytest

from shoal.shape.pool.queue import items_ahead


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("mean_s", [None, 3.0])
def test_a_worker_that_reads_ahead_has_a_second_item_where_there_is_one_for_each(workers, mean_s):
    assert items_ahead(mean_s, workers, workers, least=2) == 2
    assert items_ahead(mean_s, workers - 1, workers, least=2) == 1
    assert items_ahead(mean_s, workers, workers) == 1
