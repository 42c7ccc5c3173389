/** Keys, and files that are dropped. */

import { $, state } from "./state.js";

const STEP = 1; // frames; with Shift ten

/** @param acts `listen()`, `pause()` and `step(frames)` */
export function listenToKeys({ listen, pause, step }) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select")) return;
    const frames = event.shiftKey ? 10 * STEP : STEP;
    const acts = {
      l: listen,
      " ": event.target.closest("button, summary") ? null : pause, // which the key presses
      ArrowLeft: () => step(-frames),
      ArrowRight: () => step(frames),
    };
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || !state.history) return;
    event.preventDefault();
    act();
  });
}

/** @param open gets the file */
export function listenToDrops(open) {
  const shade = $("drop");
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    shade.hidden = false;
  });
  document.addEventListener("dragleave", ({ relatedTarget }) => {
    if (relatedTarget === null) shade.hidden = true;
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    shade.hidden = true;
    if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0]);
  });
}
