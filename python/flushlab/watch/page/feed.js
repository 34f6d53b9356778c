/* The feed: the last hour, then a sample a second, without a gap and without end.

The stream goes on behind the hour's last sample. One that breaks is taken up by the browser, which names the last
sample that it had (Last-Event-ID); one that was refused is opened anew here, and starts over with the hour.
*/

const RETRY_MS = 2000;

/** Calls `begin(samples)` with the hour, at every new start too, `add(sample)` for each second, `contact(there)`. */
export async function follow(viewer) {
  const again = () => {
    viewer.contact(false);
    setTimeout(() => follow(viewer), RETRY_MS);
  };
  let last;
  try {
    const answer = await fetch("api/history", { cache: "no-store" });
    if (!answer.ok) throw new Error(`history: ${answer.status}`);
    const hour = await answer.json();
    last = hour.last;
    viewer.begin(hour.samples);
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
