// Asking: one answer of a model, as it streams in.

import { Refused, request } from "./shared.js";

/** How far reading is, pieces of text and the last event's fields, as they come.
 * `dpicl` is how it is asked: its kind and labels, whether anew. */
export async function* stream(model, messages, signal, dpicl = {}) {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify({ model, messages, stream: true, dpicl });
  const answer = await request("v1/chat/completions", { method: "POST", headers, body, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (event.startsWith(": read ")) yield { read: Number(event.slice(7)), choices: [] };
      if (!event.startsWith("data: ")) continue;
      const data = event.slice(6);
      if (data === "[DONE]") return;
      const found = JSON.parse(data);
      if (found.error) throw new Refused(500, found.error);
      yield found;
    }
  }
}
