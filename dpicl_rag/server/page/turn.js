// A turn: a question, its answer as it comes, and what is to be said of it.

import { announce, byId, element, following, sentence } from "./shared.js";

let made = 0;

/** A turn's place in the conversation. Its parts are those of the template. */
export class Turn {
  /** Below the last one. */
  constructor(question) {
    this.place = byId("turn").content.cloneNode(true).firstElementChild;
    this.part(".question").textContent = question;
    this.part(".question").id = `question-${++made}`;
    this.place.setAttribute("aria-labelledby", `question-${made}`);
    this.answer = this.part(".reply .answer");
    const copy = this.part(".copy");
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(this.answer.textContent);
      announce("Copied");
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = "Copy"), 2000);
    });
    following(() => byId("turns").append(this.place), true);
  }

  part(selector) {
    return this.place.querySelector(selector);
  }

  /** Of what kind the question is, and whose documents are asked; "" says nothing. */
  about(words) {
    this.part(".about").textContent = words;
    this.part(".about").hidden = !words;
  }

  /** Under way: a bar, how much of it is done where that is known, and what is said to that. */
  reading(name, words, part = null) {
    const bar = this.part("progress");
    this.part(".reading").hidden = false;
    bar.setAttribute("aria-label", name);
    if (part === null) bar.removeAttribute("value");
    else bar.value = part;
    this.part(".reading p").textContent = words;
    this.place.setAttribute("aria-busy", "true");
  }

  /** A piece of the answer. */
  write(piece) {
    this.part(".reading").hidden = true;
    this.answer.setAttribute("aria-busy", "true");
    following(() => this.answer.append(piece));
  }

  /** The question as it was put, where it is not what was typed; `literal` asks what was. */
  putAs(question, literal) {
    following(() => {
      this.part(".whole q").textContent = question;
      this.part(".whole").hidden = false;
    });
    this.part(".literal").addEventListener("click", literal);
  }

  /** It has come to an end, this way or that, and spent what `cost` says. */
  ended(notes, cost = "") {
    this.part(".reading").hidden = true;
    this.place.removeAttribute("aria-busy");
    this.answer.removeAttribute("aria-busy");
    this.part(".copy").hidden = !this.answer.textContent || !navigator.clipboard; // none without https
    following(() => this.part(".notes").replaceChildren(
      ...notes.map(([kind, text]) => element("li", text, kind)),
    ));
    const notable = notes.filter(([kind]) => kind).map(([, text]) => text);
    announce([this.answer.textContent, ...notable, cost].join("\n"));
  }

  /** Only a piece of an answer has come. */
  cut() {
    if (!this.answer.textContent) return;
    this.answer.append(" …");
    this.answer.classList.add("piece");
  }

  /** What it spent; what the budget then pays for stands at the last one alone. */
  cost(spent, left) {
    byId("turns").querySelectorAll(".left").forEach((old) => old.remove());
    following(() => this.part(".cost").replaceChildren(spent, element("span", left, "left")));
  }

  /** Bars of the numbers in the answer, if there are any. */
  chart(table) {
    if (table) following(() => this.answer.after(table));
  }

  /** A button that asks the same once more. */
  offer(label, hint, again) {
    following(() => {
      this.part(".anew").textContent = label;
      this.part(".anew-hint").textContent = hint;
      this.part(".anew").hidden = this.part(".anew-hint").hidden = false;
    });
    this.part(".anew").addEventListener("click", again);
  }

  /** The same without documents, asked when it is unfolded; `ask` writes it, and ends with a signal. */
  compare(ask) {
    const beside = this.part(".beside");
    const [answer, note] = beside.querySelectorAll("p");
    let running = null;
    following(() => (beside.hidden = false));
    beside.addEventListener("toggle", async () => {
      if (!beside.open) return running?.abort();
      if (running || answer.dataset.whole) return;
      running = new AbortController();
      answer.textContent = note.textContent = "";
      answer.setAttribute("aria-busy", "true");
      try {
        await ask((piece) => following(() => answer.append(piece)), running.signal);
        answer.dataset.whole = "yes";
        following(() => (note.textContent = "No document was read, and nothing was spent."));
        announce(`Without documents: ${answer.textContent}`);
      } catch (error) {
        note.textContent = error.name === "AbortError" ? "" : sentence(error.message);
        announce(note.textContent);
      } finally {
        answer.removeAttribute("aria-busy");
        running = null;
      }
    });
  }
}
