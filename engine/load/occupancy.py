"""When each request of a run arrived, got its slot and left, and how many were present at a time.

A request is in the system from its intended arrival to the delivery of its last token, queue wait included. A request
that was never admitted or never finished stays until the run's end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from engine.core.record import RunRecord
from engine.metrics.latency import Floats, Integers, deliveries, request_answers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Occupancy:
    """One entry per request, by request id, in seconds on the run's clock. `served` marks the finished requests.

    `admitted_s` and `left_s` are the run's end for requests that were never admitted or never finished.
    """

    request_id: Integers
    arrival_s: Floats
    admitted_s: Floats
    left_s: Floats
    served: np.ndarray[tuple[int], np.dtype[np.bool_]]
    end_s: float

    @classmethod
    def of(cls, record: RunRecord) -> Self:
        answers = request_answers(record)
        end_s = _end_s(record)
        served = (answers["state"] == "finished") & ~np.isnan(answers["last_s"])
        return cls(
            request_id=answers["request_id"],
            arrival_s=answers["arrival_s"],
            admitted_s=np.where(np.isnan(answers["admitted_s"]), end_s, answers["admitted_s"]),
            left_s=np.where(served, answers["last_s"], end_s),
            served=served,
            end_s=end_s,
        )

    def __len__(self) -> int:
        return len(self.request_id)

    @property
    def in_system_s(self) -> Floats:
        """Time in the system of each request."""
        return self.left_s - self.arrival_s

    def num_waiting(self, moment_s: float) -> int:
        """How many requests had arrived by then and had no slot yet."""
        return int(((self.arrival_s <= moment_s) & (self.admitted_s > moment_s)).sum())


def mean_number(begin_s: Floats, end_s: Floats, since_s: float, until_s: float) -> float:
    """The mean number of intervals [begin, end) that cover a moment between `since_s` and `until_s`."""
    inside_s = np.clip(end_s, since_s, until_s) - np.clip(begin_s, since_s, until_s)
    return float(np.maximum(inside_s, 0.0).sum() / (until_s - since_s))


def often_at_once(begin_s: Floats, end_s: Floats, share: float) -> tuple[int, float]:
    """The largest number of intervals [begin, end) that overlap for `share` of the time, and when it is first reached.

    A number that is reached only for moments does not count. (0, 0.0) without intervals.
    """
    times_s, number = _number_over(begin_s, end_s)
    if not times_s.size:
        return 0, 0.0
    lasting_s = np.diff(times_s)
    order = np.argsort(-number[:-1], kind="stable")
    reached = np.cumsum(lasting_s[order]) >= share * lasting_s.sum()
    often = int(number[order][np.argmax(reached)])
    return often, float(times_s[np.argmax(number >= often)])


def most_at_once(begin_s: Floats, end_s: Floats) -> tuple[int, float]:
    """The largest number of intervals [begin, end) that overlap, and when it is first reached.

    (0, 0.0) without intervals.
    """
    times_s, number = _number_over(begin_s, end_s)
    if not times_s.size:
        return 0, 0.0
    first = int(np.argmax(number))
    return int(number[first]), float(times_s[first])


def _number_over(begin_s: Floats, end_s: Floats) -> tuple[Floats, Integers]:
    """The moments at which an interval begins or ends, and how many overlap from each moment on."""
    lasting = end_s > begin_s
    times_s = np.concatenate([end_s[lasting], begin_s[lasting]])
    changes = np.concatenate([-np.ones(int(lasting.sum()), np.int64), np.ones(int(lasting.sum()), np.int64)])
    order = np.argsort(times_s, kind="stable")  # at one moment, ends come before begins
    return times_s[order], np.cumsum(changes[order])


def number_over_time(begin_s: Floats, end_s: Floats) -> tuple[Floats, Floats]:
    """How many intervals [begin, end) cover each moment: the moments of change, and the number from each on."""
    lasting = end_s > begin_s
    times_s = np.concatenate([begin_s[lasting], end_s[lasting]])
    changes = np.concatenate([np.ones(int(lasting.sum())), -np.ones(int(lasting.sum()))])
    moments_s, place = np.unique(times_s, return_inverse=True)
    steps = np.zeros(len(moments_s))
    np.add.at(steps, place, changes)
    return moments_s, np.cumsum(steps)


def _end_s(record: RunRecord) -> float:
    """The last recorded event; the last arrival if nothing else was recorded."""
    moments_s = (deliveries(record)[1], record.passes["end_s"], record.requests["arrival_s"])
    known = np.concatenate([column[~np.isnan(column)] for column in moments_s])
    return float(known.max()) if known.size else 0.0
