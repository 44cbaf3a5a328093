// Navigation: one view at a time, named behind the # of the address, where a key may stand too.

import { byId } from "./shared.js";

const VIEWS = ["conversation", "earlier", "help", "owner"];

let forOwner = false;

/** Whether the owner's view is there. */
export function admit(owner) {
  forOwner = owner;
  byId("owner-link").hidden = !owner;
}

/** The view that the address names; `focus` leads to its heading. */
export function show(focus) {
  const named = location.hash.slice(1);
  const there = VIEWS.includes(named) && (named !== "owner" || forOwner);
  const view = there ? named : "conversation";
  for (const one of VIEWS) byId(`${one}-view`).hidden = one !== view;
  for (const link of byId("nav").querySelectorAll("a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const title = byId(`${view}-title`);
  document.title = view === "conversation"
    ? "Private answers" : `${title.textContent} · Private answers`;
  if (!focus) return;
  title.focus({ preventScroll: true });
  scrollTo(0, view === "conversation" ? document.documentElement.scrollHeight : 0);
}

/** Go to a view, and leave it to the caller where to stand there. */
export function open(view) {
  history.pushState(null, "", `#${view}`);
  show(false);
}

// A step past the header, and no step in the history.
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  const [start] = [byId("key"), byId("question"), byId("content")].filter((one) => one.checkVisibility());
  start.focus();
});
