/* Figures as text, as flushlab's reports write them. Pure. */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** Three digits that count; thousands in groups. */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 100 || value === 0) return whole.format(value);
  if (size < 0.0005) return "0";
  return String(Number(value.toPrecision(size >= 1 ? 3 : 2)));
}

function scaled(value, base, units) {
  let step = 0;
  while (Math.abs(value) >= base && step < units.length - 1) {
    value /= base;
    step += 1;
  }
  return `${number(value)}${units[step]}`;
}

/** For axes: 12k, 3.4M. */
export const short = (value) => scaled(value, 1000, ["", "k", "M", "G", "T"]);

/** 1.5 MiB. */
export function size(value) {
  if (value === null || value === undefined) return "–";
  return scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
}

export const perSecond = (value) => (value === null ? "–" : `${number(value)}/s`);
export const sizePerSecond = (value) => (value === null ? "–" : `${size(value)}/s`);
export const milliseconds = (value) => (value === null ? "–" : `${number(value)} ms`);
export const percent = (value) => (value === null || value === undefined ? "–" : `${number(value * 100)} %`);

/** 80 -> 1 min 20 s. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const all = Math.max(0, Math.round(seconds));
  const [days, hours, minutes] = [Math.floor(all / 86400), Math.floor(all / 3600) % 24, Math.floor(all / 60) % 60];
  if (days) return `${days} d${hours ? ` ${hours} h` : ""}`;
  if (hours) return `${hours} h${minutes ? ` ${minutes} min` : ""}`;
  if (minutes) return `${minutes} min${all % 60 ? ` ${all % 60} s` : ""}`;
  return `${all} s`;
}

const two = (value) => String(value).padStart(2, "0");

/** Unix seconds -> 14:03:12, in the reader's time zone. */
export function clock(seconds, withSeconds = true) {
  const at = new Date(seconds * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}${withSeconds ? `:${two(at.getSeconds())}` : ""}`;
}

/** 1 connection, 2 connections. */
export const counted = (count, noun) => `${whole.format(count)} ${noun}${count === 1 ? "" : "s"}`;
