"""The Bench page in Streamlit's test runner: every control, invalid input, and settings that are off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.core.config import RunConfig
from engine.core.format import breakable
from engine.launcher.run_queue import RunQueue
from engine.workload.profiles import PROFILES, WorkloadProfile
from pages.parts.bench.scenarios import SCENARIOS, Scenario, settings_of_scenario
from tests.support.page_app import take_in
from tests.support.patience import PATIENCE_S
from tests.support.runs.page_runs import config_of, write_run

APP = Path(__file__).parents[3] / "app.py"


@pytest.fixture
def bench(lab_home: Path) -> AppTest:
    return AppTest.from_file(str(APP), default_timeout=PATIENCE_S).run()


def opened(**query: str) -> AppTest:
    app = AppTest.from_file(str(APP), default_timeout=PATIENCE_S)
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def texts(app: AppTest) -> str:
    assert not app.exception
    shown = [*app.markdown, *app.caption, *app.warning, *app.error, *app.info]
    text = "\n".join(element.value for element in shown).replace("\\", "")  # foreign text is escaped for Markdown
    return breakable(text)


def run_buttons(app: AppTest) -> dict[str, bool]:
    """The run buttons' labels, and whether each can be pressed."""
    return {b.label: not b.disabled for b in app.button if b.label.startswith(("Run ", "Compare "))}


def widget(app: AppTest, key: str) -> Any:
    for kind in (app.text_input, app.number_input, app.selectbox, app.segmented_control):
        for found in kind:
            if found.key == f"bench.{key}":
                return found
    raise AssertionError(f"no widget {key}")


def test_the_default_is_eight_chat_questions_through_four_slots(bench: AppTest) -> None:
    words = texts(bench)
    assert bench.title[0].value == "Bench"
    assert "8 chat questions" in words
    assert "| engine | forward passes | dead slot-steps | padding | peak KV |" in words
    assert run_buttons(bench) == {"Run continuous": True, "Compare two engines": True, "Compare four engines": True}


@pytest.mark.parametrize(
    ("key", "text", "line"),
    [
        ("budget", "0", "budget '0': use 1 to 131,072 tokens"),
        ("budget", "9-3", "the range runs backward; use 3-9"),
        ("budget", "2x8+1x16", "counts 3 requests, the workload has 8: make them equal"),
        ("budget", "lots", "budget 'lots': use 64, 64-256"),
        ("arrival", "poisson", "arrival 'poisson': use closed"),
        ("arrival", "poisson:0", "use a rate of"),
        ("arrival", "gamma:1:0", "use a coefficient of variation of"),
    ],
)
def test_bad_text_gets_one_line_at_its_field_and_stays(bench: AppTest, key: str, text: str, line: str) -> None:
    widget(bench, key).set_value(text)
    bench.run()
    assert texts(bench).count(line) == 2  # at the field, and where the plan would be
    assert run_buttons(bench) == {"Run the engine": False, "Compare two engines": False, "Compare four engines": False}
    assert widget(bench, key).value == text


def test_a_bad_mix_gets_one_line_at_its_field(bench: AppTest) -> None:
    widget(bench, "prompts").set_value("lengths")
    bench.run()
    assert "16 tokens 50.0 %, 64 tokens 50.0 %" in texts(bench)
    widget(bench, "mix").set_value("p16:0")
    bench.run()
    assert "prompts 'p16:0': use weights above 0" in texts(bench)
    assert run_buttons(bench)["Compare two engines"] is False


def test_an_empty_model_name_is_refused(lab_home: Path) -> None:
    app = opened(model=" ")
    assert "model: name one, or a folder or hub id" in texts(app)
    assert run_buttons(app)["Compare two engines"] is False


def test_a_model_that_is_in_no_list_is_looked_up_when_the_run_starts(lab_home: Path) -> None:
    app = opened(model="someone/some-model")
    assert "it is looked up when the run starts" in texts(app)
    assert run_buttons(app)["Compare two engines"] is True


def test_file_asks_for_a_file(bench: AppTest) -> None:
    widget(bench, "prompts").set_value("file")
    bench.run()
    assert "upload a text file with one prompt a line" in texts(bench)
    assert run_buttons(bench)["Compare two engines"] is False


@pytest.mark.parametrize(
    ("query", "off", "reason"),
    [
        ({"engine": "serial", "first": "serial", "second": "serial"}, ["slots"], "serial has one slot"),
        ({"first": "paged"}, ["form", "timeout", "return"], "only the static engine forms batches"),
        ({"engine": "static"}, ["timeout"], "every batch is full, except perhaps the last"),
        ({"temperature": "0.0"}, ["top_k", "top_p"], "top-k and top-p have no effect"),
        ({"device": "cpu"}, ["timing", "gpu_memory_utilization"], "so both timings are the same"),
    ],
)
def test_unused_settings_are_off_and_say_why(
    lab_home: Path, query: dict[str, str], off: list[str], reason: str
) -> None:
    app = opened(**query)
    assert reason in texts(app)
    assert [key for key in off if not widget(app, key).disabled] == []


def test_settings_come_on_again(lab_home: Path) -> None:
    app = opened(engine="static", form="timeout", temperature="0.7")
    assert not any(widget(app, key).disabled for key in ("form", "timeout", "return", "top_k", "top_p", "slots"))


def test_a_link_sets_the_controls(lab_home: Path) -> None:
    app = opened(engine="static", slots="16", requests="16", budget="8x32+8x256", prompts="lengths", mix="p16")
    words = texts(app)
    assert "16 requests with a prompt of exactly 16 tokens, 32 to 256 new tokens each, 2,304 in total." in words
    assert "| static | 256 = 1 prefill + 255 decode | 1,792 (43.8 %) |" in words
    assert list(run_buttons(app)) == ["Compare two engines", "Run static", "Compare four engines"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("engine", "dance"), ("slots", "0"), ("slots", "x"), ("requests", "-1"), ("seed", "1.5"), ("top_p", "2")],
)
def test_a_bad_value_in_a_link_is_named_and_the_default_used(lab_home: Path, name: str, text: str) -> None:
    app = opened(**{name: text})
    assert app.warning[0].value.replace("\\", "").startswith(f"Invalid setting in the link: {name}")
    assert "8 chat questions" in texts(app)
    assert run_buttons(app)["Run continuous"] is True


def test_a_bad_budget_in_a_link_is_shown_at_its_field(lab_home: Path) -> None:
    app = opened(budget="zz")
    assert texts(app).count("budget 'zz': use") == 2
    assert not app.warning


def test_an_unknown_job_leads_to_history(lab_home: Path) -> None:
    assert "no longer has this job" in texts(opened(job="nothing"))


def test_cuda_is_not_offered_without_a_gpu(lab_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.parts.shared.devices.has_cuda", lambda: False)
    app = opened(device="cuda")
    assert "No NVIDIA GPU found; CUDA is unavailable." in texts(app)
    assert widget(app, "device").value == "auto"


def test_with_a_gpu_cuda_and_its_settings_are_on(lab_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.parts.shared.devices.has_cuda", lambda: True)
    app = opened()
    assert "smollm2-135m in bf16 on cuda" in texts(app)
    assert not widget(app, "timing").disabled
    assert not widget(app, "gpu_memory_utilization").disabled


@pytest.mark.parametrize("arrival", ["poisson:", "poisson:nan", "<b>x</b> $x$"])
def test_bad_arrivals_under_static_get_one_line_too(lab_home: Path, arrival: str) -> None:
    words = texts(opened(engine="static", model="tiny-random", arrival=arrival))
    assert f"arrival '{arrival}'" in words


@pytest.mark.parametrize(
    ("name", "text"), [("seed", "inf"), ("slots", "1e400"), ("slots", "9" * 400), ("slots", "9" * 4301)]
)
def test_numbers_without_bound_in_a_link_are_named_and_the_default_used(lab_home: Path, name: str, text: str) -> None:
    app = opened(**{name: text})
    assert "is used instead" in texts(app)
    assert len(texts(app)) < 5000
    assert run_buttons(app)["Compare two engines"]


def test_labels_have_the_names_of_other_engines_options(bench: AppTest) -> None:
    labels = {element.label for kind in (bench.number_input, bench.segmented_control) for element in kind}
    for name in ("max-num-seqs", "block-size", "max-num-batched-tokens", "gpu-memory-utilization"):
        assert [label for label in labels if f"({name})" in label], name


def test_a_link_sets_everything_of_paged_kv_memory(lab_home: Path) -> None:
    link = {"engine": "chunked", "slots": "3", "max_num_batched_tokens": "48", "block_size": "32", "pool_gib": "0.05"}
    app = opened(prompts="lengths", mix="p100", requests="2", budget="3", first="paged", second="chunked", **link)
    words = texts(app)
    values = {"slots": 3, "max_num_batched_tokens": 48, "block_size": "32", "pool_gib": 0.05}
    assert {name: widget(app, name).value for name in values} == values
    assert list(run_buttons(app)) == ["Compare two engines", "Run chunked", "Compare four engines"]
    assert "| paged | 3 = 1 prefill + 2 decode | none |" in words
    # 200 prompt tokens, 48 a step: 48, 48, 4 + 44; request 0 decodes twice beside the next 47 and the last 9
    assert "| chunked | 7 = 3 prefill + 2 decode + 2 mixed | none |" in words


def test_a_pair_needs_two_different_engines(lab_home: Path) -> None:
    app = opened(first="paged", second="paged")
    assert run_buttons(app) == {"Run continuous": True, "Compare two engines": False, "Compare four engines": True}
    assert "Compare two engines is unavailable: choose two different engines to compare." in texts(app)


def test_a_problem_of_chunked_affects_only_its_comparison(lab_home: Path) -> None:
    app = opened(slots="8", max_num_batched_tokens="4")
    assert run_buttons(app) == {"Run continuous": True, "Compare two engines": True, "Compare four engines": False}
    assert "8 slots need at least 8 tokens per step, one for each decode row; raise it or use fewer slots" in texts(app)
    alone = opened(engine="chunked", slots="8", max_num_batched_tokens="4")
    assert run_buttons(alone) == {"Run the engine": False, "Compare two engines": False, "Compare four engines": False}
    assert texts(alone).count("max-num-batched-tokens 4: 8 slots need at least 8 tokens") == 2  # at its field too


def test_a_small_pool_shows_preemption(lab_home: Path) -> None:
    assert "shows preemption" in texts(opened(engine="paged"))
    assert "shows preemption" not in texts(opened(engine="static"))


def test_graphs_are_offered_for_runs_on_a_gpu(lab_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def executions(app: AppTest) -> list[str]:
        return [option.content for option in widget(app, "execution").proto.options]

    monkeypatch.setattr("pages.parts.shared.devices.has_cuda", lambda: False)
    on_cpu = opened(execution="graph")
    assert executions(on_cpu) == ["eager"]
    assert "needs an NVIDIA GPU and is unavailable: no NVIDIA GPU found" in texts(on_cpu)
    monkeypatch.setattr("pages.parts.shared.devices.has_cuda", lambda: True)
    with_gpu = opened(execution="graph")
    assert executions(with_gpu) == ["eager", "graph"]
    assert "on cuda, with CUDA graphs." in texts(with_gpu)
    widget(with_gpu, "device").set_value("cpu")
    with_gpu.run()
    assert executions(with_gpu) == ["eager"]
    assert widget(with_gpu, "execution").value == "eager"
    assert "this run is on the CPU." in texts(with_gpu)


def test_an_earlier_run_of_an_unpublished_model_gives_the_size_of_a_block(lab_home: Path) -> None:
    """2 layers, 1 KV head of 4 numbers in fp32: 64 bytes a position, 1,024 a block of 16."""
    name = "someone/some-model"
    sizes = {"parameters": 1000, "layers": 2, "hidden": 8, "heads": 2, "kv_heads": 1, "head_dim": 4}
    model = {"name": name, "dtype": "float32", "intermediate": 16, "vocab": 50, **sizes}
    write_run(lab_home / "runs", "r1", "static", config=config_of("static", model=name), model=model)
    take_in(lab_home)
    assert "At most 20 blocks of 1.00 KiB each." in texts(opened(engine="paged", model=name, pool_gib="0.00002"))
    assert "A block takes 1.00 KiB" in texts(opened(engine="paged", model=name))


def slider(app: AppTest, name: str) -> Any:
    """A slider over rounded values, by the start of its key."""
    return next(found for found in app.select_slider if str(found.key).startswith(f"bench.{name}"))


def test_a_slider_sets_its_field_and_redraws_the_plan(bench: AppTest) -> None:
    assert "Static needs 87 forward passes, continuous 74 (static 1.18x)" in texts(bench)
    slider(bench, "slots_slider").set_value(8)
    bench.run()
    assert widget(bench, "slots").value == 8
    assert "Static needs 47 forward passes, continuous 47 (the same)" in texts(bench)
    assert bench.query_params["slots"] == "8"


def test_the_token_range_sets_the_budget(bench: AppTest) -> None:
    slider(bench, "tokens_slider").set_value((16, 16))
    bench.run()
    assert widget(bench, "budget").value == "16"
    assert "16 new tokens each" in texts(bench)
    slider(bench, "tokens_slider").set_value((16, 64))
    bench.run()
    assert widget(bench, "budget").value == "16-64"


def test_a_budget_that_no_slider_can_show_stays_in_its_field(lab_home: Path) -> None:
    app = opened(requests="4", budget="2x8+2x64")
    assert "Output tokens are typed in" in texts(app)
    assert widget(app, "budget").value == "2x8+2x64"


def test_arrivals_by_law_and_rate(bench: AppTest) -> None:
    widget(bench, "arrival_law").set_value("Poisson")
    bench.run()
    assert widget(bench, "arrival").value == "poisson:1"
    slider(bench, "rate_slider").set_value(4.0)
    bench.run()
    assert widget(bench, "arrival").value == "poisson:4"
    widget(bench, "arrival_law").set_value("bursty")
    bench.run()
    assert widget(bench, "arrival").value == "gamma:4:4"
    widget(bench, "arrival_law").set_value("all at once")
    bench.run()
    assert widget(bench, "arrival").value == "closed"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_scenario_can_run_and_leads_back(lab_home: Path, scenario: Scenario) -> None:
    app = opened(slots="7", arrival="poisson:3")
    next(button for button in app.button if button.label == scenario.name).click()
    app.run()
    assert run_buttons(app)["Compare two engines"]
    for name, value in settings_of_scenario(scenario).items():
        assert app.session_state[f"bench.{name}"] == value, name


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_every_profile_can_run_and_names_its_source(lab_home: Path, profile: WorkloadProfile) -> None:
    app = opened(slots="7", arrival="poisson:3")
    next(button for button in app.button if button.label == profile.name).click()
    app.run()
    assert run_buttons(app)["Compare two engines"]
    assert (widget(app, "slots").value, widget(app, "arrival").value) == (4, "closed")
    low, _, high = profile.output_tokens
    assert widget(app, "budget").value == f"{low}-{high}"
    assert f"{profile.name}: {profile.text}" in texts(app)
    widget(app, "budget").set_value("8")
    app.run()
    assert f"{profile.name}: {profile.text}" not in texts(app)


def test_calibrate_is_offered_where_times_are_missing(lab_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, list[str]]] = []

    def submit(queue: RunQueue, config: RunConfig, engines: list[str], visitor: str) -> None:
        started.append((config.model, engines))

    monkeypatch.setattr(RunQueue, "submit_calibration", submit)
    app = opened(model="tiny-random", first="static", second="chunked")
    (button,) = [button for button in app.button if button.label == "Calibrate"]
    button.click()
    app.run()
    assert started == [("tiny-random", ["static", "paged"])]  # chunked uses the pass times of paged
    unknown = opened(model="someone/some-model")
    assert "Calibrate" not in [button.label for button in unknown.button]
