// Counting: how many documents say yes, or each label, and what they are about, as bars.

import { element, few, get, sentence } from "./shared.js";

const LISTED = 24; // themes that a reader takes in

/** How wide an interval will be, or how small a theme can be seen, and the price; it is free. */
export async function plan(model, kind) {
  try {
    const found = await get(`v1/surveys?model=${encodeURIComponent(model)}`);
    return (kind === "survey"
      ? `Themes of fewer than about ${found.smallest} units will not be seen. `
      : `Noise will move a number by ${found.within} at most, 95 times in 100. `)
      + `It costs ε ${few(found.epsilon)} at δ ${few(found.delta)}.`;
  } catch (error) {
    if (error.status !== 400) throw error;
    return sentence(error.message); // of settings that count nothing
  }
}

function rowsOf(found) {
  if (found.kind === "count") return [["yes", found.yes]];
  const rows = found.kind === "tally"
    ? Object.entries(found.counts)
    : found.themes.map((theme) => [theme.name, theme.units]);
  rows.sort(([, a], [, b]) => b.units - a.units);
  return found.kind === "tally" ? rows : [...rows.slice(0, LISTED), ["others", found.others]];
}

const about = ({ units, low, high }) => `about ${units} (${low} to ${high})`;

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
  line.append(name, place, element("td", about(estimate)));
  return line;
}

// Said anew, since a table that is laid out as a grid on a phone may lose them.
const ROLES = { table: "table", tr: "row", th: "rowheader", td: "cell" };

/** The bars of a count, in a table under its title. */
export function chart(found, title) {
  const rows = rowsOf(found);
  const longest = Math.max(1, ...rows.map(([, estimate]) => estimate.high));
  const table = element("table", "", "bars");
  table.append(element("caption", title, "unseen"));
  table.append(...rows.map(([label, estimate]) => row(label, estimate, longest)));
  for (const part of [table, ...table.querySelectorAll("tr, th, td")]) {
    part.role = ROLES[part.localName];
  }
  return table;
}

/** The same as text. */
export const asText = (found) =>
  rowsOf(found).map(([label, estimate]) => `${label}: ${about(estimate)}`).join("\n");

/** What is said of a count. */
export function notesOn(found) {
  const notes = [];
  if (found.kind === "survey" && !found.themes.length) {
    notes.push(`No theme of ${found.smallest} units or more.`);
  }
  if (found.kind === "survey" && found.themes.length > LISTED) {
    notes.push(`There are ${found.themes.length - LISTED} smaller themes.`);
  }
  // After the number: what its interval holds.
  if (found.kind === "count") return [["", found.text.slice(found.text.indexOf(". ") + 2)]];
  if (found.complete === false) notes.push("Units that have spent their budget are not counted.");
  notes.push("An interval holds the noise, not what a model misreads.");
  return notes.map((text) => ["", text]);
}
