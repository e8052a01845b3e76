"""The figures of the KV pool: cells, blocks and their requests, calculated by hand; small for any pool."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from pages.figures.blocks.blocks import MAX_COLUMNS, MAX_ROWS, NO_BLOCKS, block_map, block_map_caption
from pages.figures.blocks.pool import grid_of, pool_at, pool_caption
from pages.figures.blocks.request_colors import blended, color_codes
from pages.figures.blocks.sample import SamplePool, block_cells, by_column, sample_pool
from pages.figures.colors import DARK, LIGHT
from pages.figures.timeline.preemptions import MAX_MARKS, add_preemptions
from pages.figures.timeline.timeline import slot_timeline
from tests.support.figures import json_bytes
from tests.support.no_break import nb

LIMIT_BYTES = 2_000_000
COLORS = len(LIGHT.requests)
# Blocks 0 and 1 are request 7's for steps 0 and 1, block 0 then request 3's; block 2 is never held.
CELLS = pd.DataFrame(
    {"row": [0, 0, 0, 1, 1], "column": [0, 1, 2, 0, 1], "request_id": [7, 7, 3, 7, 7], "requests": 1, "held": 1.0}
)
COLUMNS = pd.DataFrame(
    {
        "column": [0, 1, 2],
        "passes": 1,
        "reserved_max_positions": [32, 32, 16],
        "fragment_fraction": [0.25, 0.125, 0.5],
    }
)
LOST = pd.DataFrame(
    {"event": ["preempt"], "request_id": [7], "lane": [1], "blocks": [2], "tokens": [28], "step": [1.0]}
).assign(time_s=0.4)


def drawn(cells: pd.DataFrame = CELLS, columns: pd.DataFrame = COLUMNS, **changes: object) -> go.Figure:
    size = {"shape": (3, 3), "end": 3.0, "num_blocks": 3, "pool_blocks": 5, "block_size": 16}
    return block_map(cells, columns, **{**size, **changes})  # type: ignore[arg-type]


def heatmaps(figure: go.Figure) -> list[go.Heatmap]:
    return [trace for trace in figure.data if trace.type == "heatmap"]


def marks(figure: go.Figure) -> go.Scatter:
    return next(trace for trace in figure.data if trace.type == "scatter" and trace.mode == "markers")


def test_each_cell_has_the_color_and_number_of_its_request() -> None:
    ground, held = heatmaps(drawn())
    nan = np.nan
    np.testing.assert_array_equal(held.z, [[8, 8, 4], [8, 8, nan], [nan, nan, nan]])
    assert held.customdata[:, :, 0].tolist() == [[7, 7, 3], [7, 7, 0], [0, 0, 0]]
    assert np.unique(ground.z).tolist() == [0]
    assert held.hoverongaps is False
    assert "block %{y:,.0f}, around step" in held.hovertemplate
    assert "<b>request %{customdata[0]}</b><extra>" in held.hovertemplate  # one request per cell here
    assert "free" in ground.hovertemplate


def test_columns_divide_the_axis_equally() -> None:
    held = heatmaps(drawn(end=1.5, unit="second"))[1]
    assert (held.x0, held.dx, held.y0, held.dy) == (0.25, 0.5, 0, 1)
    assert drawn(end=1.5, unit="second").layout.xaxis.range == (0, 1.5)


def test_free_blocks_and_unfilled_ends_follow_the_columns() -> None:
    free, unfilled = (trace for trace in drawn().data if trace.type == "scatter")
    assert list(free.y) == [3, 4, 4]  # 5 blocks, of which 32, 32 and 16 positions are held
    assert list(free.x) == [0.0, 2.0, 3.0]
    assert list(unfilled.y) == [0.25, 0.125, 0.5, 0.5]
    headings = [annotation.text for annotation in drawn().layout.annotations]
    assert headings[:2] == ["free blocks of 5", "blocks 0 to 2, by request"]


def test_a_column_without_a_pass_repeats_the_one_before() -> None:
    free = next(trace for trace in drawn(columns=COLUMNS.drop(index=1)).data if trace.type == "scatter")
    assert (list(free.x), list(free.y)) == ([0.0, 2.0, 3.0], [3, 4, 4])


def test_a_preemption_is_a_triangle_with_a_hover_text() -> None:
    drawn_marks = marks(drawn(preemptions=LOST))
    assert (drawn_marks.marker.symbol, list(drawn_marks.x)) == ("triangle-down", [1.0])
    assert drawn(preemptions=LOST).layout.annotations[0].text == "free blocks of 5 (triangles: preemptions)"
    assert drawn_marks.hovertext[0] == (
        nb("<b>request 7 preempted</b><br>2 blocks freed, 28 positions to recompute<br>step 1, 400 ms")
    )
    assert list(marks(drawn(preemptions=LOST, unit="second")).x) == [0.4]


def test_coarse_cells_have_their_held_share_and_number_of_requests() -> None:
    shared = CELLS.assign(requests=[1, 3, 1, 1, 1], held=[1, 0.625, 1, 1, 1])
    figure = drawn(shared, COLUMNS.assign(passes=[5, 6, 6]), num_blocks=24, pool_blocks=24, end=18.0)
    held = heatmaps(figure)[1]
    assert held.customdata[0, 1].tolist() == [7, 63, 3]
    assert (
        nb("holds most of it; %{customdata[1]}\u00a0% held, %{customdata[2]:,} requests in total") in held.hovertemplate
    )
    assert (held.y0, held.dy) == (3.5, 8)
    assert "all blocks, 8 per row" in figure.layout.annotations[1].text
    assert figure.layout.xaxis.title.text == "step, 6 per column"


def large_map() -> go.Figure:
    """A pool of 20,000 blocks over 2,000 passes in the store's grid, every cell held."""
    row, column = np.divmod(np.arange(MAX_ROWS * MAX_COLUMNS), MAX_COLUMNS)
    owners = np.random.default_rng(0).integers(0, 100_000, len(row))
    cells = pd.DataFrame({"row": row, "column": column, "request_id": owners, "requests": 40, "held": 0.8})
    columns = pd.DataFrame({"column": np.arange(MAX_COLUMNS), "passes": 5})
    columns = columns.assign(
        reserved_max_positions=np.arange(MAX_COLUMNS) * 700.0, fragment_fraction=np.linspace(0.0, 0.1, MAX_COLUMNS)
    )
    lost = pd.concat([LOST] * 10_000, ignore_index=True).assign(step=np.arange(10_000) / 5)
    size = {"shape": (MAX_ROWS, MAX_COLUMNS), "end": 2000.0, "num_blocks": 20_000, "pool_blocks": 20_000}
    return drawn(cells, columns, preemptions=lost, **size)


def test_a_large_pool_over_many_passes_stays_small() -> None:
    figure = large_map()
    assert json_bytes(figure) < LIMIT_BYTES
    assert len(marks(figure).x) == MAX_MARKS


def test_light_and_dark_differ_only_in_color() -> None:
    light, dark = (heatmaps(drawn(dark=is_dark))[1] for is_dark in (False, True))
    np.testing.assert_array_equal(light.z, dark.z)
    assert light.colorscale != dark.colorscale
    assert len(LIGHT.requests) == len(DARK.requests)


def test_no_blocks_give_a_note() -> None:
    nothing = drawn(CELLS.head(0), num_blocks=0)
    assert nothing.layout.annotations[0].text == NO_BLOCKS
    assert pool_at(pd.DataFrame(), num_blocks=0, block_size=16).layout.annotations[0].text == NO_BLOCKS


def test_requests_get_colors_in_turn() -> None:
    assert color_codes(pd.Series([0, 1, 9, 10, 27]), dark=False).tolist() == [1, 2, 10, 1, 8]
    assert COLORS == 10
    assert blended("#ff0000", "#0000ff", 0.25) == "#4000bf"


# Block 0 full, block 1 of 8 positions half full, both request 7's; block 3 is request 2's, one position.
HELD = pd.DataFrame({"block_id": [0, 1, 3], "request_id": [7, 7, 2], "table_index": [0, 1, 0], "positions": [8, 4, 1]})


def test_the_filled_part_of_a_block_has_its_color_and_the_rest_is_pale() -> None:
    figure = pool_at(HELD, num_blocks=10, block_size=8)
    texture, free, held = heatmaps(figure)
    full, pale = 8, 8 + COLORS  # request 7 has the eighth color, request 2 the third
    assert texture.z.shape == (2, 8 * 8)  # two lines of eight blocks, eight parts each
    assert texture.z[0].tolist() == [full] * 12 + [pale] * 4 + [0] * 8 + [3] + [3 + COLORS] * 7 + [0] * 32
    assert texture.z[1, :16].tolist() == [0] * 16
    assert np.isnan(texture.z[1, 16:]).all()  # there is no block 10
    nan = np.nan
    np.testing.assert_array_equal(free.z, [[nan, nan, 2, nan, 4, 5, 6, 7], [8, 9, nan, nan, nan, nan, nan, nan]])
    np.testing.assert_array_equal(held.z, [[0, 1, nan, 3, nan, nan, nan, nan], [nan] * 8])
    assert held.customdata[0, 1].tolist() == [7, 4, 1]
    assert "of 8 positions filled<br>index %{customdata[2]:,} in its block table" in held.hovertemplate


def test_small_pools_show_the_requests_number_in_each_block() -> None:
    scatters = [trace for trace in pool_at(HELD, num_blocks=10, block_size=8).data if trace.type == "scatter"]
    numbers = next(trace for trace in scatters if trace.mode == "text")
    assert list(zip(numbers.text, numbers.x, numbers.y, strict=True)) == [("7", 0, 0), ("7", 1, 0), ("2", 3, 0)]


def test_a_large_pool_has_a_cell_per_block_and_a_huge_one_several_blocks_per_cell() -> None:
    assert (grid_of(10).per_line, grid_of(10).lines, grid_of(10).parts) == (8, 2, 8)
    assert (grid_of(20_000).per_cell, grid_of(20_000).parts) == (1, 1)
    huge = grid_of(300_000)
    assert (huge.per_cell, huge.cells) == (13, 23_077)
    rng = np.random.default_rng(0)
    blocks = pd.DataFrame({"block_id": np.arange(20_000), "request_id": rng.integers(0, 400, 20_000)})
    blocks = blocks.assign(table_index=0, positions=rng.integers(1, 17, 20_000))
    assert json_bytes(pool_at(blocks, num_blocks=20_000, block_size=16)) < LIMIT_BYTES
    assert json_bytes(pool_at(blocks, num_blocks=300_000, block_size=16)) < LIMIT_BYTES


def test_a_cell_of_several_blocks_shows_the_request_with_most_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.figures.blocks.pool.MAX_CELLS", 2)
    frame = HELD.assign(block_id=[0, 1, 2], request_id=[7, 2, 7])
    held = heatmaps(pool_at(frame, num_blocks=6, block_size=8))[2]
    assert held.customdata[0, 0].tolist()[:2] == [7, 13]
    assert "holds most of them; %{customdata[1]:,} of 24 positions filled" in held.hovertemplate


def test_a_preemption_is_in_the_timeline_at_its_lane_and_time() -> None:
    pool = sample_pool("chunked", num_blocks=12)
    figure = slot_timeline(pool.run.spans, num_lanes=4, preemptions=pool.run.events)
    assert len(pool.run.events) == 2
    assert list(marks(figure).x) == pool.run.events["step"].tolist()
    assert list(marks(figure).y) == pool.run.events["lane"].tolist()
    dense = slot_timeline(pool.run.spans, num_lanes=2000, preemptions=pool.run.events, folds=False)
    assert "heatmap" in {trace.type for trace in dense.data}
    assert len(marks(dense).x) == 2


def test_chunks_are_separate_spans() -> None:
    spans = sample_pool("chunked").run.spans
    bars = next(t for t in slot_timeline(spans).data if t.name and t.name.startswith("prefill"))
    chunks = spans[spans["phase"] == "prefill"]
    assert len(bars.x) == len(chunks) > chunks["request_id"].nunique()
    assert any("prefill, chunk 2" in text for text in bars.hovertext)
    assert bars.marker.line.width > 0  # the hairline between two chunks


def caption(pool: SamplePool, **changes: object) -> str:
    arguments = {"pool_blocks": pool.num_blocks, "block_size": 16, "unfilled_share": None, "recomputed_tokens": None}
    columns = by_column(pool.run.passes, len(pool.run.passes), "step")
    return block_map_caption(columns, pool.run.events, **{**arguments, **changes})  # type: ignore[arg-type]


def test_the_caption_of_a_pool_has_its_fullest_moment_and_the_cost_of_preemption() -> None:
    calm, busy = sample_pool("paged", num_blocks=60), sample_pool("chunked", num_blocks=12)
    most = int(calm.run.passes["kv_reserved_positions"].max() / 16)
    assert caption(calm) == (
        nb(
            f"At most {most} of 60 blocks of 16 positions were held at once ({most / 60 * 100:.1f} %). "
            "No request was preempted."
        )
    )
    assert caption(busy, unfilled_share=0.0895, recomputed_tokens=154) == (
        nb(
            "At most 12 of 12 blocks of 16 positions were held at once (100 %); 8.95 % of the held positions were "
            "unfilled over time. 2 preemptions of 2 requests freed 11 blocks; 154 tokens were recomputed."
        )
    )
    assert (
        block_map_caption(
            COLUMNS.head(0), LOST, pool_blocks=1, block_size=1, unfilled_share=None, recomputed_tokens=None
        )
        == NO_BLOCKS
    )


def test_the_caption_of_a_moment_counts_blocks_requests_and_unfilled_positions() -> None:
    when = {"pool_blocks": 6, "block_size": 8, "pass_index": 41, "step": 30.5, "time_s": 1.5}
    assert pool_caption(HELD, **when) == (  # 3 x 8 - 13
        nb(
            "During pass 41 (step 30, from 1.50 s on), 2 requests hold 3 of 6 blocks; 11 of 24 positions in them "
            "unfilled (45.8 %)."
        )
    )
    assert pool_caption(HELD.head(0), **when).endswith("all 6 blocks are free.")
    assert pool_caption(HELD.assign(positions=np.nan), **when).endswith("2 requests hold 3 of 6 blocks.")


def test_cells_of_the_sample_are_the_block_managers_allocations() -> None:
    """Prompts of 38 and 52 tokens and 2 new ones each: 3 and 4 blocks, in one prefill and one decode pass."""
    pool = sample_pool("paged", num_blocks=10, slots=2, budgets=(2, 2))
    cells = block_cells(pool.holds, pool.run.passes, 2, "step")
    owners = cells.sort_values("row").groupby("column")["request_id"].apply(list)
    assert owners.tolist() == [[0, 0, 0, 1, 1, 1, 1]] * 2


def test_many_marks_are_thinned_and_keep_their_places() -> None:
    many = pd.concat([LOST] * 5000, ignore_index=True).assign(step=np.arange(5000.0))
    figure = go.Figure()
    add_preemptions(figure, many, y=np.arange(5000.0), unit="step")
    assert len(figure.data[0].x) == MAX_MARKS
    assert list(figure.data[0].x) == list(figure.data[0].y)
