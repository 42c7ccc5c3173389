/** The circular statistics of one class in one window, Eqs. (3) to (7), from its response curves. */

import { PROTOTYPES } from "../stream.js";
import { WINDOW } from "./history.js";

const TURN = (2 * Math.PI) / WINDOW;
const COS = Float64Array.from({ length: WINDOW }, (_, t) => Math.cos(TURN * t));
const SIN = Float64Array.from({ length: WINDOW }, (_, t) => Math.sin(TURN * t));

/**
 * Curves, moments and cross moments of the window that ends before frame `end`. A frame's angle is its number modulo 100,
 * as in the engine. Frames that are not there have no weight.
 *
 * @returns one { curve, weights, peak, strength, first, second, cross } for each prototype, null without prototypes;
 *   `first` and `second` are the moments q = 1, 2, `cross` is first of the next prototype times conj(first) of this one
 */
export function circularMoments(history, end, label) {
  if (history.padded === 0) return null;
  const found = [];
  for (let s = 0; s < PROTOTYPES; s++) {
    const curve = new Float64Array(WINDOW);
    for (let i = 0; i < WINDOW; i++) curve[i] = history.response(end - WINDOW + i, s, label);
    found.push({ curve, ...momentsOf(curve, end) });
  }
  found.forEach((one, s) => (one.cross = s + 1 < PROTOTYPES ? timesConjugate(found[s + 1].first, one.first) : null));
  return found;
}

function momentsOf(curve, end) {
  const weights = new Float64Array(WINDOW);
  const first = { re: 0, im: 0 };
  const second = { re: 0, im: 0 };
  let [sum, peak, seen] = [0, -1, 0];
  for (let i = 0; i < WINDOW; i++) {
    if (Number.isNaN(curve[i])) continue;
    const weight = Math.exp(curve[i]);
    const angle = (((end + i) % WINDOW) + WINDOW) % WINDOW; // end - 100 + i, modulo 100
    const twice = (2 * angle) % WINDOW;
    if (peak < 0 || curve[i] > curve[peak]) peak = i;
    weights[i] = weight;
    sum += weight;
    seen++;
    first.re += weight * COS[angle];
    first.im += weight * SIN[angle];
    second.re += weight * COS[twice];
    second.im += weight * SIN[twice];
  }
  for (const moment of [first, second]) [moment.re, moment.im] = seen ? [moment.re / sum, moment.im / sum] : [0, 0];
  return { weights, peak, first, second, strength: seen ? Math.log(sum / seen) : NaN };
}

function timesConjugate(a, b) {
  return { re: a.re * b.re + a.im * b.im, im: a.im * b.re - a.re * b.im };
}

export function magnitude({ re, im }) {
  return Math.hypot(re, im);
}

/** The angle of a moment in turns, from 0 to 1. */
export function turns({ re, im }) {
  return (Math.atan2(im, re) / (2 * Math.PI) + 1) % 1;
}
