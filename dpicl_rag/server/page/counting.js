// Counting: the numbers beside an answer, as bars.

import { element } from "./shared.js";

const LISTED = 24; // themes that a reader takes in

/** Labels and estimates, by what was counted: items of a list, those who say yes, labels, themes. */
function rowsOf({ parts, numbers }) {
  if (!numbers) return parts.filter((one) => one.count).map((one) => [one.text, one.count]);
  if (numbers.yes) return [["yes", numbers.yes]];
  const rows = numbers.themes
    ? numbers.themes.map((theme) => [theme.title ?? theme.name, theme.units])
    : Object.entries(numbers.counts ?? {});
  rows.sort(([, a], [, b]) => b.units - a.units);
  return numbers.others ? [...rows.slice(0, LISTED), ["others", numbers.others]] : rows;
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

/** The bars of what was counted, in a table under its title; null where nothing was. */
export function chart(privacy, title) {
  const rows = rowsOf(privacy);
  if (!rows.length) return null;
  const longest = Math.max(1, ...rows.map(([, estimate]) => estimate.high));
  const table = element("table", "", "bars");
  table.append(element("caption", title, "unseen"));
  table.append(...rows.map(([label, estimate]) => row(label, estimate, longest)));
  for (const part of [table, ...table.querySelectorAll("tr, th, td")]) {
    part.role = ROLES[part.localName];
  }
  return table;
}
