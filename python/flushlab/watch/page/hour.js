/* The last hour as columns: what the plots draw. Pure. */

const ROOM = 3600;
const SLACK = 300;
/* seconds between two samples from which on nothing is drawn between them */
const GAP_S = 3;

const asleep = (one) => one.command === "Sleep";
const sum = (all, of) => all.reduce((so, one) => so + (of(one) ?? 0), 0);

function connections(sample, of) {
  return sample.server.up && sample.connections ? of(sample.connections) : null;
}

const waiting = (sample, ...waits) => (sample.diagnosis ? sum(waits, (wait) => sample.diagnosis.waits[wait]) : null);

/** Every figure of a sample that is drawn, by its name. */
export const FIGURES = {
  throughput: (s) => s.throughput,
  p50: (s) => s.p50_ms,
  p99: (s) => s.p99_ms,
  checkpointAge: (s) => s.redo?.checkpoint_age,
  redoCapacity: (s) => s.redo?.capacity,
  dirty: (s) => s.dirty,
  syncsRedo: (s) => s.fsyncs?.redo,
  syncsData: (s) => s.fsyncs?.data,
  syncsBinlog: (s) => s.fsyncs?.binlog,
  group: (s) => s.commits_per_group,
  lockWaits: (s) => s.lock_waits?.per_s,
  lockWaiting: (s) => s.lock_waits?.now,
  binlog: (s) => s.binlog_bytes_per_s,
  inserted: (s) => s.rows_per_s?.inserted,
  updated: (s) => s.rows_per_s?.updated,
  deleted: (s) => s.rows_per_s?.deleted,
  cpuPressure: (s) => s.machine?.cpu_pressure,
  ioPressure: (s) => s.machine?.io_pressure,
  memoryPressure: (s) => s.machine?.memory_pressure,
  others: (s) => s.machine?.others,
  steal: (s) => s.machine?.steal,
  awake: (s) => connections(s, (all) => sum(all, (one) => (asleep(one) ? 0 : one.count))),
  asleep: (s) => connections(s, (all) => sum(all, (one) => (asleep(one) ? one.count - (one.in_transaction ?? 0) : 0))),
  waitCommit: (s) => waiting(s, "commit"),
  waitRowLock: (s) => waiting(s, "row lock"),
  waitTable: (s) => waiting(s, "metadata lock"),
  waitReplicas: (s) => waiting(s, "semi-sync", "certification", "flow control"),
  waitStatement: (s) => waiting(s, "statement"),
  waitReading: (s) => waiting(s, "reading"),
  waitClient: (s) => waiting(s, "client"),
  asleepInside: (s) => connections(s, (all) => sum(all, (one) => (asleep(one) ? one.in_transaction : 0))),
};

/** Seconds with their figures, what ran in them, and what began when. */
export class Hour {
  constructor() {
    this.clear();
  }

  clear() {
    this.times = [];
    this.figures = Object.fromEntries(Object.keys(FIGURES).map((name) => [name, []]));
    this.arms = [];
    this.marks = [];
    this.diagnosed = false;
    this.loaded = false;
  }

  get end() {
    return this.times.length ? this.times[this.times.length - 1] : 0;
  }

  add(sample) {
    if (sample.t <= this.end) this.#cut(this.#first((t) => t >= sample.t)); // the clock was set back
    if (this.end && sample.t - this.end > GAP_S) this.#push(this.end + 1, () => null, "");
    this.#push(sample.t, (of) => of(sample) ?? null, sample.running?.arm ?? "");
    for (const mark of sample.marks ?? []) this.marks.push(mark);
    this.diagnosed ||= Boolean(sample.diagnosis);
    this.loaded ||= typeof sample.p50_ms === "number";
    if (this.times.length > ROOM + SLACK) this.#drop(this.times.length - ROOM);
  }

  #push(t, figure, arm) {
    this.times.push(t);
    for (const [name, of] of Object.entries(FIGURES)) this.figures[name].push(figure(of));
    this.arms.push(arm);
  }

  #first(test) {
    const found = this.times.findIndex(test);
    return found < 0 ? this.times.length : found;
  }

  #cut(from) {
    for (const column of [this.times, this.arms, ...Object.values(this.figures)]) column.length = from;
    this.marks = this.marks.filter((mark) => mark.t <= this.end);
  }

  #drop(count) {
    for (const column of [this.times, this.arms, ...Object.values(this.figures)]) column.splice(0, count);
    this.marks = this.marks.filter((mark) => mark.t >= this.times[0]);
  }

  /** Number of the second that is nearest to a time; null before the first sample. */
  nearest(t) {
    if (!this.times.length) return null;
    let [low, high] = [0, this.times.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] < t) low = middle + 1;
      else high = middle;
    }
    return low > 0 && t - this.times[low - 1] < this.times[low] - t ? low - 1 : low;
  }

  /** Mean of a figure over seconds from one number up to another; null where there is none. */
  mean(name, from, to) {
    const known = this.figures[name].slice(from, to).filter((value) => value !== null);
    return known.length ? known.reduce((so, value) => so + value, 0) / known.length : null;
  }
}
