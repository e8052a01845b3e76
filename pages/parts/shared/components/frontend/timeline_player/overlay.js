// What is drawn over one Plotly chart: a cursor, a veil over what is not revealed yet, and the marks of a request.
//
// Places come from the chart's own axes (`_fullLayout`), so they follow zooming and resizing. The layer takes no
// pointer events: Plotly's hover texts and zoom work under it.

const SVG = "http://www.w3.org/2000/svg";
const LANE_SHARE = 0.88; // of a lane's height that a span fills, as in timeline.py

export class Overlay {
  constructor(key, style) {
    this.key = key;
    this.style = style;
    this.chart = null;
    this.layer = null;
    this.listeners = [];
    this.windowListeners = [];
    this.redraw = () => this.state && this.draw(this.state);
  }

  on(type, listener) { this.listeners.push([type, listener]); }

  onWindow(type, listener) {
    this.windowListeners.push([type, listener]);
    window.addEventListener(type, listener, true);
  }

  remove() {
    this.detach();
    for (const [type, listener] of this.windowListeners) window.removeEventListener(type, listener, true);
  }

  get found() { return document.querySelector(`.st-key-${CSS.escape(this.key)} .js-plotly-plot`); }

  /** Whether the chart on the page is not the one that was drawn over, or has lost the layer. */
  get isStale() { return this.found !== this.chart || (this.layer !== null && !this.layer?.isConnected); }

  attach() {
    const found = this.found;
    if (found === this.chart) return;
    this.detach();
    this.chart = found;
    if (!found) return;
    for (const [type, listener] of this.listeners) found.addEventListener(type, listener, true);
    found.on?.("plotly_afterplot", this.redraw);
    found.on?.("plotly_relayouting", this.redraw);
  }

  detach() {
    if (!this.chart) return;
    for (const [type, listener] of this.listeners) this.chart.removeEventListener(type, listener, true);
    this.chart.removeListener?.("plotly_afterplot", this.redraw);
    this.chart.removeListener?.("plotly_relayouting", this.redraw);
    this.layer?.remove();
    this.layer = null;
    this.chart = null;
  }

  /** The axes of the chart, and its plot area in pixels; null while it is not drawn. */
  get plot() {
    const layout = this.chart?._fullLayout;
    const x = layout?.xaxis, y = layout?.yaxis;
    if (!x?._length || !y?._length) return null;
    const tops = Object.keys(layout).filter(name => /^yaxis\d*$/.test(name)).map(name => layout[name]);
    const top = Math.min(...tops.map(axis => axis._offset));
    const bottom = Math.max(...tops.map(axis => axis._offset + axis._length));
    return { x, y, queue: layout.yaxis2, left: x._offset, right: x._offset + x._length, top, bottom };
  }

  /** Where an event is: x in the axis' unit, and the lane; null outside the plot area. `lane` is null over the queue. */
  placeOf(event) {
    const plot = this.plot;
    if (!plot) return null;
    const box = this.chart.getBoundingClientRect();
    const left = event.clientX - box.left, top = event.clientY - box.top;
    if (left < plot.left || left > plot.right || top < plot.top || top > plot.bottom) return null;
    const inLanes = top - plot.y._offset;
    const isLane = inLanes >= 0 && inLanes <= plot.y._length;
    return { x: plot.x.p2d(left - plot.left), lane: isLane ? Math.round(plot.y.p2d(inLanes)) : null };
  }

  draw(state) {
    this.state = state;
    this.attach();
    const plot = this.plot;
    if (!plot) return;
    const layer = this.clearedLayer();
    const at = value => plot.left + Math.min(Math.max(plot.x.d2p(value), 0), plot.right - plot.left);
    if (state.marks?.length) this.drawMarks(layer, plot, at, state);
    if (Number.isFinite(state.veiled ?? Infinity)) this.drawVeil(layer, plot, at(state.veiled));
    if (state.cursor !== null && state.cursor !== undefined) {
      const shown = plot.x.d2p(state.cursor);
      if (shown >= 0 && shown <= plot.right - plot.left) this.drawLine(layer, plot, at(state.cursor), "cursor");
    }
    const scale = this.chart.layout.meta?.scale ?? 1; // from seconds to the axis' unit
    (state.lines ?? []).forEach((line, row) => this.drawValue(layer, plot, at(line.at_s * scale), line.text, row));
  }

  clearedLayer() {
    const holder = this.chart.querySelector(".svg-container") ?? this.chart;
    if (this.layer?.parentNode !== holder) {
      this.layer?.remove();
      this.layer = shape("svg", { class: "lab-overlay", "aria-hidden": "true" });
      this.layer.style.cssText = "position:absolute;inset:0;width:100%;height:100%;pointer-events:none;overflow:hidden";
      // Over the spans, under the layer with legend and hover texts, which is the container's second drawing.
      holder.insertBefore(this.layer, holder.querySelectorAll(":scope > .main-svg")[1] ?? null);
    }
    this.layer.replaceChildren();
    return this.layer;
  }

  /** Everything but the request's spans fades; its spans have an outline, and the strip its time in the queue. */
  drawMarks(layer, plot, at, state) {
    const half = Math.abs(plot.y.d2p(LANE_SHARE / 2) - plot.y.d2p(0));
    const boxes = state.marks.map(([lane, start, end]) => {
      const middle = plot.y._offset + plot.y.d2p(lane);
      return { x: at(start), y: middle - half, width: Math.max(at(end) - at(start), 1), height: 2 * half };
    }).filter(box => box.x < plot.right && box.x + box.width > plot.left);
    const hole = box => `M${box.x} ${box.y}h${box.width}v${box.height}h${-box.width}z`;
    const lanes = { x: plot.left, y: plot.y._offset, width: plot.right - plot.left, height: plot.y._length };
    layer.append(shape("path", {
      d: [lanes, ...boxes].map(hole).join(""), "fill-rule": "evenodd", fill: this.surface, "fill-opacity": 0.55,
      class: "fade",
    }));
    for (const [width, color] of [[4, this.surface], [2, this.ink]]) {
      for (const box of boxes) {
        layer.append(shape("rect", { ...box, fill: "none", stroke: color, "stroke-width": width, class: "mark" }));
      }
    }
    if (state.wait && plot.queue?._length) {
      const [from, to] = state.wait.map(at);
      const y = plot.queue._offset, height = plot.queue._length;
      const width = Math.max(to - from, 1);
      layer.append(shape("rect", { x: from, y, width, height, fill: this.ink, "fill-opacity": 0.12, class: "wait" }));
      const d = `M${from} ${y + height}V${y}H${from + width}V${y + height}`;
      layer.append(shape("path", { d, fill: "none", stroke: this.ink, "stroke-width": 1.5 }));
    }
  }

  drawVeil(layer, plot, left) {
    const width = Math.max(plot.right - left, 0) + 2, height = plot.bottom - plot.top + 4; // and the marks' outlines
    layer.append(shape("rect", { x: left, y: plot.top - 2, width, height, fill: this.surface, class: "veil" }));
  }

  drawLine(layer, plot, x, name) {
    const ends = { x1: x, x2: x, y1: plot.top, y2: plot.bottom };
    layer.append(shape("line", { ...ends, stroke: this.ink, "stroke-width": 1, class: name }));
  }

  drawValue(layer, plot, x, text, row) {
    this.drawLine(layer, plot, x, "value");
    const isRight = x > (plot.left + plot.right) / 2;
    const label = shape("text", {
      x: x + (isRight ? -4 : 4), y: plot.bottom - 6 - 15 * row, fill: this.ink, "text-anchor": isRight ? "end" : "start",
      stroke: this.surface, "stroke-width": 3, "paint-order": "stroke", "font-size": 12,
      "font-family": this.style.fontFamily,
    });
    label.textContent = text;
    layer.append(label);
  }

  get ink() { return this.style.getPropertyValue("--st-text-color") || "#262b33"; }
  get surface() { return this.style.getPropertyValue("--st-background-color") || "#ffffff"; }
}

function shape(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
