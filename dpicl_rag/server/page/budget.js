// Budget: what is left of it, beside the conversation or in one line above it.

import { byId, few, get, sentence } from "./shared.js";

let known = [];

/** Ask what is left. */
export async function load() {
  known = (await get("v1/budget")).data;
}

const of = (name) => known.find((one) => one.model === name);

/** The budget that ends first, of those that limit anything. */
function tightest(found) {
  const limited = (found?.scopes ?? []).filter((scope) => scope.answers !== null);
  return limited.sort((a, b) => a.answers_left - b.answers_left)[0];
}

const whose = (scope) => (scope.kind === "corpus" ? "these documents" : "your key");

/** A number of answers. */
const answers = (number) => `${number.toLocaleString("en")} more answer${number === 1 ? "" : "s"}`;

/** The budget of a corpus, as the page shows it beside all answers. */
export function show(name) {
  const found = of(name);
  const tight = tightest(found);
  const meter = byId("meter");
  meter.hidden = !tight;
  byId("calls").textContent = calls(found?.calls);
  byId("budget-more").textContent = "";
  if (!tight) {
    byId("budget-short").textContent = found ? "no limit" : "";
    byId("budget-words").textContent = found
      ? "No budget is set: answers are counted, not limited."
      : "No documents are open to you yet.";
    return;
  }
  const most = Math.max(tight.answers, 1);
  meter.max = most;
  meter.low = most / 4;
  meter.high = most / 2;
  meter.optimum = most;
  meter.value = tight.answers_left;
  const words = sentence(tight.standing);
  meter.textContent = words; // for those who do not see the bar
  meter.setAttribute("aria-valuetext", words);
  byId("budget-short").textContent = answers(tight.answers_left);
  byId("budget-words").textContent = words;
  byId("budget-more").textContent = `This is the budget of ${whose(tight)}. `
    + `An answer may spend epsilon ${few(found.epsilon)} of it.`;
}

/** What the budget still pays for, in the sentence after an answer's price; "" without a limit. */
export function left(name) {
  const found = of(name);
  const tight = tightest(found);
  if (!tight) return "";
  const number = tight.answers_left;
  return number
    ? ` The budget of ${whose(tight)} pays for ${answers(number)} of ε ${few(found.epsilon)}.`
    : ` The budget of ${whose(tight)} does not pay for another one in full.`;
}

/** What a question costs in calls, where a chat model reads; null is known to the documents alone. */
function calls(about) {
  if (!about) return "";
  const said = (many) => (many === null ? "one for each unit" : `about ${many}`);
  return "A chat model reads each unit in a call of its own. "
    + `Calls of an answer: ${said(about.answer)}; of a count: ${said(about.count)}.`;
}

// Open beside the conversation, one line above it.
const wide = matchMedia("(min-width: 60rem)");
const fold = () => (byId("budget").open = wide.matches);
wide.addEventListener("change", fold);
fold();
