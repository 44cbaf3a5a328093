// The job of an owner: an upload that is read, an audit or a bundle, as far as it is.

import { byId, element, get, post, sentence } from "./shared.js";

const POLL = 700; // milliseconds

let stage = async () => {};
let ended = async () => {};
let watching = null;

/** Who is told of a job's stages, and of its end. */
export function listen(atStage, atEnd) {
  stage = atStage;
  ended = atEnd;
}

/** Show the job until it ends, and return what it was in the end; null where that is not known. */
export function watch() {
  watching ??= follow().finally(() => (watching = null));
  return watching;
}

async function follow() {
  let last = "";
  try {
    for (;;) {
      const job = await get("v1/owner/job");
      tell(job);
      if (job.stage + job.state !== last) await stage(job);
      last = job.stage + job.state;
      if (job.state !== "running") {
        await ended(job);
        return job;
      }
      await new Promise((resolve) => setTimeout(resolve, POLL));
    }
  } catch (error) {
    byId("job-words").textContent = sentence(error.message);
    return null;
  }
}

const STATES = { done: "Done", failed: "Failed", stopped: "Stopped" };

export function tell(job) {
  const running = job.state === "running";
  const bar = byId("job-bar");
  byId("job").hidden = false;
  bar.hidden = !running;
  byId("job-stop").hidden = !running || !job.id;
  byId("job-title").textContent = running ? "Under way" : STATES[job.state];
  if (job.total) {
    bar.max = job.total;
    bar.value = job.done;
  } else {
    bar.removeAttribute("value");
  }
  byId("job-words").textContent = running ? `${job.stage}${far(job)}` : outcome(job);
  byId("job-notes").replaceChildren(...accountOf(job).map((text) => element("li", text)));
  byId("job-ask").hidden = job.kind !== "ingest" || job.state !== "done";
}

export const hide = () => (byId("job").hidden = true);

/** How far it is, and how long that still takes by its pace so far. */
function far({ kind, done, total, seconds_left: left }) {
  if (!total) return done ? `: ${done}` : "";
  const part = kind === "audit" ? `${done} %` : `${done} of ${total}`;
  if (!left || done === total) return `: ${part}`;
  const words = left < 90 ? `${left} seconds` : `${Math.round(left / 60)} minutes`;
  return `: ${part}, about ${words} left`;
}

function outcome(job) {
  if (job.state === "failed") return sentence(job.error);
  if (job.state === "stopped" && job.kind === "audit") {
    return "What was found until then is kept; the same audit goes on from there.";
  }
  if (job.state === "stopped" && job.kind === "publish") {
    return "What was released is kept; the same bundle goes on from there.";
  }
  if (job.state === "stopped") return "What was stored stays; the same upload goes on from there.";
  if (job.kind === "audit") {
    return `The audit of ${job.corpus} has ended. ` +
      (job.result.holds ? "All is within the claim." : "THE CLAIM DOES NOT HOLD.");
  }
  if (job.kind === "publish") {
    return `${job.corpus} is published: ${counted(job.result.items, "item")}.`;
  }
  return `${job.corpus} can be asked now.`;
}

/** A number of things, and a verb that goes with it. */
function counted(number, thing, is = "", are = "") {
  return number === 1 ? `1 ${thing} ${is}`.trim() : `${number} ${thing}s ${are}`.trim();
}

function accountOf(job) {
  if (job.kind === "publish" && job.result) {
    return [...job.result.changes, ...job.result.lost.map((one) => `paid for and lost: ${one}`)];
  }
  if (job.kind !== "ingest" || !job.result || job.state === "running") return [];
  if (job.state === "failed") return [job.result.summary];
  const { summary, read, loaded, skipped, units, passages, known } = job.result;
  return [
    summary,
    `${loaded} of ${counted(read, "record", "was", "were")} read, ${counted(units, "privacy unit")}.`,
    `${counted(passages, "passage", "is", "are")} new, ${known} ${known === 1 ? "was" : "were"} there.`,
    ...(skipped ? [`${counted(skipped, "record", "was", "were")} skipped:`] : []),
    ...job.result.first_skipped.map(({ position, reason }) => `${position}: ${reason}`),
  ];
}

byId("job-stop").addEventListener("click", () => post("v1/owner/job/stop", {}).then(tell, () => {}));
