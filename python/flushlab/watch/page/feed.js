/* The feed: the last hour, then a sample a second, without a gap and without end.

The stream goes on behind the hour's last sample. One that breaks is taken up by the browser, which names the last
sample that it had (Last-Event-ID); one that was refused is opened anew here, and starts over with the hour. An hour
is megabytes: it is read a few milliseconds at a time, so that the page answers meanwhile.
*/

const RETRY_MS = 2000;
const AT_A_TIME_MS = 8;

const breath = () => new Promise((go) => setTimeout(go));

/** Begins with the hour; the number of its last sample. The object's head is a line, then each sample is one. */
async function readHour(viewer) {
  const answer = await fetch("api/history", { cache: "no-store" });
  if (!answer.ok) throw new Error(`history: ${answer.status}`);
  const [head, ...lines] = (await answer.text()).split("\n");
  viewer.begin();
  let until = performance.now() + AT_A_TIME_MS;
  for (const line of lines) {
    if (line.startsWith("{")) viewer.past(JSON.parse(line.endsWith(",") ? line.slice(0, -1) : line));
    if (document.hidden || performance.now() < until) continue;
    await breath();
    until = performance.now() + AT_A_TIME_MS;
  }
  return JSON.parse(`${head}]}`).last;
}

/** Calls `begin()` and `past(sample)` for the hour, at every new start too, `add(sample)` for each second, `contact(there)`. */
export async function follow(viewer) {
  const again = () => {
    viewer.contact(false);
    setTimeout(() => follow(viewer), RETRY_MS);
  };
  let last;
  try {
    last = await readHour(viewer);
  } catch {
    again();
    return;
  }
  const source = new EventSource(`events?after=${last}`);
  source.onopen = () => viewer.contact(true);
  source.addEventListener("sample", (event) => viewer.add(JSON.parse(event.data)));
  source.onerror = () => {
    viewer.contact(false);
    if (source.readyState === EventSource.CLOSED) again();
  };
}
