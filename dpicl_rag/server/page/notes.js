// Notes: what an answer is worth and what it spent, in sentences with their kind.

import { few } from "./shared.js";
import { UNSUPPORTED } from "./words.js"; // as the server says it

const ENDS = {
  length: "It was cut at the longest length.",
  budget: "It ended early: its share of the budget was spent.",
  unavailable: "It ended early: the language model did not answer.",
};

export const BROKE_OFF = [["bad", "The answer broke off. What was released is paid for."]];

export const STOPPED = [["", "You stopped it, so this is no answer. What was drawn until then is paid "
  + "for, the rest given back."]];

export const REFUSED = "Nothing was spent. What was answered before still comes from memory, at no cost.";

/** What is said of an answer, by its words and the fields that travelled with it. */
export function notesOn(privacy, answer) {
  const notes = [];
  if (privacy.released !== null) {
    notes.push(["", `Put into words by a chat model. Released was: ${privacy.released}`]);
  }
  if (privacy.from_memory) return notes;
  if (privacy.by === "public") {
    const talk = privacy.kind === "answer";
    return [["", talk ? "Small talk: no document was asked." : "No document was asked."]];
  }
  if (privacy.agreeing !== null) {
    const about = `About ${Math.max(1, privacy.agreeing)} units say so, each by itself`;
    notes.push(["good", `${about} (give or take ${privacy.agreeing_within}).`]);
  } else if (privacy.supported === true) {
    notes.push(["good", "The documents support this answer."]);
  }
  if (privacy.supported === false && answer !== UNSUPPORTED) {
    notes.push(["bad", "The documents do not support this answer. Take it for a guess."]);
  }
  if (privacy.numbers?.themes) {
    notes.push(["", "An interval holds the noise, not what is misread."]);
  }
  if (ENDS[privacy.stopped_by]) notes.push(["", ENDS[privacy.stopped_by]]);
  return notes;
}

/** What an answer or a count has spent. */
export function costOf({ from_memory: remembered, by, epsilon, delta }) {
  if (by === "published") return "Published before, in one bundle: it cost nothing now.";
  if (remembered) return "From memory: this was answered before, so it cost nothing now.";
  return epsilon
    ? `It spent at most ε ${few(epsilon)} at δ ${few(delta)} of each unit.`
    : "It spent nothing.";
}
