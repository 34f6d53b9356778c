/* The page of `flushlab watch`: follows the feed and shows what runs, how it goes and who is connected.

Text of servers and users enters by textContent only. Nothing is loaded from elsewhere. What stands on the page
is changed in place, and only where it differs, so that a reader's place and selection stay.
*/

import { clock, counted, duration, number, percent, size } from "./format.js";
import { follow } from "./feed.js";
import { Hour } from "./hour.js";
import { Board } from "./plots.js";

const SLOW_S = 0.5;
const SILENT_MS = 5000;
const CPU_OVER = 60;

const element = (id) => document.getElementById(id);
const hour = new Hour();
const board = new Board(hour, { grid: element("grid"), legend: element("arms"), reading: element("reading") });

let last = null;
let heardAt = performance.now();
let heard = false;
let paused = false;
let fresh = false;
const cpu = [];

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Rows of a table, each a list of text or elements; cells stay where they are. */
function rows(table, all, classes) {
  const body = table.tBodies[0];
  while (body.rows.length > all.length) body.deleteRow(-1);
  all.forEach((cells, index) => {
    const row = body.rows[index] ?? body.insertRow();
    cells.forEach((cell, column) => {
      let at = row.cells[column];
      if (!at) {
        at = document.createElement(column ? "td" : "th");
        if (!column) at.scope = "row";
        if (classes[column]) at.className = classes[column];
        row.append(at);
      }
      if (typeof cell === "string") write(at, cell);
      else at.replaceChildren(cell);
    });
  });
}

function keys(list, pairs) {
  const known = pairs.filter(([, value]) => value);
  while (list.children.length > known.length) list.lastChild.remove();
  known.forEach(([name, value], index) => {
    let pair = list.children[index];
    if (!pair) {
      pair = document.createElement("div");
      pair.append(document.createElement("dt"), document.createElement("dd"));
      list.append(pair);
    }
    write(pair.children[0], name);
    write(pair.children[1], value);
  });
}

/* -- what runs now ------------------------------------------------------------------------------------------- */

function headline({ running, server, fill, failed, diagnosis }) {
  if (failed) return "Nothing is seen";
  if (!server.up) return `${server.name || "The server"} is gone since ${clock(server.since ?? last.t)}`;
  if (running?.kind === "fill" && fill) return `Filling: ${percent(fill.total ? Math.min(1, fill.rows / fill.total) : null)}`;
  if (running) return [running.arm || `flushlab ${running.kind}`, running.stage].filter(Boolean).join(" · ");
  if (diagnosis) return diagnosis.answer.split(". ")[0].replace(/\.$/, "");
  return "Nothing of flushlab runs";
}

function caveats({ server, failed }) {
  if (failed) return `${failed}. This is a bug in flushlab; the page goes on when it can.`;
  const all = [];
  if (!server.up) all.push(`${server.why ? `${server.why}. ` : ""}The page goes on when it is back.`);
  if (server.up && server.slow_s > SLOW_S) all.push(`The server takes ${number(server.slow_s)} s to answer; it is asked less often.`);
  if (server.missing?.length) {
    all.push(`The account lacks ${server.missing.join(", ")}: what needs it is left out.`);
  }
  return all.join(" ");
}

function showNow(sample) {
  const { running, server } = sample;
  write(element("server"), server.name ? `· ${server.name}` : "");
  write(element("headline"), headline(sample));
  const caveat = element("caveat");
  write(caveat, caveats(sample));
  caveat.hidden = !caveat.textContent;
  keys(element("now"), [
    ["Command", running?.kind],
    ["Campaign", running?.campaign],
    ["Workload", running?.workload],
    ["Server", server.name.startsWith(running?.server ?? "") ? "" : running.server],
    ["Floor", running?.floor],
    ["Round", running?.round ? String(running.round) : ""],
    ["Time left", running?.left_s === null || running?.left_s === undefined ? "" : duration(running.left_s)],
    ["Throughput", sample.throughput === null ? "" : `${number(sample.throughput)} ${sample.unit ?? ""}`],
  ]);
  board.unit(sample.unit);
  const rate = sample.throughput === null ? "" : `${number(sample.throughput)} ${sample.unit ?? ""} · `;
  document.title = `${rate}${headline(sample)} · flushlab watch`;
}

/* -- a fill -------------------------------------------------------------------------------------------------- */

function showFill({ fill }) {
  element("fill").hidden = !fill;
  if (!fill) return;
  const bar = element("fill-bar");
  bar.max = Math.max(1, fill.total ?? 0);
  bar.value = Math.min(bar.max, fill.rows);
  keys(element("fill-keys"), [
    ["Table", fill.table],
    ["Rows", fill.total ? `${number(fill.rows)} of ${number(fill.total)}` : number(fill.rows)],
    ["Rows per second", number(fill.rows_per_s)],
    ["Bytes", size(fill.bytes)],
    ["Time left", fill.left_s === null ? "" : duration(fill.left_s)],
  ]);
  write(element("fill-bound"), fill.bound_by ? `Bound by ${fill.bound_by}.` : "");
}

/* -- ratios -------------------------------------------------------------------------------------------------- */

const SVG = "http://www.w3.org/2000/svg";
const PICTURE = { width: 160, height: 18 };

function shape(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** The interval over a scale that all arms share; the line is 1.00, the base. */
function picture({ low, mid, high, early }, x) {
  const middle = PICTURE.height / 2;
  const drawn = shape("svg", { ...PICTURE, viewBox: `0 0 ${PICTURE.width} ${PICTURE.height}`, "aria-hidden": "true", class: early ? "ratio early" : "ratio" });
  drawn.append(shape("line", { x1: x(1), x2: x(1), y1: 0, y2: PICTURE.height, class: "one" }));
  if (low !== null && high !== null) drawn.append(shape("line", { x1: x(low), x2: x(high), y1: middle, y2: middle, class: "range" }));
  drawn.append(shape("circle", { cx: x(mid), cy: middle, r: 4 }));
  return drawn;
}

function showRatios({ ratios = [] }) {
  element("ratios").hidden = !ratios.length;
  if (!ratios.length) return;
  const bounds = ratios.flatMap(({ low, mid, high }) => [low ?? mid, high ?? mid]);
  const [least, most] = [Math.min(1, ...bounds), Math.max(1, ...bounds)];
  const x = (value) => 8 + ((value - least) / (most - least || 1)) * (PICTURE.width - 16);
  const early = ratios.some((one) => one.early);
  const what =
    ratios[0].objective === "p99"
      ? "How many times lower the p99 latency of each arm is than the base's"
      : "Throughput of each arm as a multiple of the base's";
  const analysis = early
    ? "an interim analysis: later ones follow, and a ratio that is good now may not last. Wait for the last one before you act."
    : "the last planned analysis.";
  write(element("ratios-about"), `${what}, with its 95 % interval, as of ${analysis}`);
  const two = (value) => (value === null || value === undefined ? "–" : value.toFixed(2));
  rows(
    element("ratios").querySelector("table"),
    ratios.map((one) => [
      one.arm,
      `×${two(one.mid)}`,
      one.low === null || one.high === null ? "not yet" : `${two(one.low)} – ${two(one.high)}`,
      picture(one, x),
      one.early ? "interim" : "result",
    ]),
    ["name", "num", "num", "wide", ""],
  );
}

/* -- findings ------------------------------------------------------------------------------------------------ */

/** A cell with a second line. */
function twoLines(text, below) {
  const cell = document.createElement("div");
  const small = document.createElement("small");
  write(small, below);
  cell.append(text, small);
  return cell;
}

const wholePercent = (share) => `${Math.round(100 * share)} %`;
const times = (factor) => `at most ${factor < 10 ? factor.toFixed(1) : Math.round(factor)}×`;

function showFindings({ diagnosis }) {
  element("findings").hidden = !diagnosis;
  if (!diagnosis) return;
  const { answer, findings, samples, seconds, writers } = diagnosis;
  const from = `From ${counted(samples, "sample")} of ${counted(writers, "writer")} in the last ${duration(seconds)}.`;
  write(element("findings-about"), `${answer} ${from} flushlab doctor has the statements to see it yourself, and changes to try.`);
  element("findings").querySelector(".scroll").hidden = !findings.length;
  rows(
    element("findings").querySelector("table"),
    findings.map((one) => [
      twoLines(one.title, [one.strength === "hint" ? "a hint" : one.strength, ...one.seen].join("; ")),
      one.mid === null ? "not measured" : twoLines(wholePercent(one.mid), `${wholePercent(one.low)} – ${wholePercent(one.high)}`),
      one.at_most !== null ? times(one.at_most) : one.mid === null ? "–" : "no bound",
    ]),
    ["", "num", "num"],
  );
}

/* -- connections --------------------------------------------------------------------------------------------- */

/** What sleepers cost, and what wait_timeout would and would not do about them. */
function sleepers({ connections, wait_timeout: timeout, max_connections: most, server }) {
  const sleeping = connections.filter((one) => one.command === "Sleep");
  const asleep = sleeping.reduce((all, one) => all + one.count, 0);
  const inside = sleeping.reduce((all, one) => all + (one.in_transaction ?? 0), 0);
  if (!asleep) return "No connection is asleep.";
  const said = [];
  if (inside) {
    said.push(
      `${counted(inside, "connection")} ${inside === 1 ? "is" : "are"} asleep inside a transaction: the locks stay held and purge must keep old row versions until it ends.`,
    );
  }
  const idle = asleep - inside;
  if (idle) {
    const places = most ? `one of the ${number(most)} allowed connections` : "one of max_connections";
    said.push(`${counted(idle, inside ? "other" : "connection")} ${idle === 1 ? "is" : "are"} asleep: each costs some memory and ${places}, nothing else.`);
  }
  const limit = timeout ? `wait_timeout (${duration(timeout)})` : "wait_timeout";
  said.push(
    `${limit} closes those that sleep longer. Each connection copied its value when it connected, so SET GLOBAL wait_timeout affects new ones only. KILL closes one now.`,
  );
  if (inside && server.name.startsWith("mariadb")) {
    said.push("On MariaDB, idle_transaction_timeout closes new connections that sleep inside a transaction.");
  }
  return said.join(" ");
}

function showConnections(sample) {
  const hurts = (one) => (one.command === "Sleep" ? (one.in_transaction ?? 0) : 0);
  const all = [...(sample.connections ?? [])].sort(
    (one, other) => hurts(other) - hurts(one) || other.count - one.count || one.user.localeCompare(other.user),
  );
  write(element("sleepers"), sample.server.up || all.length ? sleepers({ ...sample, connections: all }) : "Nobody answers.");
  rows(
    element("connections").querySelector("table"),
    all.map((one) => [
      one.user,
      one.command,
      number(one.count),
      duration(one.oldest_s),
      one.in_transaction === null ? "not visible" : number(one.in_transaction),
    ]),
    ["name", "", "num", "num", "num"],
  );
}

/* -- the page's own state ------------------------------------------------------------------------------------ */

function showState() {
  const silent = performance.now() - heardAt > SILENT_MS;
  const [kind, text] = !last
    ? ["wait", heard ? "waiting for the first sample" : "connecting"]
    : !heard || silent
      ? ["bad", `no contact with flushlab since ${clock(last.t)}; trying again`]
      : last.failed
        ? ["bad", `nothing is seen at ${clock(last.t)}`]
        : !last.server.up
          ? ["bad", `server gone since ${clock(last.server.since ?? last.t)}`]
          : paused
            ? ["wait", `paused at ${clock(board.window[1])}`]
            : ["good", "live"];
  const state = element("state");
  write(state, text);
  state.dataset.kind = kind;
}

function showCost({ t, own_cpu_s: used }) {
  if (used === undefined) return;
  if (cpu.length && (used < cpu[cpu.length - 1].used || t <= cpu[cpu.length - 1].t)) cpu.length = 0;
  cpu.push({ t, used });
  if (cpu.length > CPU_OVER) cpu.shift();
  const took = cpu.length > 5 ? (used - cpu[0].used) / (t - cpu[0].t) : null;
  write(element("cost"), took === null ? "" : `Watching uses ${percent(took)} of one CPU. Times are in this browser's time zone.`);
}

function show() {
  showState();
  if (!fresh || paused || document.hidden || !last) return;
  fresh = false;
  showNow(last);
  showFill(last);
  showRatios(last);
  showFindings(last);
  showConnections(last);
  showCost(last);
  board.draw();
}

let planned = 0;
function soon() {
  planned ||= requestAnimationFrame(() => {
    planned = 0;
    show();
  });
}

function take(sample) {
  hour.add(sample);
  last = sample;
  fresh = true;
}

follow({
  begin() {
    hour.clear();
  },
  past: take,
  add(sample) {
    heardAt = performance.now();
    take(sample);
    soon();
  },
  contact(there) {
    heard = there;
    if (there) heardAt = performance.now();
    soon();
  },
});

element("ranges").addEventListener("change", (event) => board.setRange(Number(event.target.value)));
element("pause").addEventListener("click", ({ currentTarget: button }) => {
  paused = !paused;
  button.setAttribute("aria-pressed", String(paused));
  fresh = true;
  soon();
});
document.addEventListener("visibilitychange", soon);
setInterval(showState, 1000);
