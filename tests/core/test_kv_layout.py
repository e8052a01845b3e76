"""Pass shapes of every layout, calculated by hand."""

from engine.core.block_manager import BlockManager
from engine.core.kv_layout import PaddedLayout, PagedLayout, SlotLayout
from engine.core.passes import Chunk, PassKind
from engine.core.request import FinishReason, Request, RequestSpec, TextPrompt
from tests.support.schedule import reserved_for_later


def request(prompt_tokens: int, scheduled: int = 0, budget: int = 10) -> Request:
    spec = RequestSpec(
        request_id=0,
        prompt=TextPrompt(text="x"),
        budget_tokens=budget,
        ignore_eos=True,
        arrival_s=0.0,
        sampling_seed=0,
    )
    computed = prompt_tokens + scheduled - 1 if scheduled else 0
    return Request(spec=spec, prompt_ids=[1] * prompt_tokens, num_scheduled=scheduled, num_computed_tokens=computed)


def test_a_packed_prefill_computes_real_tokens_only() -> None:
    shape = SlotLayout(slots=4, width=40).shape(PassKind.PREFILL, [request(3), request(8)], (0, 1))
    assert (shape.computed_positions, shape.padding_positions, shape.dead_positions) == (11, 0, 0)
    assert (shape.width, shape.masked) == (8, False)


def test_a_slot_decode_spans_the_widest_row() -> None:
    # Rows of 3+1 and 8+2 columns: width 10, 20 computed, 6 of them past the first row's end.
    shape = SlotLayout(slots=4, width=40).shape(PassKind.DECODE, [request(3, 1), request(8, 2)], (0, 1))
    assert (shape.width, shape.masked) == (10, True)
    assert (shape.computed_positions, shape.padding_positions, shape.dead_positions) == (20, 6, 0)


def test_equal_rows_need_no_mask() -> None:
    shape = SlotLayout(slots=4, width=40).shape(PassKind.DECODE, [request(5, 3), request(6, 2)], (0, 1))
    assert (shape.width, shape.masked, shape.padding_positions) == (8, False, 0)


def test_slots_hold_their_whole_buffer_all_the_time() -> None:
    assert SlotLayout(slots=4, width=40).reserved == 160


def test_a_padded_batch_pads_to_the_longest_prompt_and_counts_dead_rows_apart() -> None:
    layout = PaddedLayout()
    rows = [request(3, budget=2), request(8, budget=20), request(5, budget=20)]
    layout.admit(rows)
    assert layout.reserved == 3 * (8 + 20)
    prefill = layout.shape(PassKind.PREFILL, rows, (0, 1, 2))
    assert (prefill.width, prefill.masked) == (8, True)
    assert (prefill.computed_positions, prefill.padding_positions, prefill.dead_positions) == (24, 5 + 0 + 3, 0)
    # Row 0 has ended after two tokens; the others write the column of their fourth token next.
    rows[0].num_scheduled, rows[1].num_scheduled, rows[2].num_scheduled = 2, 4, 4
    decode = layout.shape(PassKind.DECODE, rows, (1, 2))
    assert decode.width == 12
    assert (decode.computed_positions, decode.padding_positions, decode.dead_positions) == (36, 3, 12)


def test_a_uniform_batch_needs_no_mask() -> None:
    layout = PaddedLayout()
    rows = [request(6), request(6)]
    layout.admit(rows)
    assert not layout.shape(PassKind.PREFILL, rows, (0, 1)).masked
    layout.release_all()
    assert layout.reserved == 0


def test_a_padded_batch_reports_padding_and_dead_positions() -> None:
    layout = PaddedLayout()
    rows = [request(3, budget=2), request(8, budget=20)]
    layout.admit(rows)
    held = layout.held(rows, used=11)
    assert (held.reserved, held.padding, held.dead, reserved_for_later(held)) == (56, 5, 0, 56 - 11 - 5)
    # The shorter one has ended: its whole row of 28 columns is dead, padding included.
    rows[0].finish_reason = FinishReason.BUDGET
    held = layout.held(rows, used=10)
    assert (held.reserved, held.padding, held.dead, reserved_for_later(held)) == (56, 0, 28, 56 - 10 - 28)


def paged() -> PagedLayout:
    return PagedLayout(BlockManager(num_blocks=10, block_size=4))


def test_a_paged_decode_reads_every_row_at_its_true_length() -> None:
    # Rows of 3 + 1 and 8 + 2 columns.
    shape = paged().shape(PassKind.DECODE, [request(3, 1), request(8, 2)], (0, 1))
    assert (shape.width, shape.masked) == (10, False)
    assert (shape.computed_positions, shape.padding_positions, shape.dead_positions) == (14, 0, 0)


def test_a_paged_prefill_computes_the_prompt_and_lost_output_tokens() -> None:
    # A prompt of 3, and one of 8 that lost the KV of its 2 output tokens.
    again = request(8)
    again.num_scheduled = 2
    shape = paged().shape(PassKind.PREFILL, [request(3), again], (0, 1))
    assert (shape.width, shape.computed_positions, shape.padding_positions) == (10, 13, 0)


def test_a_mixed_pass_is_as_wide_as_its_longest() -> None:
    chunk = Chunk(request=request(30), start=16, tokens=8, is_last=False)
    shape = paged().packed([request(3, 1), request(8, 2)], [chunk])
    assert (shape.width, shape.computed_positions) == (24, 14 + 8)
    shape = paged().packed([request(40, 1)], [chunk])
    assert (shape.width, shape.computed_positions) == (41, 41 + 8)
    shape = paged().packed([], [chunk])
    assert (shape.width, shape.computed_positions) == (24, 8)


def test_blocks_hold_used_positions_and_the_ends_of_last_blocks() -> None:
    layout, row = paged(), request(9)
    assert layout.reserved == 0
    layout.blocks.allocate(row, 9)
    held = layout.held([row], used=9)
    assert (held.reserved, held.used, held.fragment, reserved_for_later(held)) == (12, 9, 3, 0)
    layout.blocks.free(row)
    assert layout.held([], used=0).reserved == 0
