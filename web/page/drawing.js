/** Draws the page: the three figures, the word above the circle, the bars and the clock. */

import { drawCircle } from "./circle.js";
import { Figure } from "./figure.js";
import { LOOK_AHEAD, SHOWN } from "./history.js";
import { circularMoments } from "./moments.js";
import { showNumbers } from "./numbers.js";
import { paletteOf } from "./palette.js";
import { Picture } from "./picture.js";
import { Scores } from "./scores.js";
import { drawSecond } from "./second.js";
import { $, setText, state } from "./state.js";
import { drawStrip } from "./strip.js";

const FAR = 100; // frames by which what is shown may lag behind the sound
const HEARD_FRAMES = 150; // for so long the word stays above the circle
const EASE = 0.35; // of the way to the newest frame, for each drawn frame: messages come in bursts
const CLEARLY = 0.15; // by which another keyword must lead before its responses are shown
const PROBABLE = 0.5; // the least probability at which a word stands above the circle before it is heard
const CALM_MS = 250; // between two drawings, for visitors who asked for less motion

export const figures = Object.fromEntries(["circle", "strip", "second"].map((name) => [name, new Figure($(name), redraw)]));
export const scores = new Scores($("scores"), (label) => {
  state.pinned = label;
  redraw();
});
const picture = new Picture();
let asked = false;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** Asks for a drawing with the next frame of the screen. */
export function redraw() {
  if (asked) return;
  asked = true;
  if (calm.matches && !state.paused) setTimeout(() => requestAnimationFrame(draw), CALM_MS);
  else requestAnimationFrame(draw);
}

function draw() {
  asked = false;
  const { history } = state;
  if (!history) return;
  advance();
  const view = viewOf();
  picture.update(history, view.palette);
  const said = {
    strip: drawStrip(figures.strip, picture, view),
    second: drawSecond(figures.second, picture, view),
    circle: drawCircle(figures.circle, view),
  };
  for (const [name, text] of Object.entries(said)) setText($(`${name}-readout`), text ?? "");
  showAnswer(view);
  showClock(view);
  if ($("numbers").open) showNumbers($("numbers-body"), view.moments, view.whole);
  if (!state.paused) redraw();
}

/** Moves on to the newest frame, or to the time at which the recording plays. */
function advance() {
  const { history, recording } = state;
  if (recording) {
    if (state.clock) state.place = Math.min(Math.round(state.clock() * 100), recording.frames);
    recording.show(headOf(recording) - LOOK_AHEAD);
  } else if (!state.paused) {
    const ahead = history.end - state.shown;
    state.shown = Math.abs(ahead) > FAR ? history.end : state.shown + EASE * ahead;
  }
}

/** The last frame of a recording in the strip, which shows five seconds before and after the place if it can. */
function headOf({ frames }) {
  return Math.max(Math.min(frames, Math.max(state.place + SHOWN / 2, SHOWN)), state.history.window);
}

/** What is shown now: times are in frames, `end` where the shown window ends, `head` where the strip ends. */
export function viewOf() {
  const { history, recording } = state;
  const head = recording ? headOf(recording) : state.shown + LOOK_AHEAD;
  const span = recording ? Math.min(SHOWN, head) : SHOWN;
  const end = recording ? state.place : state.shown - state.back;
  const whole = Math.round(end);
  const heard = history.windowBefore(whole);
  const label = follow(heard);
  const size = history.window === 100 ? "One second" : `${(history.window / 100).toFixed(1)} s`;
  setText($("second-name"), history.padded ? `${size}, five responses to “${history.classes[label].name}”` : size);
  return {
    ...{ history, head, span, end, whole, heard, label, live: !recording, hits: state.hits.hits },
    palette: paletteOf(document.documentElement.dataset.theme),
    moments: circularMoments(history, whole, label),
  };
}

/** The class whose responses are shown: the pinned one, else the leading keyword. */
function follow(heard) {
  if (state.pinned >= 0) return state.pinned;
  const { classes } = state.history;
  if (heard) {
    const best = argmax(heard.probabilities, (label) => classes[label].keyword);
    if (best >= 0 && heard.probabilities[best] > (heard.probabilities[state.followed] ?? 0) + CLEARLY) state.followed = best;
  }
  return state.followed;
}

function argmax(values, eligible) {
  return values.reduce((best, value, i) => (eligible(i) && (best < 0 || value > values[best]) ? i : best), -1);
}

/** The word above the circle, and the bars. */
function showAnswer({ history, heard, whole }) {
  const top = heard ? argmax(heard.probabilities, () => true) : -1;
  scores.show(heard, top);
  const hit = state.hits.hits.findLast(({ start, end }) => start * 100 < whole && whole < end * 100 + HEARD_FRAMES);
  $("word").parentElement.classList.toggle("heard", Boolean(hit));
  if (hit) {
    setText($("word"), hit.label);
    setText($("word-note"), `${Math.round(100 * hit.score)} %, ${hit.start.toFixed(2)}–${hit.end.toFixed(2)} s`);
  } else if (top < 0) {
    setText($("word"), "Say a word");
    setText($("word-note"), keywords(history.classes));
  } else {
    const probable = history.classes[top].keyword && heard.probabilities[top] >= PROBABLE;
    setText($("word"), probable ? history.classes[top].name : "…");
    setText($("word-note"), `${history.classes[top].name}, ${Math.round(100 * heard.probabilities[top])} %`);
  }
}

function keywords(classes) {
  const words = classes.filter(({ keyword }) => keyword).map(({ name }) => name);
  return words.length > 4 ? `${words.slice(0, 4).join(", ")} …` : words.join(", ");
}

function showClock({ end, live }) {
  const place = $("place");
  const value = live ? SHOWN - state.back : state.place;
  if (Number(place.value) !== value) place.value = value;
  const text = live ? `${(state.back ? -state.back / 100 : 0).toFixed(2).replace("-", "−")} s` : `${(end / 100).toFixed(2)} s`;
  setText($("clock"), live && !state.back ? "now" : text);
  if (document.activeElement === place) place.setAttribute("aria-valuetext", text);
}
