// The conversation: questions and counts below each other, and the turns that follow-ups stand on.

import { stream } from "./asking.js";
import * as budget from "./budget.js";
import * as composer from "./composer.js";
import * as counting from "./counting.js";
import { showTrouble } from "./door.js";
import * as durations from "./durations.js";
import { BROKE_OFF, REFUSED, STOPPED, costOf, notesOn } from "./notes.js";
import { announce, byId, post, sentence } from "./shared.js";
import { Turn } from "./turn.js";

const PUBLIC = "public";
const REMEMBERED = 6; // turns that a follow-up stands on
const MOST_BYTES = 48 * 1024; // of them; the server takes 64 KB

let said = []; // of this conversation: corpus, question and answer, of those that came to an end
let asking = null; // what ends the answer under way
let spent = async () => {};

/** `told` when something may have been paid for. */
export function whenSpent(told) {
  spent = told;
}

/** Nothing was asked yet. */
export function clear() {
  asking?.abort();
  said = [];
  byId("turns").querySelectorAll(".beside[open]").forEach((one) => (one.open = false));
  byId("turns").replaceChildren();
  byId("new").hidden = true;
  byId("empty").hidden = false;
  announce("");
}

/** Turns before a question as messages, the last ones of the same corpus. */
function before(question, corpus) {
  const own = said.filter((turn) => turn.corpus === corpus);
  if (own.some((turn) => turn.question === question)) return []; // whole, and answered before
  const turns = own.slice(-REMEMBERED);
  const size = () => new TextEncoder().encode(JSON.stringify(turns)).length;
  while (turns.length && size() > MOST_BYTES) turns.shift();
  return turns.flatMap(({ question, answer }) => [
    { role: "user", content: question },
    { role: "assistant", content: answer },
  ]);
}

function begin(question, kind, corpus) {
  byId("empty").hidden = true;
  byId("new").hidden = false;
  const several = byId("model").options.length > 1 ? corpus : "";
  return new Turn(question, [composer.kindName(kind), several].filter(Boolean).join(" · "));
}

/** Work on a turn that the stop button ends where `signal` can; what fails is told in its place. */
async function during(turn, again, stoppable, work) {
  const own = asking = new AbortController();
  composer.busy(true, stoppable);
  let cost = "";
  try {
    cost = await work(own.signal);
  } catch (error) {
    if (error.status === 401) return showTrouble(error);
    if (turn.place.isConnected) failed(turn, error, again); // else another conversation has begun
  } finally {
    if (asking === own) asking = null;
    composer.busy(false);
  }
  await spent();
  if (cost) turn.cost(cost.words, budget.left(cost.corpus));
}

function failed(turn, error, again) {
  turn.cut();
  if (error.name === "AbortError") return turn.ended(STOPPED);
  const quota = error.status === 429 && error.code === "budget_exceeded";
  turn.ended([["bad", sentence(error.message)], ...(quota ? [["", REFUSED]] : [])]);
  turn.offer("Try again", "", again);
}

/** A question to a corpus. With `alone` no turns go before it; `fresh` reads the documents again. */
async function ask(question, corpus, { alone = false, fresh = false } = {}) {
  if (asking) return;
  const turn = begin(question, "ask", corpus);
  const again = () => ask(question, corpus, { alone, fresh });
  const turns = alone ? [] : before(question, corpus);
  const messages = [...turns, { role: "user", content: question }];
  const measure = composer.measured("ask", corpus);
  const began = performance.now();
  const elapsed = () => (performance.now() - began) / 1000;
  const usual = durations.usual(measure);
  turn.reading("Reading the documents", usual === undefined ? "Reading the documents"
    : `Reading the documents; answers here took about ${durations.words(usual)}`);
  announce("Reading the documents");
  await during(turn, again, true, async (signal) => {
    let privacy = null, put = question;
    for await (const event of stream(corpus, messages, signal, fresh)) {
      if (event.question && event.question.trim() !== question) {
        put = event.question;
        turn.putAs(put, () => ask(question, corpus, { alone: true }));
      }
      if (event.read !== undefined) turn.reading(...progress(event.read, elapsed()), event.read);
      if (event.choices[0]?.delta.content) turn.write(event.choices[0].delta.content);
      if (event.privacy) privacy = event.privacy;
    }
    if (!privacy) {
      turn.ended(BROKE_OFF);
      return null;
    }
    const answer = turn.answer.textContent;
    if (answer) said.push({ corpus, question: put, answer });
    else turn.write("(no words)");
    turn.ended(notesOn(privacy, answer), costOf(privacy));
    turn.compare((write, stops) => compare(put, write, stops));
    if (privacy.from_memory) {
      const anew = () => ask(put, corpus, { alone: true, fresh: true });
      turn.offer("Ask anew", "The documents are read again, and paid for.", anew);
    } else {
      durations.keep(measure, elapsed());
    }
    return { words: costOf(privacy), corpus };
  });
}

/** Name and words of a bar: how much is read, and how long the rest takes by the pace so far. */
function progress(part, elapsed) {
  if (part === 1) return ["Writing the answer", "Writing the answer"];
  const left = durations.left(part, elapsed);
  const rest = left === undefined ? "" : `, about ${durations.words(left)} left`;
  return ["Reading the documents", `Reading the documents: ${Math.round(100 * part)} %${rest}`];
}

/** The same of the model without documents. */
async function compare(question, write, signal) {
  for await (const event of stream(PUBLIC, [{ role: "user", content: question }], signal)) {
    if (event.choices[0]?.delta.content) write(event.choices[0].delta.content);
  }
}

/** A count, a tally or a survey. It cannot be stopped: it is paid for when it begins. */
async function count(kind, question, labels, corpus, fresh = false) {
  if (asking) return;
  const title = question || `${composer.kindName(kind)}?`;
  const turn = begin(title, question ? kind : "ask", corpus);
  const again = () => count(kind, question, labels, corpus, fresh);
  const measure = composer.measured(kind, corpus);
  const began = performance.now();
  const usual = durations.usual(measure);
  turn.reading("Counting the documents", usual === undefined ? "Counting the documents"
    : `Counting the documents; it took about ${durations.words(usual)} before`);
  announce("Counting the documents");
  await during(turn, again, false, async () => {
    const body = { model: corpus, kind, fresh };
    if (question) body.question = question;
    if (kind === "tally") body.labels = labels;
    const found = await post("v1/surveys", body);
    turn.chart(counting.chart(found, title), counting.asText(found));
    turn.ended(counting.notesOn(found), costOf(found));
    if (found.from_memory) {
      const anew = () => count(kind, question, labels, corpus, true);
      turn.offer("Count anew", "The documents are counted again, and paid for.", anew);
    } else {
      durations.keep(measure, (performance.now() - began) / 1000);
    }
    return { words: costOf(found), corpus };
  });
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const kind = composer.kind(), question = composer.question(), corpus = composer.corpus();
  if (asking || !corpus || (!question && kind !== "survey")) return;
  composer.clear();
  if (kind === "ask") ask(question, corpus);
  else count(kind, question, composer.labels(), corpus);
});

byId("stop").addEventListener("click", () => asking?.abort());

byId("new").addEventListener("click", () => {
  clear();
  byId("question").focus();
});

for (const example of byId("empty").querySelectorAll("button")) {
  const { kind, question, labels } = example.dataset;
  example.addEventListener("click", () => composer.write(kind, question, labels).catch(showTrouble));
}
