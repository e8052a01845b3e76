"""The files of the lab's components: served by the app, free of other addresses, the bundle small and licensed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pages.parts.shared.components import registration
from pages.parts.shared.components.registration import FRONTEND, class_of, mount

SQL_EDITOR = FRONTEND / "sql_editor"
MOST_BUNDLE_BYTES = 400_000
SCRIPTS = sorted(FRONTEND.rglob("*.js"))


def test_each_component_has_a_script_and_a_style_of_its_name() -> None:
    names = [folder.name for folder in FRONTEND.iterdir() if folder.is_dir()]
    assert sorted(names) == ["sql_editor", "timeline_player"]
    for name in names:
        assert "export default function" in (FRONTEND / name / f"{name}.js").read_text()
        assert (FRONTEND / name / f"{name}.css").is_file()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_asks_no_other_server(script: Path) -> None:
    hosts = set(re.findall(r"https?://([\w.-]+)", script.read_text()))
    assert hosts <= {"www.w3.org"}  # the name of SVG, which is fetched by no one
    if script.name != "codemirror.source.js":  # what the bundle is built from
        assert re.findall(r"""(?:\bfrom |\bimport\(|\bimport )["']([^."'][^"']*)["']""", script.read_text()) == []


def test_the_bundle_is_small_and_names_the_license_of_each_package() -> None:
    assert (SQL_EDITOR / "codemirror.min.js").stat().st_size < MOST_BUNDLE_BYTES
    packages = json.loads((SQL_EDITOR / "package.json").read_text())["dependencies"]
    license_text = (SQL_EDITOR / "codemirror.LICENSE.txt").read_text()
    for name, version in packages.items():
        assert f"  {name} {version}\n" in license_text
    assert "Permission is hereby granted, free of charge" in license_text


def test_a_key_gives_the_class_that_streamlit_gives_it() -> None:
    assert class_of("run.figure_timeline_r1") == "run-figure_timeline_r1"
    assert class_of(" query.sql ") == "query-sql"


def test_a_component_that_cannot_be_drawn_is_logged_and_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(name: str) -> None:
        raise AttributeError(f"no components for {name}")

    monkeypatch.setattr(registration, "_registered", refuse)
    mount("sql_editor", key="k")
    assert "Component sql_editor is not drawn: no components for sql_editor" in caplog.text
