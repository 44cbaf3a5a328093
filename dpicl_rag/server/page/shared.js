// Requests, elements and words that all parts of the page use. Text becomes text, never markup.

const KEY = "dpicl-key";

export const byId = (id) => document.getElementById(id);

export const key = () => sessionStorage.getItem(KEY);
export const setKey = (value) =>
  value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY);

export class Refused extends Error {
  constructor(status, error) {
    super(error.message || "the server did not answer as expected; ask again later");
    this.status = status;
    this.code = error.code;
  }
}

/** A request with the key; what is no success throws Refused. */
export async function request(path, options = {}) {
  const headers = { ...(key() && { Authorization: `Bearer ${key()}` }), ...options.headers };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { message: "the server cannot be reached; see that it runs" });
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, body.error || {});
}

export const get = async (path) => (await request(path)).json();

export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return (await request(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/** An element with a text in it. */
export function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

/** Choose among names; what was chosen stays chosen if it is still there. */
export function fillSelect(select, choices) {
  const before = select.value;
  select.replaceChildren(
    ...choices.map(([value, text]) => {
      const option = element("option", text);
      option.value = value;
      return option;
    }),
  );
  if (choices.some(([value]) => value === before)) select.value = before;
}

export function day(iso) {
  const words = { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" };
  return new Date(iso).toLocaleDateString("en-GB", words);
}

/** A number in a few digits, without noise behind the point. */
export const few = (number) => number.toLocaleString("en", { maximumSignificantDigits: 3 });

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A button in place of another; who stands on that is led to this one, not to the top of the page. */
export function swap(from, to) {
  to.hidden = false;
  if (document.activeElement === from) to.focus();
  from.hidden = true;
}

/** Let a button do nothing for a while. Who stands on it stays there: a disabled one lets go of them. */
export const hold = (button, held) => button.setAttribute("aria-disabled", held);

/** Say once to a screen reader: what streams in is not read out piece by piece. */
export const announce = (text) => (byId("news").textContent = text);

/** What a form does; a refusal is told in its place. */
export function submits(form, place, work) {
  byId(form).addEventListener("submit", async (event) => {
    event.preventDefault();
    const [button] = byId(form).querySelectorAll("button[type=submit]");
    if (button.ariaDisabled === "true") return;
    byId(place).textContent = "";
    hold(button, true);
    try {
      await work();
    } catch (error) {
      if (error.status === 401) location.reload(); // to the door
      byId(place).textContent = sentence(error.message);
    } finally {
      hold(button, false);
    }
  });
}

const NEAR = 120; // pixels above the end of the page that still count as being there

/** Change the page; who reads its end stays there, who reads above is left alone. */
export function following(change, always = false) {
  const page = document.documentElement;
  const follows = always || innerHeight + scrollY >= page.scrollHeight - NEAR;
  change();
  if (follows) scrollTo(0, page.scrollHeight);
}
