// The owner's view: corpora and callers, their budgets, and who may ask.

import * as audit from "./audit.js";
import * as job from "./job.js";
import * as publish from "./publish.js";
import { byId, element, fillSelect, get, post, submits } from "./shared.js";
import * as upload from "./upload.js";

let changed = async () => {};

/** Show what there is. `onChange` is told when there is something new to ask. */
export async function open(onChange) {
  changed = onChange;
  job.listen(atStage, atEnd);
  const found = await show();
  if (found.job && found.job.state === "running") job.watch();
}

/** What there is to work with, as it is now. */
export async function show() {
  const found = await get("v1/owner");
  upload.show(found.most_bytes, found.upload_epsilon);
  byId("audit-desk").hidden = !found.audits;
  byId("closed-desk").hidden = !found.closed.length;
  fillSelect(byId("closed"), found.closed.map((name) => [name, name]));
  fillSelect(byId("audited"), found.corpora.map((name) => [name, name]));
  publish.show(found);
  fillSelect(byId("scope"), [
    ...found.corpora.map((name) => [`corpus ${name}`, `corpus ${name}`]),
    ...found.callers.map((name) => [`caller ${name}`, `caller ${name}`]),
  ]);
  byId("corpora").replaceChildren(
    ...found.corpora.map((name) => {
      const option = element("option");
      option.value = name;
      return option;
    }),
  );
  const standing = new Map(found.budgets.map((one) => [`${one.kind} ${one.name}`, one.standing]));
  byId("scopes").replaceChildren(
    ...[...byId("scope").options].map(({ value }) => {
      const words = standing.get(value) ?? "no limit";
      return element("li", `${value}: ${words}`);
    }),
  );
  return found;
}

async function atStage({ kind, corpus }) {
  // Before the first part there is none.
  if (kind === "audit") await audit.report(corpus).catch(() => {});
}

async function atEnd({ kind, state, corpus, result }) {
  await changed();
  if (kind === "publish" && state === "done") publish.done(corpus);
  if (kind === "ingest" && state === "done") byId("model").value = corpus;
  if (state === "failed" && result?.persons) upload.offerColumns(result.persons);
  byId("model").dispatchEvent(new Event("change"));
}

submits("budgets", "budgets-error", async () => {
  const [kind, ...name] = byId("scope").value.split(" ");
  const epsilon = byId("epsilon").value;
  const answers = byId("answers").value;
  await post("v1/owner/budgets", {
    kind,
    name: name.join(" "),
    epsilon: epsilon === "" ? null : Number(epsilon),
    period: byId("period").value,
    strict: byId("strict").checked,
    gaussian: byId("gaussian").checked,
    ...(answers === "" ? {} : { answers: Number(answers) }),
  });
  await changed();
});

submits("open", "open-error", async () => {
  await post("v1/owner/open", { corpus: byId("closed").value });
  await changed();
});
