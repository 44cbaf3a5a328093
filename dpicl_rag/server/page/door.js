// The door: the key of this tab, who has it, and what is said when it opens nothing.

import { byId, get, key, sentence, setKey } from "./shared.js";

let opened = async () => {};
let closed = () => {};
let before; // the key of this tab, while a link brings another one

/** `whenOpened` is told who came in; `whenClosed` is told when nobody is in any more. */
export function guard(whenOpened, whenClosed) {
  opened = whenOpened;
  closed = whenClosed;
}

/** A key behind the # of the address, as the server shows it where no others were made. */
export function takeKey() {
  if (!location.hash.startsWith("#dpk-")) return false;
  const linked = location.hash.slice(1);
  history.replaceState(null, "", location.pathname); // not to be copied with the address
  if (linked === key()) return false;
  before = key();
  closed(); // what another key has asked is not for this one
  setKey(linked);
  return true;
}

/** Whether somebody who came by a link goes in with the key that it brings: it may be a stranger's,
 * who would read what is asked with it. The only key of a run is nobody else's. */
function agrees(who) {
  if (before === undefined || !who.keys) return true;
  return confirm(
    `This link brings a key, that of ${who.name}. Whoever has it can read what you ask with it. ` +
      "Go in with it?",
  );
}

export async function enter() {
  let who;
  try {
    who = await get("v1/caller");
    if (!agrees(who)) {
      setKey(before);
      before = undefined;
      return enter();
    }
    before = undefined;
  } catch (error) {
    if (error.status !== 401) return showTrouble(error);
    const wrong = Boolean(key());
    before = undefined;
    setKey(null);
    return show(wrong ? "No such key. Check it, or ask whoever runs this server." : "");
  }
  const entered = !byId("door").hidden;
  byId("door").hidden = true;
  byId("room").hidden = byId("nav").hidden = false;
  byId("leave").hidden = !who.keys;
  byId("who").textContent = who.keys
    ? `${who.name}${who.role === "owner" ? ", owner" : ""}`
    : "Owner: no keys are in use";
  await opened(who, entered);
}

function show(error) {
  closed();
  byId("room").hidden = byId("nav").hidden = true;
  byId("door").hidden = false;
  byId("leave").hidden = true;
  byId("who").textContent = "";
  byId("door-error").textContent = error;
  byId("key").value = "";
  byId("key").focus();
}

/** Say what went wrong with the page as a whole; a key that is refused leads back to the door. */
export function showTrouble(error) {
  if (error.status === 401) {
    setKey(null);
    return show("This key is not valid any more.");
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
