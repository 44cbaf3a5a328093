// The page: who is in, which view is open, and what is shown anew when something has changed.

import * as budget from "./budget.js";
import * as composer from "./composer.js";
import * as conversation from "./conversation.js";
import * as door from "./door.js";
import * as durations from "./durations.js";
import * as memory from "./memory.js";
import * as navigation from "./navigation.js";
import { byId, fillSelect, get } from "./shared.js";

const PUBLIC = "public";

let owner = null; // the owner's part, loaded for owners only

async function opened(who, entered) {
  byId("toy").hidden = !who.toy;
  // Loaded before its view can be opened: what is chosen there before would not be heard.
  owner = who.role === "owner" ? await import("./owner.js") : null;
  navigation.admit(owner !== null);
  navigation.show(false);
  await owner?.open(refresh);
  await refresh();
  if (entered && !byId("conversation-view").hidden) byId("question").focus();
}

function closed() {
  conversation.clear();
  composer.clear();
  durations.forget();
}

/** Corpora, what is left, what was answered, and hints that follow from them. */
async function refresh() {
  try {
    const models = (await get("v1/models")).data.map((model) => model.id);
    const corpora = models.filter((name) => name !== PUBLIC);
    fillSelect(byId("model"), corpora.map((name) => [name, name]));
    byId("model").disabled = !corpora.length;
    byId("no-documents").hidden = corpora.length > 0 || !owner;
    byId("trouble").hidden = true;
    await Promise.all([budget.load(), composer.show(), memory.show(again), owner?.show()]);
    budget.show(composer.corpus());
  } catch (error) {
    door.showTrouble(error);
  }
}

/** Write a question that was asked before, for whoever wants its answer once more. */
function again(question, corpus) {
  byId("model").value = corpus;
  navigation.open("conversation");
  chosen();
  composer.write(question).catch(door.showTrouble);
}

/** Other documents. */
function chosen() {
  budget.show(composer.corpus());
  composer.show().catch(door.showTrouble);
}

byId("model").addEventListener("change", chosen);
addEventListener("hashchange", () => (door.takeKey() ? door.enter() : navigation.show(true)));

door.guard(opened, closed);
conversation.whenSpent(refresh);
door.takeKey();
door.enter();
