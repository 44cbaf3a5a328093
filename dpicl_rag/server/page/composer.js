// The composer: a question, what is done with it by its words, and what that costs.

import * as durations from "./durations.js";
import { kindOf, told } from "./kinds.js";
import { byId, element, following, get, hold, sentence, swap } from "./shared.js";

const PAUSE = 400; // milliseconds without a letter
const PLANNED = 2000; // letters of a question; what is longer is a fact in any case

let edited = false; // whether the labels are the person's own
let waiting; // for the pause
let known = {}; // the plan that was asked for last, by its address
let before = () => "";

/** `last` gives the question that a follow-up to a corpus stands on, in whole words, or "". */
export function followOn(last) {
  before = last;
}

export const corpus = () => byId("model").value;

/** What is written: a question to a corpus, and what was chosen beside it. */
export function written() {
  const found = { question: byId("question").value.trim(), corpus: corpus() };
  const kind = byId("kind").value;
  const labels = byId("labels").value.split(",").map((label) => label.trim()).filter(Boolean);
  if (kind) found.kind = kind;
  if (edited && labels.length) found.labels = labels;
  return found;
}

function address({ question, corpus, kind, labels = [] }) {
  const asked = { model: corpus, question: question.slice(0, PLANNED), ...(kind && { kind }) };
  const last = before(corpus).slice(0, PLANNED);
  const fields = [...Object.entries(last ? { ...asked, before: last } : asked),
    ...labels.map((label) => ["labels", label])];
  return `v1/plan?${new URLSearchParams(fields)}`;
}

/** What would be done with a question, and its price; it is free. */
export function planOf(asked) {
  const at = address(asked);
  if (known.at !== at) {
    const plan = get(at);
    plan.catch(() => (known = {})); // to be asked for again
    known = { at, plan };
  }
  return known.plan;
}

/** Tell what would be done with what is written, and what answers like it took. */
export async function show() {
  clearTimeout(waiting);
  const asked = written();
  byId("send").disabled = !asked.corpus;
  if (!asked.question || !asked.corpus) return tell(null, null);
  const at = address(asked);
  let plan = null, line;
  try {
    plan = await planOf(asked);
    line = told(plan);
  } catch (error) {
    if (error.status === 401) throw error;
    line = sentence(error.message);
  }
  if (address(written()) === at) tell(line, plan); // else more was written meanwhile
}

function tell(line, plan) {
  const kind = plan?.kind ?? (byId("kind").value || "answer");
  const tallied = kind === "tally" && line !== null;
  const usual = durations.usual(measured(kind, corpus()));
  const change = () => {
    if (line === null) {
      const keys = "Enter asks, Shift and Enter begins a line.";
      byId("plan").replaceChildren(element("span", keys, "keys"));
    } else if (byId("plan").textContent !== line) { // not to be read out once more
      byId("plan").textContent = line;
    }
    byId("kind").hidden = line === null;
    byId("kind").options[0].text = byId("kind").value ? "By the question" : "Change";
    byId("labels").hidden = !tallied;
    byId("labels").required = tallied;
    if (!edited) byId("labels").value = plan?.labels.join(", ") ?? "";
    byId("question-hint").textContent =
      usual === undefined ? "" : `${kindOf(kind).took} ${durations.words(usual)}.`;
  };
  if (byId("empty").hidden) following(change); // the last turn stays above it
  else change();
}

/** What durations are kept by: a count takes another time than an answer. */
export const measured = (kind, model) => `${kind} ${model}`;

/** Write a question; what is to be filled in is marked. */
export function write(text) {
  clear();
  byId("question").value = text;
  byId("question").focus();
  const gap = text.indexOf("…");
  if (gap >= 0) byId("question").setSelectionRange(gap, gap + 1);
  return show();
}

/** Empty for the next question. */
export function clear() {
  clearTimeout(waiting);
  edited = false;
  byId("question").value = byId("kind").value = "";
  tell(null, null);
}

/** While something is asked there is a button that stops it. */
export function busy(begun) {
  hold(byId("send"), begun);
  if (begun) swap(byId("send"), byId("stop"));
  else swap(byId("stop"), byId("send"));
}

/** `failed` is told what is worse than a question that cannot be planned. */
export function whenFailed(failed) {
  const showing = () => show().catch(failed);
  const later = () => {
    clearTimeout(waiting);
    waiting = setTimeout(showing, byId("question").value.trim() ? PAUSE : 0);
  };
  byId("question").addEventListener("input", later);
  byId("labels").addEventListener("input", () => {
    edited = true;
    byId("kind").value = "tally"; // whose labels these are
    later();
  });
  byId("kind").addEventListener("change", () => {
    edited &&= byId("kind").value === "tally";
    showing();
  });
}

byId("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId("composer").requestSubmit();
  }
});
