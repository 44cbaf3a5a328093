// Uploads: files that are read into a corpus, one after the other, and what one unit of it is.

import * as job from "./job.js";
import { byId, element, few, request, submits } from "./shared.js";

let most = Infinity; // until it is known; the server refuses what is too large

/** What is taken: bytes of a file, and the budget of a corpus that has none. */
export function show(mostBytes, epsilon) {
  most = mostBytes;
  byId("upload-desk").hidden = most === null;
  byId("file-hint").textContent =
    "mbox, .eml, .msg, CSV, TSV, JSON, text, Markdown, HTML, PDF, Word, PowerPoint, Excel, " +
    `OpenDocument, RTF or EPUB, also as .gz; at most ${size(most)} each.`;
  byId("upload-epsilon-hint").textContent =
    `Empty keeps the budget it has; a new corpus gets ε ${few(epsilon ?? 0)}, ` +
    "what one answer may spend. It never renews, unless you set another under Budgets.";
}

function size(bytes) {
  return bytes < 2 ** 20 ? `${Math.floor(bytes / 2 ** 10)} KiB` : `${Math.floor(bytes / 2 ** 20)} MiB`;
}

byId("unit").addEventListener("change", askForColumn);

function askForColumn() {
  const wanted = byId("unit").value === "*";
  byId("field-row").hidden = !wanted;
  byId("field").required = wanted; // without one each row would be a unit, for good
}

/** Offer the columns that look like a person's, the first of them as chosen. */
export function offerColumns(names) {
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
  const files = [...byId("file").files];
  if (files.some((file) => file.size > most)) throw new Error("the file is too large; split it");
  for (const file of files) {
    await send(file);
    const read = await job.watch();
    if (read?.state !== "done") return; // said where the job is; the files after it were not sent
  }
});

async function send(file) {
  const unit = byId("unit").value;
  const form = new FormData();
  form.append("corpus", byId("corpus").value);
  form.append("epsilon", byId("upload-epsilon").value);
  form.append("unit", unit === "*" ? byId("field").value : unit);
  form.append("text_field", byId("text-field").value);
  form.append("key_field", byId("key-field").value);
  form.append("header", byId("header").value);
  form.append("records", byId("records").value);
  form.append("file", file);
  job.tell({ state: "running", stage: `Sending ${file.name}`, total: null });
  try {
    await request("v1/owner/documents", { method: "POST", body: form });
  } catch (error) {
    job.hide();
    throw error;
  }
}
