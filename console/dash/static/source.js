// Where answers come from: the server, or what an export holds in its page.

const held = document.getElementById("answers");
const answers = held ? JSON.parse(held.textContent) : null;
export const exported = answers !== null;

const SILENT = 12000; // milliseconds without an event after which positions are polled
const POLL = 2000;

/** The path of a view of a run, with its parameters. */
export function path(run, view, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value != null));
  const text = query.toString();
  return `/api/${encodeURIComponent(run)}/${view}${text ? `?${text}` : ""}`;
}

/** The answer to a path; throws an Error that says what to do. */
export async function ask(address) {
  if (exported) {
    const whole = address.replace(/[?&](after|whole)=[^&]*/, "");
    if (whole in answers) return answers[whole];
    throw new Error("This is not in the export → open the run with `rods dash`");
  }
  const response = await fetch(address);
  const answer = await response.json();
  if (!response.ok) throw new Error([answer.where, answer.error].filter(Boolean).join(": ") + ` → ${answer.remedy}`);
  return answer;
}

/** Calls `hear` with a run's positions whenever they come; returns what stops it. Nothing is asked while the page is not
 * seen: browsers hold few connections to a server, and a stream in every hidden tab would leave none. */
export function follow(run, hear) {
  if (exported) {
    ask(path(run, "positions")).then(hear);
    return () => {};
  }
  let heard = Date.now(), events = null;
  function open() {
    events?.close();
    events = null;
    if (document.hidden) return;
    heard = Date.now();
    events = new EventSource(`/events?run=${encodeURIComponent(run)}`);
    events.onmessage = (event) => {
      heard = Date.now();
      hear(JSON.parse(event.data));
    };
  }
  const poll = setInterval(() => {
    if (events && Date.now() - heard > SILENT) ask(path(run, "positions")).then(hear, (error) => hear({ error: error.message }));
  }, POLL);
  document.addEventListener("visibilitychange", open);
  open();
  return () => {
    document.removeEventListener("visibilitychange", open);
    events?.close();
    clearInterval(poll);
  };
}
