// Memory: what was answered to this key before.

import { byId, day, element, few, get } from "./shared.js";

/** The earlier answers; `again` is told a question and its corpus to write it anew. */
export async function show(again) {
  const { data } = await get("v1/memory");
  byId("memory").replaceChildren(...data.map((entry) => item(entry, again)));
  if (!data.length) byId("memory").append(element("li", "None yet.", "hint"));
}

function item(entry, again) {
  const made = element("li");
  const cost = entry.edited ? "corrected by the owner" : `cost ε ${few(entry.epsilon)}`;
  const piece = entry.whole ? "" : ", cut off: asking it again is paid for";
  const below = element("p", `${entry.model}, ${day(entry.time)}, ${cost}${piece} `, "hint");
  if (!entry.counted) below.append(asking(entry, again)); // a count says not of what kind it was
  made.append(
    element("p", entry.question, "hint words"),
    element("p", entry.whole ? entry.answer : `${entry.answer} …`, "said words"),
    below,
  );
  // Each in the direction of its own language.
  made.querySelectorAll(".words").forEach((words) => (words.dir = "auto"));
  return made;
}

function asking({ question, model }, again) {
  const button = element("button", "Ask again", "quiet");
  button.type = "button";
  button.setAttribute("aria-label", `Ask again: ${question}`);
  button.addEventListener("click", () => again(question, model));
  return button;
}
