"""Run ids: short, sortable, unique."""

import time

from engine.core.run_id import new_run_id, run_id_at


def test_an_id_is_twelve_lower_case_characters() -> None:
    run_id = new_run_id()
    assert len(run_id) == 12
    assert run_id.isalnum()
    assert run_id == run_id.lower()


def test_later_ids_sort_after_earlier_ones() -> None:
    times_ms = [0, 1, 31, 32, 1023, 1024, 1_800_000_000_000, 1_800_000_000_001, 32**9 - 1]
    ids = [run_id_at(time_ms) for time_ms in times_ms]
    assert ids == sorted(ids)
    assert len({run_id[:9] for run_id in ids}) == len(times_ms)


def test_an_id_begins_with_its_time() -> None:
    # 1,800,000,000,000 ms in base 32, calculated by repeated division: 1 20 12 12 5 24 20 0 0.
    assert run_id_at(1_800_000_000_000)[:9] == "1mcc5rm00"
    before = run_id_at(time.time_ns() // 1_000_000)[:9]
    assert before <= new_run_id()[:9]


def test_ids_of_one_moment_differ() -> None:
    # 20 draws out of 32,768: the chance that any two agree is under 0.6 %; that three pairs do is nil.
    assert len({run_id_at(5) for _ in range(20)}) >= 18
