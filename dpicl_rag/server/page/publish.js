// Publishing: the price of each item of a bundle, the job that buys it, and the folder as a file.

import * as job from "./job.js";
import { byId, element, few, fillSelect, post, request, sentence, submits } from "./shared.js";

/** Which corpora may be published, if any. */
export function show({ publications, corpora }) {
  byId("publish-desk").hidden = !publications;
  fillSelect(byId("published"), corpora.map((name) => [name, name]));
}

const lines = (id) => byId(id).value.split("\n").map((line) => line.trim()).filter(Boolean);

const asked = () => ({
  corpus: byId("published").value,
  epsilon: Number(byId("publish-epsilon").value),
  survey: byId("publish-survey").checked,
  questions: lines("publish-questions"),
  columns: lines("publish-columns"),
  label_columns: lines("publish-label-columns"),
  again: byId("publish-again").checked,
});

let planned = null; // what the plan that is shown is of

/** A plan is of what the form says: without it, there is nothing to buy. */
function forget() {
  planned = null;
  byId("publish-plan").replaceChildren();
  byId("publish-now").hidden = true;
}

submits("publish", "publish-error", async () => {
  forget();
  const body = asked();
  const { parts, epsilon, delta, rho } = await post("v1/owner/publications/plan", body);
  planned = body;
  byId("publish-plan").replaceChildren(
    ...parts.map((part) => element("li", `${part.what}: ${part.name}, ρ ${few(part.rho)} at most`)),
    element("li", `All together: ε ${few(epsilon)}, δ ${delta}, ρ ${few(rho)}.`),
  );
  byId("publish-now").hidden = false;
});

byId("publish").addEventListener("input", forget);

byId("publish-now").addEventListener("click", () => told(async () => {
  if (planned === null) return;
  const body = planned;
  forget(); // bought once, however often it is clicked
  await post("v1/owner/publications", body);
  job.watch();
}));

/** A bundle that is there can be taken. */
export function done(corpus) {
  byId("published").value = corpus;
  byId("publish-take").focus();
}

byId("publish-take").addEventListener("click", () => told(async () => {
  const corpus = byId("published").value;
  const found = await request(`v1/owner/publications/${encodeURIComponent(corpus)}`);
  const link = element("a");
  link.href = URL.createObjectURL(await found.blob());
  link.download = `${corpus}.zip`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}));

async function told(work) {
  byId("publish-error").textContent = "";
  try {
    await work();
  } catch (error) {
    byId("publish-error").textContent = sentence(error.message);
  }
}
