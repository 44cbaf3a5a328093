// The composer: what kind of question is asked of which documents, and hints on it.

import * as counting from "./counting.js";
import * as durations from "./durations.js";
import { byId, swap } from "./shared.js";

const KINDS = {
  ask: { name: "", label: "Question", button: "Ask", took: "Answers here took about" },
  count: { name: "How many", label: "Question that each document answers with yes or no",
    button: "Count", took: "Counts here took about" },
  tally: { name: "Which of these", label: "Question that each document answers with a label",
    button: "Count", took: "Counts here took about" },
  survey: { name: "What are they about", label: "Question, if any", button: "Count",
    took: "Surveys here took about" },
};

let running = false;

export const kind = () => document.querySelector("input[name=kind]:checked").value;
export const kindName = (of) => KINDS[of].name;
export const corpus = () => byId("model").value;
export const question = () => byId("question").value.trim();
export const labels = () =>
  byId("labels").value.split(",").map((label) => label.trim()).filter(Boolean);

/** What durations are kept by: a count takes another time than an answer. */
export const measured = (of, model) => `${of} ${model}`;

/** Fields and hints for the kind and the corpus that are chosen. */
export async function show() {
  const of = kind(), model = corpus();
  const { label, button, took } = KINDS[of];
  byId("question-label").textContent = label;
  byId("question").placeholder = of === "ask" ? "Ask the documents" : label;
  byId("question").required = of !== "survey";
  byId("labels-field").hidden = of !== "tally";
  byId("labels").required = of === "tally";
  byId("send").textContent = button;
  byId("send").disabled = !model || running;
  const usual = durations.usual(measured(of, model));
  const time = usual === undefined ? "" : ` ${took} ${durations.words(usual)}.`;
  const hint = byId("question-hint");
  hint.textContent = of === "ask" ? `Enter asks, Shift and Enter begins a line.${time}` : "";
  if (of === "ask" || !model) return;
  const said = await counting.plan(model, of);
  if (of === kind() && model === corpus()) hint.textContent = said + time;
}

/** Choose a kind and write a question; what is to be filled in is marked. */
export function write(of, text, given = "") {
  byId(`kind-${of}`).checked = true;
  byId("question").value = text;
  if (given) byId("labels").value = given;
  const gap = text.indexOf("…");
  const place = byId(of === "survey" ? "send" : "question");
  place.focus();
  if (gap >= 0) byId("question").setSelectionRange(gap, gap + 1);
  return show();
}

/** Empty for the next question. */
export function clear() {
  byId("question").value = "";
}

/** While something is asked there is a button that stops it, where it can be stopped. */
export function busy(begun, stoppable = true) {
  running = begun;
  byId("send").disabled = !corpus() || begun;
  if (begun && stoppable) swap(byId("send"), byId("stop"));
  else if (!begun) swap(byId("stop"), byId("send"));
}

export const isBusy = () => running;

byId("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId("composer").requestSubmit();
  }
});
