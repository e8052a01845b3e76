// The timeline player: one cursor through several Plotly charts, playing step by step, and marking a request.
//
// The charts are Streamlit's own; this draws over them and never changes them, so their hover texts, legends and
// buttons stay. `data` is described in timeline_player.py. Clicks and choices go to Python as the triggers `pick`
// and `choose`.

import { Overlay } from "./overlay.js";
import { endOf, passAt, stepAfter, stepBefore } from "./positions.js";

const LONGEST_PLAY_S = 20, SHORTEST_PLAY_S = 4, STEP_S = 0.25;
const CLICK_PX = 5;
const WIDE_PX = 700; // on a narrow page the bar would cover half of the window
const HIGH_WINDOWS = 1.2; // a little more than a window: the tiles below short timelines are not covered
const ICONS = {
  start: "M5 5h2v14H5zM19 5v14l-10-7z",
  back: "M17 5v14L6 12z",
  play: "M7 4v16l13-8z",
  pause: "M6 5h4v14H6zM14 5h4v14h-4z",
  forward: "M7 5l11 7-11 7z",
  all: "M17 5h2v14h-2zM5 5l10 7-10 7z",
};
const BUTTONS = [
  ["start", "To the start"], ["back", "One step back"], ["play", "Play"], ["forward", "One step forward"],
  ["all", "Show all"],
];
const NOUNS = { step: "step", pass: "forward pass", second: "time" };
const players = new WeakMap();
const digits = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
const counts = new Intl.NumberFormat("en-US");

export default function timelinePlayer({ parentElement, data, setTriggerValue }) {
  const player = players.get(parentElement) ?? new Player(parentElement);
  players.set(parentElement, player);
  player.update(data, setTriggerValue);
  return () => { player.remove(); players.delete(parentElement); };
}

class Player {
  constructor(root) {
    this.root = root;
    this.data = { panels: [], followers: [], values: [], unit: "step", requests: [] };
    this.position = Infinity; // all that lies before it is revealed
    this.hovered = null;
    this.timer = null;
    this.overlays = new Map(); // of each chart, by its key
    this.build();
    // A chart may be drawn later than this, or again: only then is there something to do.
    this.watcher = new MutationObserver(() => [...this.overlays.values()].some(each => each.isStale) && this.later());
    this.watcher.observe(document.body, { childList: true, subtree: true });
    this.stick();
    this.resized = () => this.later();
    window.addEventListener("resize", this.resized);
  }

  /** Of timelines that are higher than the window, the bar stays in view at its lower edge: the boxes that Streamlit
   *  draws around a fragment would keep it in their own bounds. */
  stick() {
    const holder = this.root.host.closest('[data-testid="stElementContainer"]');
    if (!holder) return;
    const boxes = [holder.parentElement, holder.parentElement.parentElement];
    for (const box of boxes) box.style.display = "contents";
    const isHigh = boxes[1].parentElement.getBoundingClientRect().height > HIGH_WINDOWS * window.innerHeight;
    const isStuck = isHigh && window.innerWidth >= WIDE_PX;
    Object.assign(holder.style, { position: isStuck ? "sticky" : "", bottom: "0", zIndex: 5 });
  }

  remove() {
    this.pause();
    this.watcher.disconnect();
    window.removeEventListener("resize", this.resized);
    for (const overlay of this.overlays.values()) overlay.remove();
  }

  update(data, send) {
    const isOther = data.unit !== this.data.unit || endOf(data) !== endOf(this.data);
    this.data = data;
    this.send = send;
    if (isOther) { this.pause(); this.position = Infinity; this.hovered = null; }
    this.range.max = endOf(data);
    this.range.step = data.unit === "second" ? "any" : 1;
    this.range.setAttribute("aria-label", `Position, ${data.unit === "second" ? "seconds" : `${NOUNS[data.unit]}s`}`);
    this.request.value = data.request ?? "";
    this.request.max = data.last_request;
    this.clear.hidden = data.request === null;
    this.drawRows();
    this.draw();
  }

  // ---- the bar

  build() {
    const bar = element("div", { class: "bar", role: "group", tabindex: 0, "aria-label": "Timeline player" });
    bar.title = "Space: play or pause. Arrow keys: one step. Home: to the start. End: show all. Escape: no request.";
    this.buttons = {};
    for (const [name, label] of BUTTONS) {
      const button = element("button", { type: "button", class: name });
      button.addEventListener("click", () => this.act(name));
      this.buttons[name] = button;
      setButton(button, name, label);
      bar.append(button);
    }
    this.range = element("input", { type: "range", min: 0, value: 0 });
    this.range.addEventListener("input", () => { this.pause(); this.moveTo(Number(this.range.value)); });
    this.request = element("input", { type: "number", min: 0, step: 1, "aria-label": "Request", placeholder: "none" });
    this.request.addEventListener("change", () => this.choose(this.request.value));
    const label = element("label", { class: "request" });
    label.append("Request ", this.request);
    this.clear = element("button", { type: "button", class: "clear" });
    this.clear.textContent = "Clear";
    this.clear.addEventListener("click", () => this.choose(""));
    bar.append(this.range, label, this.clear);
    this.output = element("output", { class: "values", "aria-live": "off" });
    bar.append(this.output);
    bar.addEventListener("keydown", event => this.onKey(event));
    this.bar = bar;
    this.root.append(bar);
  }

  act(name) {
    const actions = {
      start: () => this.moveTo(0),
      back: () => this.moveTo(stepBefore(this.data, this.position)),
      forward: () => this.moveTo(stepAfter(this.data, this.position)),
      all: () => this.moveTo(Infinity),
      play: () => (this.timer ? this.pause() : this.play()),
    };
    if (name !== "play") this.pause();
    actions[name]();
  }

  onKey(event) {
    const inNumber = event.target === this.request;
    const name = { " ": "play", ArrowLeft: "back", ArrowRight: "forward", Home: "start", End: "all" }[event.key];
    if (event.key === "Escape") { this.choose(""); event.preventDefault(); }
    if (!name || inNumber || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " && event.target.tagName === "BUTTON") return; // the button's own key
    event.preventDefault();
    this.act(name);
  }

  choose(text) {
    const wanted = text === "" ? null : Number(text);
    if (wanted === (this.data.request ?? null)) return;
    this.send("choose", wanted);
  }

  // ---- positions

  moveTo(position) {
    this.position = Math.min(Math.max(position, 0), Infinity);
    if (this.position >= endOf(this.data)) this.position = Infinity;
    this.hovered = null;
    this.draw();
  }

  play() {
    const end = endOf(this.data);
    if (this.position === Infinity) this.moveTo(0);
    const wanted = this.data.unit === "second" ? end : end * STEP_S;
    const perMs = end / Math.min(Math.max(wanted, SHORTEST_PLAY_S), LONGEST_PLAY_S) / 1000;
    let exact = this.position, before = performance.now();
    setButton(this.buttons.play, "pause", "Pause");
    this.timer = setInterval(() => {
      const now = performance.now();
      exact += (now - before) * perMs;
      before = now;
      this.moveTo(this.data.unit === "second" ? exact : Math.floor(exact + 1e-9));
      if (this.position === Infinity) this.pause();
    }, 40);
  }

  pause() {
    if (!this.timer) return;
    clearInterval(this.timer);
    this.timer = null;
    setButton(this.buttons.play, "play", "Play");
  }

  // ---- drawing

  later() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = null; this.draw(); });
  }

  draw() {
    const { panels, followers, values } = this.data;
    const keys = new Set([...panels, ...followers, ...values].map(chart => chart.key));
    for (const [key, overlay] of this.overlays) {
      if (!keys.has(key)) { overlay.remove(); this.overlays.delete(key); }
    }
    const cursor = this.hovered ?? (this.position === Infinity ? null : this.position);
    const state = { cursor, veiled: this.position, unit: this.data.unit };
    for (const panel of panels) this.overlay(panel.key, panel).draw({ ...state, marks: panel.marks, wait: panel.wait });
    for (const chart of followers) this.overlay(chart.key, null).draw(state);
    for (const chart of values) this.overlay(chart.key, null, false).draw({ lines: chart.lines });
    this.range.value = Math.min(this.position, endOf(this.data));
    this.drawValues(cursor);
  }

  overlay(key, panel, hasTime = true) {
    if (!this.overlays.has(key)) {
      const found = new Overlay(key, getComputedStyle(this.bar));
      if (hasTime) this.listen(found);
      this.overlays.set(key, found);
    }
    const overlay = this.overlays.get(key);
    overlay.panel = panel;
    return overlay;
  }

  listen(overlay) {
    let pressed = null;
    overlay.on("pointermove", event => {
      const place = overlay.placeOf(event);
      const x = place && place.x >= 0 && place.x <= endOf(this.data) ? place.x : null;
      if (x !== this.hovered) { this.hovered = x; this.later(); }
    });
    overlay.on("pointerleave", () => { this.hovered = null; this.later(); });
    overlay.on("pointerdown", event => { pressed = { x: event.clientX, y: event.clientY, at: event.timeStamp }; });
    // Plotly covers the page while a button is down, so the release is heard by the window.
    overlay.onWindow("pointerup", event => {
      const start = pressed;
      pressed = null;
      if (!start || Math.hypot(event.clientX - start.x, event.clientY - start.y) > CLICK_PX) return;
      const place = overlay.placeOf(event);
      if (!place || !overlay.panel || place.lane === null) return;
      this.send("pick", { panel: overlay.panel.key, lane: place.lane, at: place.x });
      this.bar.focus({ preventScroll: true }); // space and the arrows now play
    });
  }

  drawRows() {
    const rows = [element("span", { class: "where" })];
    for (const panel of this.data.panels) {
      const name = element("span", { class: "name" });
      name.textContent = panel.name;
      rows.push(name, element("span", { class: "pass" }));
    }
    this.output.replaceChildren(...rows);
    this.output.classList.toggle("single", this.data.panels.length === 1);
  }

  drawValues(cursor) {
    const isHover = this.hovered !== null;
    const at = cursor ?? endOf(this.data);
    this.output.setAttribute("aria-live", isHover || this.timer ? "off" : "polite");
    this.output.querySelector(".where").textContent = this.whereText(at, cursor === null, isHover);
    this.output.querySelectorAll(".pass").forEach((row, place) => {
      const passes = this.data.panels[place].passes;
      const unit = this.data.unit;
      row.textContent = cursor === null ? endText(passes, unit) : passText(passes, passAt(passes, at, isHover), unit);
    });
  }

  whereText(at, isAll, isHover) {
    const end = endOf(this.data);
    if (isAll) return "Point at a pass to read it, click a request to mark it.";
    if (this.data.unit === "second") return `${digits.format(at)} s of ${digits.format(end)} s`;
    const noun = NOUNS[this.data.unit];
    if (isHover) return `${noun} ${counts.format(Math.floor(at))}`;
    return `up to ${noun} ${counts.format(at)} of ${counts.format(end)}`;
  }
}

function endText(passes, unit) {
  if (!passes.x.length) return "no pass yet";
  if (unit === "second") return `ends at ${digits.format(passes.end)} s`;
  return `ends at ${NOUNS[unit]} ${counts.format(passes.end)}`;
}

/** What a pass did, in one line: `decode · 4 rows, 2 dead · 3 waiting · 62.1 ms`. */
function passText(passes, place, unit) {
  if (place === null) return "no pass yet";
  if (place === passes.x.length) return "ended";
  const rows = passes.rows[place], dead = rows - passes.live[place];
  const parts = [`${passes.kind[place]}`, `${counts.format(rows)} ${rows === 1 ? "row" : "rows"}`];
  if (dead > 0) parts[1] += `, ${counts.format(dead)} dead`;
  parts.push(`${counts.format(passes.queue[place])} waiting`);
  if (passes.ms.length) parts.push(`${digits.format(passes.ms[place])} ms`);
  if (passes.other.length) {
    const other = passes.other[place];
    parts.push(unit === "second" ? `step ${counts.format(Math.floor(other))}` : `at ${digits.format(other)} s`);
  }
  return (passes.thinned ? "near here: " : "") + parts.join(" · ");
}

function setButton(button, icon, label) {
  button.setAttribute("aria-label", label);
  button.title = label;
  button.innerHTML = `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${ICONS[icon]}"/></svg>`;
}

function element(tag, attributes) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
