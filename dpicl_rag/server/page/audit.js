// Audits: starting one, and its report as it grows.

import * as job from "./job.js";
import { byId, get, post, request, sentence, submits } from "./shared.js";

submits("audit", "audit-error", async () => {
  const question = byId("audit-question").value;
  const runs = Number(byId("runs").value);
  await post("v1/owner/audits", { corpus: byId("audited").value, question, runs });
  job.watch();
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

/** Show the report of a corpus as far as there is one. */
export async function report(corpus) {
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
