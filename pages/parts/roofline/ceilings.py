"""The choice of ceilings on the Roofline page: of the run's own device where it was calibrated, else only if asked for.

`?card=` names one: a device's name as a calibration has it, a card of the presets, or none. Ceilings of another device
than the run's are said to be so, above everything that is drawn by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from engine.hardware.calibration import Calibration
from engine.hardware.hardware_presets import HARDWARE
from pages.parts.roofline.passes import Measured
from pages.parts.shared.machines import (
    HOW_TO_CALIBRATE,
    Machine,
    calibrated_machine,
    calibration_for,
    calibrations,
    preset_machine,
)
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import linked, one_of

CARD = "card"
NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Ceilings to draw by; None for points alone. `is_own`: measured on the device that the runs were made on.

    `measured` is the calibration behind them, None of a preset.
    """

    machine: Machine | None = None
    is_own: bool = False
    measured: Calibration | None = None


def draw_choice(series: list[Measured]) -> Chosen:
    """The choice, and what has to be said of it. The first series' device and model are those that count."""
    first = series[0]
    known = calibrations()
    own = calibration_for(first.device, known, first.shape.name)
    others = {c.device_name: c for c in reversed(known)}
    options = [*_ordered(own, others), *HARDWARE, NONE]
    default = own.device_name if own else NONE
    asked = st.query_params.get(CARD)
    if asked is not None and asked not in options:
        st.warning(
            f"This link asks for the ceilings of {plain(asked[:40])}, which the lab does not know; {plain(default)} is "
            f"used instead.",
            icon=":material/link_off:",
        )
    with linked(CARD, default, one_of(options)) as key:
        if st.session_state[key] not in options:  # another device's runs are shown
            st.session_state[key] = default
        chosen = st.selectbox(
            "Ceilings",
            options,
            key=key,
            persist_state="page",
            help="As calibrated on a device, or as stated for a card. none draws the points alone.",
        )
    return _chosen(str(chosen), first, own, others)


def _ordered(own: Calibration | None, others: Mapping[str, Calibration]) -> list[str]:
    names = [name for name in others if own is None or name != own.device_name]
    return ([own.device_name] if own else []) + names


def _chosen(name: str, first: Measured, own: Calibration | None, others: Mapping[str, Calibration]) -> Chosen:
    where = plain(str(first.device.get("name") or "an unknown device"))
    if name == NONE:
        if own is None:
            st.info(
                f"No calibration of {where} is here, so the points stand without ceilings. On that machine "
                f"{HOW_TO_CALIBRATE}; or choose a card above to hold them against.",
                icon=":material/straighten:",
            )
        return Chosen()
    if own is not None and name == own.device_name:
        return _own(own, first)
    if name in others:
        machine = calibrated_machine(others[name], first.shape, first.dtype)
        measured: Calibration | None = others[name]
    else:
        machine, measured = preset_machine(HARDWARE[name], first.shape), None
    if machine is None:
        st.warning(f"{plain(name)} was not measured in {plain(first.dtype)}.", icon=":material/straighten:")
        return Chosen()
    st.warning(
        f"**These are not the ceilings of the device that ran.** The run was made on {where}; the ceilings are "
        f"those of {plain(machine.label)}. Shares of them compare two machines, and do not say how well the run used "
        f"its own.",
        icon=":material/compare:",
    )
    if measured is None and first.dtype == "fp32":
        st.caption("The card's arithmetic is that of 16-bit numbers; the run computed in fp32.")
    return Chosen(machine=machine, measured=measured)


def _own(own: Calibration, first: Measured) -> Chosen:
    machine = calibrated_machine(own, first.shape, first.dtype)
    if machine is None:
        measured = ", ".join(own.matmul_flop_per_s) or "no dtype"
        st.warning(
            f"The calibration of {plain(own.device_name)} measured products in {plain(measured)}, not in "
            f"{plain(first.dtype)}, in which this run computed: points stand without ceilings.",
            icon=":material/straighten:",
        )
        return Chosen()
    threads = first.device.get("threads")
    if own.device == "cpu" and threads and int(threads) != own.threads:
        st.caption(f":orange[Calibrated with {own.threads} threads; the run used {int(threads)}.]")
    if own.load_average_1min > own.threads / 2 and own.device == "cpu":
        st.caption(":orange[Other work was running during the calibration: its ceilings may be too low.]")
    return Chosen(machine=machine, is_own=True, measured=own)
