// Kinds of questions: their names, and what is said of one before it is asked.

import { few } from "./shared.js";

const COUNTING = { reading: "Counting the documents", took: "Counts here took about" };

const KINDS = {
  answer: {
    name: "", reading: "Reading the documents", took: "Answers here took about",
    does: ({ steps, units_to_agree: agree }) => steps.length
      ? `A fact, asked in ${steps.length} steps`
      : agree ? `A fact that about ${agree} must state` : "A fact that many state",
  },
  count: {
    ...COUNTING, name: "How many",
    does: ({ within }) => `Counts how many say so (±${within})`,
  },
  tally: {
    ...COUNTING, name: "Which of these",
    does: ({ within }) => `Counts how many say each (±${within})`,
  },
  survey: {
    ...COUNTING, name: "What they are about",
    does: ({ smallest }) => `Counts themes, of about ${smallest} or more`,
  },
  summary: {
    ...COUNTING, name: "Summary",
    does: () => "Sums up the largest themes",
  },
  person: {
    name: "About one person", reading: "Asking", took: "",
    does: () => "Of one person nothing is told",
  },
};

export const kindOf = (name) => KINDS[name] ?? KINDS.answer;

/** What is done with a question, and its price. */
export function told(plan) {
  const free = !plan.epsilon;
  const talk = free && plan.kind === "answer";
  const does = talk ? "Small talk: no document is asked" : kindOf(plan.kind).does(plan);
  return `${does} · ${free ? "free" : `ε ${few(plan.epsilon)}`}`;
}
