// The composer: what kind of question is asked of which documents, and hints on it.

import * as counting from "./counting.js";
import * as durations from "./durations.js";
import { byId, element, following, hold, swap } from "./shared.js";

const KINDS = {
  ask: {
    name: "", button: "Ask", took: "Answers here took about",
    label: "Question", inside: "Ask the documents",
  },
  count: {
    name: "How many", button: "Count", took: "Counts here took about",
    label: "Question that each document answers with yes or no",
    inside: "A yes-or-no question to each",
  },
  tally: {
    name: "Which of these", button: "Count", took: "Counts here took about",
    label: "Question that each document answers with a label",
    inside: "A question to each",
  },
  survey: {
    name: "What are they about", button: "Count", took: "Surveys here took about",
    label: "Question, if any", inside: "A question, if any",
  },
};

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
  const { label, inside, button, took } = KINDS[of];
  following(() => (byId("labels-field").hidden = of !== "tally"));
  byId("question-label").textContent = label;
  byId("question").placeholder = inside;
  byId("question").required = of !== "survey";
  byId("labels").required = of === "tally";
  byId("send").textContent = button;
  byId("send").disabled = !model;
  const usual = durations.usual(measured(of, model));
  const time = usual === undefined ? "" : ` ${took} ${durations.words(usual)}.`;
  const hint = (first) => byId("question-hint").replaceChildren(first, time);
  if (of === "ask" || !model) {
    return hint(element("span", "Enter asks, Shift and Enter begins a line.", "keys"));
  }
  const chosen = of === "tally" ? "Choose labels without looking at the documents. " : "";
  const said = await counting.plan(model, of);
  if (of === kind() && model === corpus()) following(() => hint(chosen + said));
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
  hold(byId("send"), begun);
  if (begun && stoppable) swap(byId("send"), byId("stop"));
  if (!begun) swap(byId("stop"), byId("send"));
}

byId("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId("composer").requestSubmit();
  }
});
