"""What Run, Compare, Sweep and Load offer under Share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.core.config import RunConfig
from engine.hardware.vllm_command import vllm_command
from pages.parts.runs.run_actions import draw_download
from pages.parts.shared.charts import file_name
from pages.parts.shared.lab import lab
from pages.parts.shared.page_state import page_key
from pages.parts.shared.share import Shareable
from pages.report.html_page import report_html
from pages.report.markdown import report_markdown
from pages.report.source import report_of
from store.folders import log_bytes


def shared_runs(run_ids: Sequence[str], config: RunConfig | None = None) -> Shareable:
    """One run, or a comparison. `config` is one run's."""
    return _shareable(run_ids, run_ids, config)


def shared_experiment(experiment_id: str) -> Shareable:
    """A sweep or a load test."""
    run_ids = [str(run_id) for run_id in lab().store.experiments.runs(experiment_id)["run_id"]]
    return _shareable([experiment_id], run_ids, None)


def _shareable(names: Sequence[str], run_ids: Sequence[str], config: RunConfig | None) -> Shareable:
    store = lab().store  # the report is made in a thread that has no Streamlit session

    def draw_bundle() -> None:
        folders = [Path(str(store.runs.get(run_id)["folder"])) for run_id in run_ids]
        size = sum(log_bytes(folder) or 0 for folder in folders)
        draw_download(list(run_ids), size, label="Run logs (zip)", key=page_key("share_bundle"))

    return Shareable(
        file_name=file_name("report", *names),
        html=lambda: report_html(report_of(store, names)),
        markdown=lambda: report_markdown(report_of(store, names)),
        vllm=None if config is None else vllm_command(config),
        draw_more=draw_bundle,
    )
