// Durations: how long answers took in this tab. A server that told it would tell how much it reads.

const KEPT = 5;

const taken = new Map(); // by what was asked of which corpus: the last ones, in seconds

export function keep(what, seconds) {
  taken.set(what, [...(taken.get(what) ?? []), seconds].slice(-KEPT));
}

/** The middle one of the last, in seconds; undefined where there was none. */
export function usual(what) {
  const sorted = [...(taken.get(what) ?? [])].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

export function forget() {
  taken.clear();
}

/** "12 s" or "3 min" on one line, as nearly as a person wants to know. */
export function words(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))}\u00a0s`;
  return `${Math.round(seconds / 60)}\u00a0min`;
}

/** Seconds until all is read, by the pace so far; undefined while there is none. */
export function left(part, elapsed) {
  return part > 0 && part < 1 ? (elapsed * (1 - part)) / part : undefined;
}
