/* The plots: what each shows, how it is drawn, and how it is read by keyboard, by ear and as a table. */

import { clock, duration, milliseconds, number, perSecond, percent, short, size, sizePerSecond } from "./format.js";

const HEIGHT = 150;
const LANE = 5;
const TABLE_ROWS = 60;
const STEP_S = 30;
/* seconds that a page shows at least: one that has just begun is not squeezed to the edge of a quarter of an hour */
const LEAST_S = 60;
const MAX_LINES = 80;
const MAX_TEXT = 24;
const ARM_INKS = 8;

const line = (name, label, ink, show) => ({ name, label, ink, show });

/* about: one sentence, where a name does not say it. least: the lowest top of the axis. when: it is shown. */
const PLOTS = [
  { key: "throughput", title: "Throughput", lines: [line("throughput", "rate", "accent", perSecond)] },
  {
    key: "latency",
    title: "Latency",
    about: "Of flushlab's own load: half and 99 of 100 are faster.",
    when: (hour) => hour.loaded,
    lines: [line("p50", "p50", "class-data", milliseconds), line("p99", "p99", "class-binlog", milliseconds)],
    axis: (value) => `${short(value)} ms`,
  },
  {
    key: "writers",
    title: "Writers by wait",
    about: "Mean number of connections that write, by what they wait for: the time that they spend there in a second.",
    when: (hour) => hour.diagnosed,
    lines: [
      line("waitCommit", "commit", "class-redo", number),
      line("waitRowLock", "row locks", "class-binlog", number),
      line("waitTable", "metadata lock", "bad", number),
      line("waitReplicas", "replicas", "class-doublewrite", number),
      line("waitStatement", "executing", "class-data", number),
      line("waitReading", "reading", "class-undo", number),
      line("waitClient", "client's turn", "mute", number),
    ],
  },
  {
    key: "redo",
    title: "Checkpoint age",
    about: "What a recovery would read; close to the capacity, writes wait for pages to be flushed.",
    lines: [line("checkpointAge", "age", "class-redo", size), line("redoCapacity", "capacity", "mute", size)],
    axis: size,
    binary: true,
  },
  {
    key: "dirty",
    title: "Dirty pages",
    about: "Of the buffer pool: changed, not yet in the data files.",
    lines: [line("dirty", "dirty", "class-data", percent)],
    axis: percent,
    least: 0.1,
  },
  {
    key: "syncs",
    title: "Syncs by file",
    lines: [
      line("syncsRedo", "redo", "class-redo", perSecond),
      line("syncsData", "data", "class-data", perSecond),
      line("syncsBinlog", "binlog", "class-binlog", perSecond),
    ],
  },
  {
    key: "group",
    title: "Commits per group",
    about: "Transactions that one sync of the binary log makes durable.",
    lines: [line("group", "commits", "class-binlog", number)],
    least: 2,
  },
  {
    key: "locks",
    title: "Row lock waits",
    lines: [line("lockWaits", "begun", "class-doublewrite", perSecond), line("lockWaiting", "waiting now", "bad", number)],
  },
  {
    key: "binlog",
    title: "Binary log",
    lines: [line("binlog", "written", "class-binlog", sizePerSecond)],
    axis: size,
    binary: true,
  },
  {
    key: "rows",
    title: "Rows",
    lines: [
      line("inserted", "inserted", "class-redo", perSecond),
      line("updated", "updated", "class-doublewrite", perSecond),
      line("deleted", "deleted", "class-undo", perSecond),
    ],
  },
  {
    key: "pressure",
    title: "Pressure on the machine",
    about: "Share of the time in which something waited for it.",
    lines: [
      line("cpuPressure", "CPU", "class-undo", percent),
      line("ioPressure", "disk", "class-redo", percent),
      line("memoryPressure", "memory", "class-doublewrite", percent),
    ],
    axis: percent,
    least: 0.1,
  },
  {
    key: "others",
    title: "What others take",
    about: "Of the CPU: other programs, and other guests of the host.",
    lines: [line("others", "others", "mute", percent), line("steal", "steal", "bad", percent)],
    axis: percent,
    least: 0.1,
  },
  {
    key: "connections",
    title: "Connections",
    lines: [
      line("awake", "at work", "class-data", number),
      line("asleep", "asleep", "mute", number),
      line("asleepInside", "asleep in a transaction", "bad", number),
    ],
    least: 4,
  },
];

const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power);

function made(tag, { text, ...attributes } = {}, children = []) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const cut = (text) => (text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT - 1)}…` : text);

/** The colours of the style sheet, read once per colour scheme. */
class Inks {
  constructor() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.known.clear());
    this.known = new Map();
  }

  of(name) {
    if (!this.known.has(name)) {
      this.known.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
    }
    return this.known.get(name);
  }
}

class Plot {
  constructor(board, spec) {
    this.board = board;
    this.spec = spec;
    this.stale = true;
    this.seen = false;
    const id = `plot-${spec.key}`;
    this.time = made("span", { class: "time" });
    this.values = spec.lines.map(() => made("b", { text: "–" }));
    this.plane = made("div", {
      class: "plane",
      tabindex: "0",
      role: "slider",
      "aria-labelledby": id,
      "aria-describedby": "keyboard",
      "aria-orientation": "horizontal",
      "aria-valuemin": "0",
      "aria-valuemax": "0",
      "aria-valuenow": "0",
      "aria-valuetext": "now",
    });
    this.table = made("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${spec.title} as a table` });
    const details = made("details", {}, [made("summary", { text: "Table" }, [made("span", { class: "hidden", text: ` of ${spec.title}` })]), this.table]);
    details.addEventListener("toggle", () => this.tabulate(details.open));
    this.heading = made("h3", { id, text: spec.title });
    this.card = made("article", { class: "card", "aria-labelledby": id }, [
      made("div", { class: "head" }, [this.heading, this.time]),
      made(
        "ul",
        { class: "legend" },
        spec.lines.map((one, index) =>
          made("li", {}, [made("i", { class: `ink-${one.ink}` }), document.createTextNode(`${one.label} `), this.values[index]]),
        ),
      ),
      this.plane,
      ...(spec.about ? [made("p", { class: "about", text: spec.about })] : []),
      details,
    ]);
    this.plane.addEventListener("keydown", (event) => board.key(event, this));
  }

  get shown() {
    return this.spec.when?.(this.board.hour) ?? true;
  }

  get width() {
    return Math.max(120, this.plane.clientWidth);
  }

  build() {
    const { board, spec } = this;
    const { inks } = board;
    const font = `12px ${board.family}`;
    const axis = { font, stroke: () => inks.of("mute"), ticks: { show: false } };
    const grid = { stroke: () => inks.of("line"), width: 1 };
    this.plot = new uPlot(
      {
        width: this.width,
        height: HEIGHT,
        padding: [LANE + 9, 18, 0, 0],
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, sync: { key: "watch" }, y: false, points: { size: 7 } },
        scales: {
          x: { time: true, range: () => board.window },
          y: { range: (_plot, _least, most) => uPlot.rangeNum(0, Math.max(most ?? 0, spec.least ?? 1), { min: { pad: 0, hard: 0, mode: 1 }, max: { pad: 0.08, mode: 1 } }) },
        },
        axes: [
          { ...axis, size: 26, space: 76, grid: { show: false }, values: (_plot, all) => all.map((t) => clock(t, board.window[1] - board.window[0] <= 300)) },
          {
            ...axis,
            size: 62,
            space: 34,
            gap: 6,
            grid,
            values: (_plot, all) => all.map((value) => (spec.axis ?? short)(value)),
            ...(spec.binary ? { incrs: BINARY } : {}),
          },
        ],
        series: [
          {},
          ...spec.lines.map((one) => ({
            label: one.label,
            stroke: () => inks.of(one.ink),
            width: 1.5,
            points: { show: false },
          })),
        ],
        hooks: {
          draw: [(plot) => board.drawMarks(plot)],
          setCursor: [(plot) => this.read(plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : null)],
        },
      },
      this.data(),
      this.plane,
    );
    this.plane.querySelector("canvas").setAttribute("aria-hidden", "true");
  }

  data() {
    const { hour } = this.board;
    return [hour.times, ...this.spec.lines.map((one) => hour.figures[one.name])];
  }

  draw() {
    this.stale = false;
    if (!this.plot) this.build();
    else this.plot.setData(this.data());
    if (this.board.at === null) {
      if (!(this.plot.cursor.left >= 0)) this.read(null);
    } else this.point(this.board.at);
  }

  resize() {
    if (this.plot && this.plot.width !== this.width) this.plot.setSize({ width: this.width, height: HEIGHT });
  }

  /** Puts the line where that time is. */
  point(t) {
    if (!this.plot) return;
    const left = t === null ? -10 : this.plot.valToPos(t, "x");
    this.plot.setCursor({ left, top: t === null ? -10 : 1 }, true, false);
  }

  /** Writes the figures of that time beside the names; null: the newest. */
  read(t) {
    const { hour } = this.board;
    const index = t === null ? hour.times.length - 1 : hour.nearest(t);
    if (index === null || index < 0) return;
    this.spec.lines.forEach((one, number) => {
      this.values[number].textContent = one.show(hour.figures[one.name][index]);
    });
    this.time.textContent = t === null ? "" : `${clock(hour.times[index])} ${cut(hour.arms[index])}`;
  }

  /** The figures of a second in words. */
  words(index) {
    const { hour } = this.board;
    return this.spec.lines.map((one) => `${one.label} ${one.show(hour.figures[one.name][index])}`).join(", ");
  }

  tabulate(open) {
    if (!open) {
      this.table.replaceChildren();
      return;
    }
    const { hour, range } = this.board;
    const step = Math.ceil(range / TABLE_ROWS);
    const rows = [];
    for (let to = hour.times.length; to > 0 && rows.length < TABLE_ROWS; to -= step) {
      const from = Math.max(0, to - step);
      rows.push(
        made("tr", {}, [
          made("th", { scope: "row", text: clock(hour.times[from]) }),
          ...this.spec.lines.map((one) => made("td", { class: "num", text: one.show(hour.mean(one.name, from, to)) })),
        ]),
      );
    }
    const caption = `${step === 1 ? "Each second" : `Means of ${duration(step)}`} until ${clock(hour.end)}; open it again for later ones`;
    this.table.replaceChildren(
      made("table", {}, [
        made("caption", { text: caption }),
        made("thead", {}, [
          made("tr", {}, [
            made("th", { scope: "col", text: "from" }),
            ...this.spec.lines.map((one) => made("th", { scope: "col", class: "num", text: one.label })),
          ]),
        ]),
        made("tbody", {}, rows),
      ]),
    );
  }
}

/** All plots over the same hour. `draw()` draws those that can be seen, a few per frame. */
export class Board {
  constructor(hour, { grid, legend, reading }) {
    this.hour = hour;
    this.range = 900;
    this.family = getComputedStyle(document.body).fontFamily;
    this.at = null;
    this.window = [0, 1];
    this.inks = new Inks();
    this.reading = reading;
    this.legend = legend;
    this.arms = new Map();
    this.plots = PLOTS.map((spec) => new Plot(this, spec));
    for (const plot of this.plots) plot.card.hidden = !plot.shown;
    grid.append(...this.plots.map((plot) => plot.card));
    const byPlane = new Map(this.plots.map((plot) => [plot.plane, plot]));
    const watched = new IntersectionObserver(
      (all) => {
        for (const one of all) byPlane.get(one.target).seen = one.isIntersecting;
        this.draw(false);
      },
      { rootMargin: "200px" },
    );
    const sized = new ResizeObserver((all) => all.forEach((one) => byPlane.get(one.target).resize()));
    for (const plane of byPlane.keys()) {
      watched.observe(plane);
      sized.observe(plane);
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Draws anew what is seen; with `all` false only what became visible since. */
  draw(all = true) {
    if (all) {
      const end = this.hour.end || Date.now() / 1000;
      const begun = Math.min(this.hour.times[0] ?? end, end - LEAST_S);
      this.window = [Math.max(begun, end - this.range), end];
      this.#nameArms();
      for (const plot of this.plots) {
        plot.stale = true;
        plot.card.hidden = !plot.shown;
      }
    }
    if (!this.drawing) this.drawing = requestAnimationFrame(() => this.#some());
  }

  async #some() {
    const until = performance.now() + 8;
    this.drawing = 0;
    for (const plot of this.plots) {
      if (!plot.stale || !plot.seen) continue;
      if (performance.now() > until) {
        this.draw(false);
        return;
      }
      plot.draw();
      await null; // uPlot draws in a microtask, which has run by then
    }
  }

  #nameArms() {
    const before = this.arms.size;
    for (const arm of this.hour.arms) if (arm && !this.arms.has(arm)) this.arms.set(arm, this.arms.size % ARM_INKS);
    if (this.arms.size === before) return;
    this.legend.replaceChildren(
      ...[...this.arms].map(([arm, ink]) => made("li", {}, [made("i", { class: `ink-arm-${ink}` }), document.createTextNode(arm)])),
    );
  }

  setRange(seconds) {
    this.range = seconds;
    this.draw();
  }

  /** Above the figures: whose slice it was, and lines where a stage or a trial began. */
  drawMarks(plot) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio || 1;
    const { times, arms, marks } = this.hour;
    const [from, to] = this.window;
    const x = (t) => plot.valToPos(Math.max(t, from), "x", true);
    const top = bbox.top - (LANE + 4) * ratio;
    ctx.save();
    for (let index = Math.max(0, this.hour.nearest(from) ?? 0), begun = index; index < times.length; index += 1) {
      if (index + 1 < times.length && arms[index + 1] === arms[begun]) continue;
      if (arms[begun]) {
        const end = index + 1 < times.length ? times[index + 1] : times[index];
        ctx.fillStyle = this.inks.of(`arm-${this.arms.get(arms[begun])}`);
        ctx.fillRect(x(times[begun]), top, Math.max(ratio, x(end) - x(times[begun])), LANE * ratio);
      }
      begun = index + 1;
    }
    const seen = marks.filter((mark) => mark.kind !== "slice" && mark.t >= from && mark.t <= to);
    ctx.font = `${11 * ratio}px ${this.family}`;
    ctx.lineWidth = ratio;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    let free = bbox.left;
    for (const mark of seen.slice(-MAX_LINES)) {
      const at = Math.round(x(mark.t)) + 0.5;
      ctx.strokeStyle = this.inks.of(mark.kind === "gap" ? "bad" : mark.kind === "stage" ? "mute" : "line");
      ctx.setLineDash(mark.kind === "trial" ? [] : [4 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
      const text = cut(mark.text);
      const width = ctx.measureText(text).width + 8 * ratio;
      if (mark.kind === "trial" || !text || at < free || at + width > bbox.left + bbox.width) continue;
      ctx.fillStyle = this.inks.of("mute");
      ctx.fillText(text, at + 4 * ratio, bbox.top + 2 * ratio);
      free = at + width;
    }
    ctx.restore();
  }

  /** Arrow keys and their kin: one time for all plots, its figures in words where the focus is. */
  key(event, plot) {
    const { hour } = this;
    if (!hour.times.length || event.ctrlKey || event.altKey || event.metaKey) return;
    const first = hour.nearest(this.window[0]);
    const last = hour.times.length - 1;
    const now = this.at === null ? last : hour.nearest(this.at);
    const step = event.shiftKey ? STEP_S : 1;
    const to = {
      ArrowLeft: now - step,
      ArrowDown: now - step,
      ArrowRight: now + step,
      ArrowUp: now + step,
      PageDown: now - STEP_S,
      PageUp: now + STEP_S,
      Home: first,
      End: last,
      " ": now,
      Enter: now,
      Escape: null,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const index = to === null ? null : Math.min(last, Math.max(first, to));
    this.at = index === null ? null : hour.times[index];
    for (const one of this.plots) one.point(this.at);
    const about = index ?? last;
    const range = { "aria-valuemin": "0", "aria-valuemax": last - first, "aria-valuenow": about - first };
    for (const [name, value] of Object.entries(range)) plot.plane.setAttribute(name, value);
    plot.plane.setAttribute("aria-valuetext", `${clock(hour.times[about])}: ${plot.words(about)}`);
    if (event.key === " " || event.key === "Enter") this.reading.textContent = this.words(about);
  }

  /** Every plot's figures of a second in words. */
  words(index) {
    const { hour } = this;
    const arm = hour.arms[index] ? `, ${hour.arms[index]}` : "";
    return `${clock(hour.times[index])}${arm}. ${this.plots.filter((one) => one.shown).map((one) => `${one.spec.title}: ${one.words(index)}`).join(". ")}.`;
  }

  /** Names what is counted. */
  unit(text) {
    const heading = `Throughput${text ? `, ${text}` : ""}`;
    if (this.plots[0].heading.textContent !== heading) this.plots[0].heading.textContent = heading;
  }
}
