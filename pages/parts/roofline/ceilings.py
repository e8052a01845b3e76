"""The choice of ceilings on the Roofline page; the default is the run's own device if it is calibrated, else none. Of a
simulated run it is the GPU that it was simulated on.

`?card=` names a calibrated device, a GPU of the presets, or none. The page warns about ceilings of another device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from engine.hardware.calibration import Calibration
from engine.hardware.hardware_presets import HARDWARE
from pages.parts.roofline.passes import MeasuredPasses
from pages.parts.shared.machines import (
    HOW_TO_CALIBRATE,
    Machine,
    calibrated_machine,
    calibration_for,
    calibrations,
    preset_machine,
    simulated_on,
)
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import linked, one_of

CARD = "card"
NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenCeilings:
    """The ceilings to draw, None for points only. `is_own`: they were measured on the device of the runs, or the runs
    were simulated with them.

    `measured` is their calibration, None for a preset.
    """

    machine: Machine | None = None
    is_own: bool = False
    measured: Calibration | None = None


def draw_choice(series: list[MeasuredPasses]) -> ChosenCeilings:
    """Draw the choice with its notes and return it. The first series determines the device and the model."""
    first = series[0]
    known = calibrations()
    own = calibration_for(first.device, known, first.shape.name)
    others = {c.device_name: c for c in reversed(known)}
    simulated = simulated_on(first.row["info"], first.shape)
    options = [*_ordered(own, others), *HARDWARE, NONE]
    default = simulated.name if simulated else own.device_name if own else NONE
    asked = st.query_params.get(CARD)
    if asked is not None and asked not in options:
        st.warning(
            f"Invalid setting in the link: the ceilings of {plain(asked[:40])} are unknown; {plain(default)} is used "
            f"instead.",
            icon=":material/link_off:",
        )
    with linked(CARD, default, one_of(options)) as key:
        if st.session_state[key] not in options:  # runs of another device are shown
            st.session_state[key] = default
        chosen = st.selectbox(
            "Ceilings",
            options,
            key=key,
            persist_state="page",
            help="Measured by a calibration, or published for a GPU. none draws only the points.",
        )
    if simulated is not None and chosen == simulated.name:
        return ChosenCeilings(machine=simulated, is_own=True)
    return _chosen(str(chosen), first, own, others)


def _ordered(own: Calibration | None, others: Mapping[str, Calibration]) -> list[str]:
    names = [name for name in others if own is None or name != own.device_name]
    return ([own.device_name] if own else []) + names


def _chosen(
    name: str, first: MeasuredPasses, own: Calibration | None, others: Mapping[str, Calibration]
) -> ChosenCeilings:
    where = plain(str(first.device.get("name") or "an unknown device"))
    if name == NONE:
        if own is None:
            st.info(
                f"{where} is not calibrated, so there are no ceilings. On that machine, {HOW_TO_CALIBRATE}; or choose "
                f"a GPU above to compare with.",
                icon=":material/straighten:",
            )
        return ChosenCeilings()
    if own is not None and name == own.device_name:
        return _own(own, first)
    if name in others:
        machine = calibrated_machine(others[name], first.shape, first.dtype)
        measured: Calibration | None = others[name]
    else:
        machine, measured = preset_machine(HARDWARE[name], first.shape), None
    if machine is None:
        st.warning(
            f"The calibration of {plain(name)} has no {plain(first.dtype)} matmul rate.", icon=":material/straighten:"
        )
        return ChosenCeilings()
    st.warning(
        f"**These are ceilings of another device.** The run was on {where}, the ceilings are those of "
        f"{plain(machine.label)}. Shares compare two machines; they do not show how well the run used its own.",
        icon=":material/compare:",
    )
    if measured is None and first.dtype == "fp32":
        st.caption("The ceiling is for 16-bit arithmetic; the run used fp32.")
    return ChosenCeilings(machine=machine, measured=measured)


def _own(own: Calibration, first: MeasuredPasses) -> ChosenCeilings:
    machine = calibrated_machine(own, first.shape, first.dtype)
    if machine is None:
        measured = ", ".join(own.matmul_flop_per_s) or "no dtype"
        st.warning(
            f"The calibration of {plain(own.device_name)} has matmul rates of {plain(measured)}, but not of "
            f"{plain(first.dtype)}, the dtype of this run, so there are no ceilings.",
            icon=":material/straighten:",
        )
        return ChosenCeilings()
    threads = first.device.get("threads")
    if own.device == "cpu" and threads and int(threads) != own.threads:
        st.caption(f":orange[Calibrated with {own.threads} threads; the run used {int(threads)}.]")
    if own.load_average_1min > own.threads / 2 and own.device == "cpu":
        st.caption(":orange[Other work ran during the calibration; its ceilings may be too low.]")
    return ChosenCeilings(machine=machine, is_own=True, measured=own)
