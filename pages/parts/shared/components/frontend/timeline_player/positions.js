// Positions on the axis that the charts share: where it ends, the next and the last step, the pass at a place.

const CLOSE = 1e-9;

/** The end of the longest run, in the unit drawn. */
export function endOf(data) {
  return Math.max(0, ...data.panels.map(panel => panel.passes.end));
}

/** The next step after a position; in seconds, the next end of a pass in any chart. */
export function stepAfter(data, position) {
  if (position === Infinity) return Infinity;
  if (data.unit !== "second") return Math.floor(position + CLOSE) + 1;
  return Math.min(Infinity, ...data.panels.map(panel => firstAfter(edges(panel), position)));
}

/** The step before a position; in seconds, the last start of a pass before it. */
export function stepBefore(data, position) {
  const from = Math.min(position, endOf(data));
  if (data.unit !== "second") return Math.ceil(from - CLOSE) - 1;
  return Math.max(0, ...data.panels.map(panel => lastBefore(edges(panel), from)));
}

/** The index of the pass at a place: the one that covers it, or, where `covers` is false, the one that ends there.
 *  null before the first pass; the number of passes after the last. */
export function passAt(passes, at, covers) {
  if (!passes.x.length || (!covers && at <= passes.x[0] + CLOSE)) return null;
  if (at > passes.end + CLOSE) return passes.x.length;
  const after = indexAfter(passes.x, covers ? at : at - CLOSE * Math.max(1, at) - CLOSE);
  return after === 0 ? null : after - 1;
}

const edges = panel => panel.passes.x.length ? [...panel.passes.x, panel.passes.end] : [];

function firstAfter(sorted, value) {
  const place = indexAfter(sorted, value + CLOSE);
  return place < sorted.length ? sorted[place] : Infinity;
}

function lastBefore(sorted, value) {
  let place = indexAfter(sorted, value - CLOSE);
  while (place > 0 && sorted[place - 1] >= value - CLOSE) place -= 1;
  return place > 0 ? sorted[place - 1] : 0;
}

/** The number of values that are at most `value`. */
function indexAfter(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
