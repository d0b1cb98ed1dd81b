// Where answers come from: the server, or what an export holds in its page.

const held = document.getElementById("answers");
const answers = held ? JSON.parse(held.textContent) : null;
export const exported = answers !== null;

const POLL = 1000; // milliseconds

/** The path of a view of a run, with its parameters. */
export function path(run, view, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value != null));
  const text = query.toString();
  return `/api/${encodeURIComponent(run)}/${view}${text ? `?${text}` : ""}`;
}

/** The answer to a path; throws an Error that says what to do. */
export async function ask(address) {
  if (exported) {
    const whole = address.replace(/[?&]after=[^&]*/, "");
    if (whole in answers) return answers[whole];
    throw new Error("This is not in the export → open the run with `rods dash`");
  }
  const response = await fetch(address);
  const answer = await response.json();
  if (!response.ok) throw new Error([answer.where, answer.error].filter(Boolean).join(": ") + ` → ${answer.remedy}`);
  return answer;
}

/** Calls `hear` with a run's positions, once a second; returns what stops it. Nothing is asked while the page is not seen. */
export function follow(run, hear) {
  const asked = () => ask(path(run, "positions")).then(hear, (error) => hear({ error: error.message }));
  if (exported) {
    asked();
    return () => {};
  }
  let waiting = false;
  async function poll() {
    if (waiting || document.hidden) return;
    waiting = true;
    await asked();
    waiting = false;
  }
  const timer = setInterval(poll, POLL);
  document.addEventListener("visibilitychange", poll);
  poll();
  return () => {
    document.removeEventListener("visibilitychange", poll);
    clearInterval(timer);
  };
}
