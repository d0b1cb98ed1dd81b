"""The rules in memory: each condition does what its name says."""

import pytest

from bench.asymptotics import CONDITIONS, Loop

VISITS = 6_000


@pytest.mark.sweep
def test_conditions_differ_in_what_they_keep_active() -> None:
    active = {}
    for name in ("static data", "RODS", "static pool", "no retirement", "random seeds"):
        loop = Loop(CONDITIONS[name], 60, 60)
        spans = loop.play(VISITS)
        assert [span.until for span in spans] == sorted({span.until for span in spans})
        assert spans[-1].until >= VISITS and all(0 <= span.share <= 1 for span in spans)
        active[name] = [span.variants for span in spans]
    assert set(active["static data"]) == {0}
    assert (
        active["static pool"] == [0 if n == 0 else 60 for n in active["static pool"]]
        and active["static pool"][-1]
    )
    assert max(active["RODS"]) <= 60 < active["no retirement"][-1]
    assert 0 < active["random seeds"][-1] <= 60


def test_without_the_end_of_an_epoch_rods_is_static_data() -> None:
    ours, static = (
        Loop(CONDITIONS[name], 2_000, 2_000).play(1_000) for name in ("RODS", "static data")
    )
    assert ours == static
