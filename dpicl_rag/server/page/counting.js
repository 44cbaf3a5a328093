// Counting: how many documents say yes, or each label, and what they are about.

import { byId, element, few, get, post, sentence } from "./shared.js";

const LISTED = 24; // themes that a reader takes in

let spent = () => {};
let counting = false;

/** What is told when something may have been paid for. */
export function whenSpent(told) {
  spent = told;
}

/** Fields and the hint for the kind of count and the corpus that are chosen. */
export async function show() {
  const kind = byId("kind").value;
  const model = byId("model").value;
  byId("labels-field").hidden = kind !== "tally";
  byId("labels").required = kind === "tally";
  byId("count-question").required = kind !== "survey";
  byId("count-question-field").querySelector("label").textContent =
    kind === "survey" ? "Question, if any" : "Question that each document answers";
  byId("count-send").disabled = !model || counting;
  byId("kind-hint").textContent = "";
  if (!model) return;
  try {
    const plan = await get(`v1/surveys?model=${encodeURIComponent(model)}`);
    byId("kind-hint").textContent = (kind === "survey"
      ? `Themes of fewer than about ${plan.smallest} units will not be seen. `
      : `A number will be within ${plan.within} of the true one, 95 times in 100. `)
      + `It costs ε ${few(plan.epsilon)} at δ ${few(plan.delta)}.`;
  } catch (error) {
    if (error.status !== 400) throw error;
    byId("kind-hint").textContent = sentence(error.message); // of settings that count nothing
  }
}

function row(label, estimate, longest) {
  const line = element("tr");
  const name = element("th", label);
  name.scope = "row";
  name.dir = "auto";
  const place = element("td");
  place.className = "bar";
  place.ariaHidden = "true"; // the numbers beside it say the same
  const part = (number) => `${100 * number / longest}%`;
  const bar = element("div");
  bar.style.width = part(estimate.units);
  const whisker = element("span");
  whisker.style.left = part(estimate.low);
  whisker.style.width = part(estimate.high - estimate.low);
  place.append(bar, whisker);
  const about = `about ${estimate.units} (${estimate.low} to ${estimate.high})`;
  line.append(name, place, element("td", about));
  return line;
}

function rowsOf(found) {
  if (found.kind === "count") return [["yes", found.yes]];
  const rows = found.kind === "tally"
    ? Object.entries(found.counts)
    : found.themes.map((theme) => [theme.name, theme.units]);
  rows.sort(([, a], [, b]) => b.units - a.units);
  return found.kind === "tally" ? rows : [...rows.slice(0, LISTED), ["others", found.others]];
}

function draw(found, title) {
  const rows = rowsOf(found);
  const longest = Math.max(1, ...rows.map(([, estimate]) => estimate.high));
  byId("counts-title").textContent = title;
  byId("counts-rows").replaceChildren(
    ...rows.map(([label, estimate]) => row(label, estimate, longest)),
  );
  byId("counts").hidden = false;
  const cost = found.from_memory
    ? "It was counted before, so it costs nothing. "
    : `It spent at most ε ${few(found.epsilon)} at δ ${few(found.delta)} of each unit. `;
  const notes = [cost + "An interval holds the noise, not what a model misreads."];
  if (found.complete === false) notes.unshift("Units that have spent their budget are not counted.");
  if (found.kind === "survey" && found.themes.length > LISTED) {
    notes.unshift(`There are ${found.themes.length - LISTED} smaller themes.`);
  }
  if (found.kind === "survey" && !found.themes.length) {
    notes.unshift(`No theme of ${found.smallest} units or more.`);
  }
  note(notes.map((text) => ["", text]));
}

function offerAnew(offered) {
  byId("count-anew").hidden = byId("count-anew-hint").hidden = !offered;
}

function note(notes) {
  byId("count-notes").replaceChildren(...notes.map(([kind, text]) => element("li", text, kind)));
}

async function count(fresh) {
  if (counting) return;
  const kind = byId("kind").value;
  const question = byId("count-question").value.trim();
  const body = { model: byId("model").value, kind, fresh };
  if (question) body.question = question;
  if (kind === "tally") {
    body.labels = byId("labels").value.split(",").map((label) => label.trim()).filter(Boolean);
  }
  counting = true;
  byId("counts").hidden = true;
  byId("counts").setAttribute("aria-busy", "true");
  note([["", "Counting the documents"]]);
  offerAnew(false);
  try {
    const found = await post("v1/surveys", body);
    draw(found, question || "What the documents are about");
    offerAnew(found.from_memory);
  } catch (error) {
    note([["bad", sentence(error.message)]]);
  } finally {
    counting = false;
    byId("counts").removeAttribute("aria-busy");
  }
  await spent();
}

byId("count").addEventListener("submit", (event) => {
  event.preventDefault();
  count(false);
});
byId("count-anew").addEventListener("click", () => count(true));
byId("kind").addEventListener("change", () => show().catch(() => {}));
