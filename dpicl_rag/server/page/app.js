// Asking: the key, the question, the answer as it streams in, the budget and earlier answers.

import { Refused, byId, day, element, few, fillSelect, get, key, request, sentence, setKey }
  from "./shared.js";
import * as counting from "./counting.js";

const PUBLIC = "public";

let owner = null; // the owner's part, loaded for owners only
let asking = null; // what ends the answer under way
let question = ""; // the one that was asked last
let asked = ""; // the model it was asked of

// The key.

/** A key behind the # of the address, as the server shows it where no others were made. */
function takeKey() {
  if (!location.hash.startsWith("#dpk-")) return false;
  setKey(location.hash.slice(1));
  history.replaceState(null, "", location.pathname); // not to be copied with the address
  return true;
}

async function enter() {
  let who;
  try {
    who = await get("v1/caller");
  } catch (error) {
    if (error.status !== 401) return showTrouble(error);
    const wrong = Boolean(key());
    setKey(null);
    return showDoor(wrong ? "No such key. Check it, or ask whoever runs this server." : "");
  }
  const entered = !byId("door").hidden;
  byId("door").hidden = true;
  byId("room").hidden = false;
  byId("leave").hidden = !who.keys;
  byId("toy").hidden = !who.toy;
  byId("who").textContent = who.keys
    ? `${who.name}${who.role === "owner" ? ", owner" : ""}`
    : "No keys are in use: you are the owner.";
  if (who.role === "owner" && !owner) {
    owner = await import("./owner.js");
    await owner.open(refresh);
  }
  await refresh();
  if (entered) byId("question").focus();
}

function showDoor(error) {
  byId("room").hidden = true;
  byId("door").hidden = false;
  byId("leave").hidden = true;
  byId("who").textContent = "";
  byId("door-error").textContent = error;
  byId("key").value = "";
  byId("key").focus();
}

function showTrouble(error) {
  if (error.status === 401) {
    setKey(null);
    return showDoor("This key is not valid any more.");
  }
  byId("trouble").textContent = sentence(error.message);
  byId("trouble").hidden = false;
}

byId("door-form").addEventListener("submit", (event) => {
  event.preventDefault();
  // What a header cannot carry is no key.
  setKey(byId("key").value.trim().replace(/[^\x21-\x7e]/g, "?"));
  enter();
});

byId("leave").addEventListener("click", () => {
  setKey(null);
  location.reload();
});

// What can be asked, what is left and what was answered.

async function refresh() {
  try {
    const models = (await get("v1/models")).data.map((model) => model.id);
    const corpora = models.filter((name) => name !== PUBLIC);
    fillSelect(byId("model"), corpora.map((name) => [name, name]));
    byId("send").disabled = !corpora.length || Boolean(asking);
    byId("model").disabled = !corpora.length;
    byId("trouble").hidden = true;
    await Promise.all([showBudget(), showMemory(), counting.show(), owner?.show()]);
  } catch (error) {
    showTrouble(error);
  }
}

async function showBudget() {
  const name = byId("model").value;
  const meter = byId("meter");
  const { data } = await get("v1/budget");
  const found = data.find((one) => one.model === name);
  const limited = (found ? found.scopes : []).filter((scope) => scope.answers !== null);
  limited.sort((a, b) => a.answers_left - b.answers_left);
  const [tight] = limited;
  meter.hidden = !tight;
  byId("budget-more").textContent = "";
  byId("calls").textContent = calls(found?.calls);
  if (!found) {
    byId("budget-words").textContent = "No documents are open to you yet.";
    return;
  }
  if (!tight) {
    byId("budget-words").textContent = "No budget is set: answers are counted, not limited.";
    return;
  }
  const left = tight.answers_left;
  const most = Math.max(tight.answers, 1);
  meter.max = most;
  meter.low = most / 4;
  meter.high = most / 2;
  meter.optimum = most;
  meter.value = left;
  const words = sentence(tight.standing);
  meter.textContent = words; // for those who do not see the bar
  meter.setAttribute("aria-valuetext", words);
  byId("budget-words").textContent = words;
  const whose = tight.kind === "corpus" ? "these documents" : "your key";
  byId("budget-more").textContent =
    `This is the budget of ${whose}. An answer may spend epsilon ${few(found.epsilon)} of it.`;
}

/** What a question costs in calls, where a chat model reads; null is known to the documents alone. */
function calls(about) {
  if (!about) return "";
  const said = (many) => (many === null ? "one for each unit" : `about ${many}`);
  return "A chat model reads each unit in a call of its own. "
    + `Calls of an answer: ${said(about.answer)}; of a count: ${said(about.count)}.`;
}

async function showMemory() {
  const { data } = await get("v1/memory");
  byId("memory").replaceChildren(
    ...data.map((entry) => {
      const item = element("li");
      const cost = entry.edited ? "corrected by the owner" : `cost ε ${few(entry.epsilon)}`;
      const piece = entry.whole ? "" : ", cut off: asking it again is paid for";
      item.append(
        element("p", entry.question, "hint words"),
        element("p", entry.whole ? entry.answer : `${entry.answer} …`, "said words"),
        element("p", `${entry.model}, ${day(entry.time)}, ${cost}${piece}`, "hint"),
      );
      // Each in the direction of its own language.
      item.querySelectorAll(".words").forEach((words) => (words.dir = "auto"));
      return item;
    }),
  );
  if (!data.length) byId("memory").append(element("li", "None yet.", "hint"));
}

byId("model").addEventListener("change", () =>
  Promise.all([showBudget(), counting.show()]).catch(showTrouble));

// Asking.

/** How far reading is, pieces of text and the last event's fields, as they come. */
async function* stream(model, text, signal, fresh = false) {
  const headers = { "Content-Type": "application/json" };
  const messages = [{ role: "user", content: text }];
  const body = JSON.stringify({ model, messages, stream: true, dpicl: { fresh } });
  const answer = await request("v1/chat/completions", { method: "POST", headers, body, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (event.startsWith(": read ")) yield { read: Number(event.slice(7)) };
      if (!event.startsWith("data: ")) continue;
      const data = event.slice(6);
      if (data === "[DONE]") return;
      const found = JSON.parse(data);
      if (found.error) throw new Refused(500, found.error);
      yield found;
    }
  }
}

/** One answer into its place; returns what travelled with it. */
async function answer(model, text, place, signal, fresh) {
  place.textContent = "";
  place.classList.remove("piece");
  // A screen reader reads the whole answer once it is there.
  place.setAttribute("aria-busy", "true");
  let privacy = null;
  try {
    for await (const event of stream(model, text, signal, fresh)) {
      if (event.read !== undefined) {
        showReading(event.read);
        continue;
      }
      const [choice] = event.choices;
      if (choice && choice.delta.content) {
        byId("reading").hidden = true;
        place.append(choice.delta.content);
      }
      if (event.privacy) privacy = event.privacy;
    }
  } catch (error) {
    if (place.textContent) {
      place.append(" …");
      place.classList.add("piece");
    }
    throw error;
  } finally {
    place.removeAttribute("aria-busy");
    byId("reading").hidden = true;
  }
  if (!place.textContent) place.textContent = "(no words)";
  return privacy;
}

/** A bar until the first word: how much of the documents is read, or null where that is not known. */
function showReading(part) {
  const bar = byId("reading-bar");
  byId("reading").hidden = false;
  if (part === null) bar.removeAttribute("value");
  else bar.value = part;
  byId("reading-words").textContent = part === 1 ? "Writing the answer" : "Reading the documents";
}

const ENDS = {
  length: "It was cut at the longest length.",
  budget: "It ended early: its share of the budget was spent.",
  unavailable: "It ended early: the language model did not answer.",
};

const REFUSED = "Nothing was spent. What was answered before still comes from memory, at no cost.";

function notesOn(privacy) {
  if (!privacy) return [["bad", "The answer broke off. What was released is paid for."]];
  const notes = [];
  if (privacy.released !== null) {
    notes.push(["", `Put into words by a chat model. Released was: ${privacy.released}`]);
  }
  if (privacy.from_memory) {
    return [...notes, ["good", "From memory: this was answered before, so it cost nothing now."]];
  }
  if (privacy.agreeing !== null) {
    const about = `About ${Math.max(1, privacy.agreeing)} units say so, each by itself`;
    notes.push(["good", `${about} (give or take ${privacy.agreeing_within}).`]);
  } else if (privacy.supported === true) {
    notes.push(["good", "The documents support this answer."]);
  }
  if (privacy.supported === false) {
    notes.push(["bad", "The documents do not support this answer. Take it for a guess."]);
  }
  if (ENDS[privacy.stopped_by]) notes.push(["", ENDS[privacy.stopped_by]]);
  const cost = privacy.epsilon
    ? `It spent at most ε ${few(privacy.epsilon)} at δ ${few(privacy.delta)} of each unit.`
    : "It spent nothing.";
  return [...notes, ["", cost]];
}

async function ask(event) {
  event.preventDefault();
  const text = byId("question").value.trim();
  if (!text || asking || byId("send").disabled) return;
  question = text;
  asked = byId("model").value;
  byId("answers").hidden = false;
  byId("answers").scrollIntoView({ block: "nearest" });
  byId("asked").textContent = question;
  byId("public-text").textContent = "";
  byId("public-note").textContent = "";
  byId("compare").hidden = false;
  if ((await askDocuments(false)) && byId("beside").checked) await compare();
}

async function askAnew() {
  if (asking || !question) return;
  byId("send").focus(); // the button is about to go
  await askDocuments(true);
}

/** The question to the documents; whether its answer came to an end. */
async function askDocuments(fresh) {
  const model = asked;
  byId("private-notes").replaceChildren();
  offerAnew(false);
  showReading(null);
  const ended = await during(async (signal) => {
    const privacy = await answer(model, question, byId("private-text"), signal, fresh);
    note(notesOn(privacy));
    offerAnew(privacy?.from_memory);
  }, (error) => {
    if (error.name === "AbortError") {
      note([["", "You stopped it, so this is no answer. What was drawn until then is paid for, " +
        "the rest given back."]]);
      return;
    }
    const quota = error.status === 429 && error.code === "budget_exceeded";
    note([["bad", sentence(error.message)], ...(quota ? [["", REFUSED]] : [])]);
  });
  await refresh();
  return ended;
}

function offerAnew(offered) {
  byId("anew").hidden = byId("anew-hint").hidden = !offered;
}

async function compare() {
  if (asking || !question) return;
  byId("compare").hidden = true;
  await during(
    async (signal) => {
      await answer(PUBLIC, question, byId("public-text"), signal);
      byId("public-note").textContent = "No document was read, and nothing was spent.";
    },
    (error) => {
      const stopped = error.name === "AbortError";
      byId("public-note").textContent = stopped ? "You stopped it." : sentence(error.message);
    },
  );
}

/** Work that the stop button ends; whether it came to its end. */
async function during(work, failed) {
  asking = new AbortController();
  byId("stop").disabled = false;
  swap("send", "stop");
  try {
    await work(asking.signal);
    return true;
  } catch (error) {
    if (error.status === 401) {
      showTrouble(error);
    } else {
      failed(error);
    }
    return false;
  } finally {
    asking = null;
    byId("send").disabled = false;
    swap("stop", "send");
  }
}

/** Disable a button; who stands on it is led to the other one, not to the top of the page. */
function swap(from, to) {
  if (document.activeElement === byId(from)) byId(to).focus();
  byId(from).disabled = true;
}

function note(notes) {
  byId("private-notes").replaceChildren(
    ...notes.map(([kind, text]) => element("li", text, kind)),
  );
}

byId("ask").addEventListener("submit", ask);
byId("stop").addEventListener("click", () => asking?.abort());
byId("compare").addEventListener("click", compare);
byId("anew").addEventListener("click", askAnew);
byId("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId("ask").requestSubmit();
  }
});

addEventListener("hashchange", () => takeKey() && enter());
counting.whenSpent(refresh);
takeKey();
enter();
