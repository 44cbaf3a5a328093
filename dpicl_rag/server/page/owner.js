// For owners: adding documents, budgets and audits.

import { byId, element, few, fillSelect, get, post, request, sentence } from "./shared.js";

const POLL = 700; // milliseconds

let changed = () => {};
let most = 0;
let polling = false;

/** Show the owner's part. `onChange` is told when there is something new to ask. */
export async function open(onChange) {
  changed = onChange;
  const found = await show();
  byId("owner").hidden = false;
  if (found.job && found.job.state === "running") watch();
}

/** What there is to work with, as it is now. */
export async function show() {
  const found = await get("v1/owner");
  most = found.most_bytes;
  byId("upload-desk").hidden = most === null;
  byId("audit-desk").hidden = !found.audits;
  byId("file-hint").textContent =
    "mbox, .eml, .msg, CSV, TSV, JSON, text, Markdown, HTML, PDF, Word, PowerPoint, Excel, " +
    `OpenDocument, RTF or EPUB, also as .gz; at most ${size(most)}.`;
  byId("upload-epsilon-hint").textContent =
    `Empty keeps the budget it has; a new corpus gets ε ${few(found.upload_epsilon ?? 0)}, ` +
    "what one answer may spend. It never renews, unless you set another under Budgets.";
  byId("closed-desk").hidden = !found.closed.length;
  fillSelect(byId("closed"), found.closed.map((name) => [name, name]));
  const corpora = found.corpora.map((name) => [name, name]);
  fillSelect(byId("audited"), corpora);
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
  const budgets = new Map(found.budgets.map((one) => [`${one.kind} ${one.name}`, one]));
  byId("scopes").replaceChildren(
    ...[...byId("scope").options].map(({ value }) =>
      element("li", `${value}: ${budgetWords(budgets.get(value))}`)),
  );
  return found;
}

function size(bytes) {
  return bytes < 2 ** 20 ? `${Math.floor(bytes / 2 ** 10)} KiB` : `${Math.floor(bytes / 2 ** 20)} MiB`;
}

function budgetWords(scope) {
  return scope ? scope.standing : "no limit";
}

/** What a form does; a refusal is told in its place. */
function submits(form, place, work) {
  byId(form).addEventListener("submit", async (event) => {
    event.preventDefault();
    byId(place).textContent = "";
    const [button] = byId(form).querySelectorAll("button[type=submit]");
    button.disabled = true;
    try {
      await work();
    } catch (error) {
      byId(place).textContent = sentence(error.message);
    } finally {
      button.disabled = false;
    }
  });
}

// Documents.

byId("unit").addEventListener("change", askForColumn);

function askForColumn() {
  const wanted = byId("unit").value === "*";
  byId("field-row").hidden = !wanted;
  byId("field").required = wanted; // without one each row would be a unit, for good
}

/** Offer the columns that look like a person's, the first of them as chosen. */
function offerColumns(names) {
  byId("columns").replaceChildren(
    ...names.map((name) => {
      const option = element("option");
      option.value = name;
      return option;
    }),
  );
  byId("unit").value = "*";
  byId("field").value = names[0];
  askForColumn();
}

submits("upload", "upload-error", async () => {
  const [file] = byId("file").files;
  if (file.size > most) throw new Error("the file is too large; split it");
  const unit = byId("unit").value;
  const form = new FormData();
  form.append("corpus", byId("corpus").value);
  form.append("epsilon", byId("upload-epsilon").value);
  form.append("unit", unit === "*" ? byId("field").value : unit);
  form.append("text_field", byId("text-field").value);
  form.append("key_field", byId("key-field").value);
  form.append("file", file);
  tell({ state: "running", stage: `Sending ${file.name}`, total: null });
  try {
    await request("v1/owner/documents", { method: "POST", body: form });
  } catch (error) {
    byId("job").hidden = true;
    throw error;
  }
  watch();
});

// The job.

async function watch() {
  if (polling) return;
  polling = true;
  let stage = "";
  try {
    for (;;) {
      const job = await get("v1/owner/job");
      tell(job);
      if (job.kind === "audit" && job.stage + job.state !== stage) {
        stage = job.stage + job.state;
        await report(job.corpus).catch(() => {}); // before the first part there is none
      }
      if (job.state !== "running") {
        await changed();
        if (job.kind === "ingest" && job.state === "done") byId("model").value = job.corpus;
        if (job.state === "failed" && job.result?.persons) offerColumns(job.result.persons);
        byId("model").dispatchEvent(new Event("change"));
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, POLL));
    }
  } catch (error) {
    byId("job-words").textContent = sentence(error.message);
  } finally {
    polling = false;
  }
}

const STATES = { done: "Done", failed: "Failed", stopped: "Stopped" };

function tell(job) {
  const running = job.state === "running";
  const bar = byId("job-bar");
  byId("job").hidden = false;
  bar.hidden = !running;
  byId("job-stop").hidden = !running || !job.id;
  byId("job-title").textContent = running ? "Under way" : STATES[job.state];
  if (job.total) {
    bar.max = job.total;
    bar.value = job.done;
  } else {
    bar.removeAttribute("value");
  }
  byId("job-words").textContent = running ? `${job.stage}${far(job)}` : outcome(job);
  byId("job-notes").replaceChildren(...accountOf(job).map((text) => element("li", text)));
}

/** How far it is, and how long that still takes by its pace so far. */
function far({ kind, done, total, seconds_left: left }) {
  if (!total) return done ? `: ${done}` : "";
  const part = kind === "audit" ? `${done} %` : `${done} of ${total}`;
  if (!left || done === total) return `: ${part}`;
  const words = left < 90 ? `${left} seconds` : `${Math.round(left / 60)} minutes`;
  return `: ${part}, about ${words} left`;
}

function outcome(job) {
  if (job.state === "failed") return sentence(job.error);
  if (job.state === "stopped" && job.kind === "audit") {
    return "What was found until then is kept; the same audit goes on from there.";
  }
  if (job.state === "stopped") return "What was stored stays; the same upload goes on from there.";
  if (job.kind === "audit") {
    return `The audit of ${job.corpus} has ended. ` +
      (job.result.holds ? "All is within the claim." : "THE CLAIM DOES NOT HOLD.");
  }
  return `${job.corpus} can be asked now.`;
}

/** A number of things, and a verb that goes with it. */
function counted(number, thing, is = "", are = "") {
  return number === 1 ? `1 ${thing} ${is}`.trim() : `${number} ${thing}s ${are}`.trim();
}

function accountOf(job) {
  if (job.kind !== "ingest" || !job.result) return [];
  if (job.state === "failed") return [job.result.summary];
  const { summary, read, loaded, skipped, units, passages, known } = job.result;
  return [
    summary,
    `${loaded} of ${counted(read, "record", "was", "were")} read, ${counted(units, "privacy unit")}.`,
    `${counted(passages, "passage", "is", "are")} new, ${known} ${known === 1 ? "was" : "were"} there.`,
    ...(skipped ? [`${counted(skipped, "record", "was", "were")} skipped:`] : []),
    ...job.result.first_skipped.map(({ position, reason }) => `${position}: ${reason}`),
  ];
}

byId("job-stop").addEventListener("click", () => post("v1/owner/job/stop", {}).then(tell, () => {}));

// Budgets.

submits("budgets", "budgets-error", async () => {
  const [kind, ...name] = byId("scope").value.split(" ");
  const epsilon = byId("epsilon").value;
  await post("v1/owner/budgets", {
    kind,
    name: name.join(" "),
    epsilon: epsilon === "" ? null : Number(epsilon),
    period: byId("period").value,
    strict: byId("strict").checked,
  });
  await changed();
});

// Other keys.

submits("open", "open-error", async () => {
  await post("v1/owner/open", { corpus: byId("closed").value });
  await changed();
});

// Audits.

submits("audit", "audit-error", async () => {
  const question = byId("audit-question").value;
  const runs = Number(byId("runs").value);
  await post("v1/owner/audits", { corpus: byId("audited").value, question, runs });
  watch();
});

byId("last").addEventListener("click", async () => {
  byId("audit-error").textContent = "";
  try {
    await report(byId("audited").value);
  } catch (error) {
    byId("report").hidden = true;
    byId("audit-error").textContent = sentence(error.message);
  }
});

async function report(corpus) {
  const path = `v1/owner/audits/${encodeURIComponent(corpus)}`;
  const { text } = await get(path);
  byId("report").hidden = false;
  byId("report-title").textContent = `Audit report of ${corpus}`;
  byId("report-text").textContent = text;
  const plot = byId("plot");
  plot.hidden = true;
  // A picture behind a key: an img element could not send it.
  const picture = await createImageBitmap(await (await request(`${path}/plot`)).blob());
  plot.width = picture.width;
  plot.height = picture.height;
  plot.getContext("2d").drawImage(picture, 0, 0);
  plot.hidden = false;
}
