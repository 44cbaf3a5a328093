// The conversation: questions below each other, and the turns that follow-ups stand on.

import { stream } from "./asking.js";
import * as budget from "./budget.js";
import * as composer from "./composer.js";
import * as counting from "./counting.js";
import { showTrouble } from "./door.js";
import * as durations from "./durations.js";
import { kindOf } from "./kinds.js";
import { BROKE_OFF, REFUSED, STOPPED, costOf, notesOn } from "./notes.js";
import { announce, byId, sentence } from "./shared.js";
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

/** The question that a follow-up to a corpus stands on; "" where there is none. */
composer.followOn((corpus) => said.findLast((turn) => turn.corpus === corpus)?.question ?? "");

function begin(question) {
  byId("empty").hidden = true;
  byId("new").hidden = false;
  return new Turn(question);
}

/** What stands above a question: its kind, and whose documents where there are several. */
function about(kind, corpus) {
  const several = byId("model").options.length > 1 ? corpus : "";
  return [kindOf(kind).name, several].filter(Boolean).join(" · ");
}

/** Work on a turn that the stop button ends; what fails is told in its place. */
async function during(turn, again, work) {
  const own = asking = new AbortController();
  composer.busy(true);
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
  if (error.code === "misreads") {
    turn.offer("Count anyway", "The number may be far off.", () => again({ anyway: true }));
  } else {
    turn.offer("Try again", "", () => again());
  }
}

/** Ask what was written. With `alone` no turns go before it; `fresh` reads the documents again, and
 * `anyway` counts with a model that misreads. */
async function ask(asked, { alone = false, ...how } = {}) {
  if (asking) return;
  const { question, corpus, kind: insisted, labels } = asked;
  const turn = begin(question);
  turn.about(about(insisted, corpus));
  const again = (changed) => ask(asked, { alone, ...how, ...changed });
  const turns = alone ? [] : before(question, corpus);
  const messages = [...turns, { role: "user", content: question }];
  const dpicl = { ...(insisted && { kind: insisted }), ...(labels && { labels }), ...how };
  const began = performance.now();
  const elapsed = () => (performance.now() - began) / 1000;
  await during(turn, again, async (signal) => {
    let { kind } = await composer.planOf(asked).catch(() => ({ kind: insisted ?? "answer" }));
    turn.about(about(kind, corpus));
    const { reading } = kindOf(kind);
    const usual = durations.usual(composer.measured(kind, corpus));
    turn.reading(reading, usual === undefined ? reading
      : `${reading}; it took about ${durations.words(usual)} before`);
    announce(reading);
    let privacy = null, put = question;
    for await (const event of stream(corpus, messages, signal, dpicl)) {
      if (event.question && event.question.trim() !== question) {
        put = event.question;
        turn.putAs(put, () => ask(asked, { alone: true }));
      }
      if (event.read !== undefined) {
        turn.reading(...progress(reading, event.read, elapsed()), event.read);
      }
      if (event.choices[0]?.delta.content) turn.write(event.choices[0].delta.content);
      if (event.privacy) privacy = event.privacy;
    }
    if (!privacy) {
      turn.ended(BROKE_OFF);
      return null;
    }
    kind = privacy.kind; // that of the question in whole words
    turn.about(about(kind, corpus));
    const answer = turn.answer.textContent;
    if (!answer) turn.write("(no words)");
    else if (kind !== "person") said.push({ corpus, question: put, answer });
    turn.chart(counting.chart(privacy, put));
    turn.ended(notesOn(privacy, answer), costOf(privacy));
    if (kind === "answer") turn.compare((write, stops) => compare(put, write, stops));
    if (privacy.from_memory) {
      const anew = () => ask({ ...asked, question: put }, { alone: true, ...how, fresh: true });
      turn.offer("Ask anew", "The documents are read again, and paid for.", anew);
    } else if (privacy.by !== "public") {
      durations.keep(composer.measured(kind, corpus), elapsed());
    }
    return { words: costOf(privacy), corpus };
  });
}

/** Name and words of a bar: how much is read, and how long the rest takes by the pace so far. */
function progress(reading, part, elapsed) {
  if (part === 1) return ["Writing the answer", "Writing the answer"];
  const left = durations.left(part, elapsed);
  const rest = left === undefined ? "" : `, about ${durations.words(left)} left`;
  return [reading, `${reading}: ${Math.round(100 * part)} %${rest}`];
}

/** The same of the model without documents. */
async function compare(question, write, signal) {
  for await (const event of stream(PUBLIC, [{ role: "user", content: question }], signal)) {
    if (event.choices[0]?.delta.content) write(event.choices[0].delta.content);
  }
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const asked = composer.written();
  if (asking || !asked.corpus || !asked.question) return;
  composer.clear();
  ask(asked);
});

byId("stop").addEventListener("click", () => asking?.abort());

byId("new").addEventListener("click", () => {
  clear();
  byId("question").focus();
});

for (const example of byId("empty").querySelectorAll("button")) {
  const { question } = example.dataset;
  example.addEventListener("click", () => composer.write(question).catch(showTrouble));
}

composer.whenFailed(showTrouble);
