/** The circular statistics of one class in one window, Eqs. (3) to (7), from its response curves. */

import { PROTOTYPES } from "../stream.js";

/**
 * Curves, moments and cross moments of the window that ends before frame `end`. A frame's angle is its number modulo the
 * frames of a window, as in the engine. Frames that are not there have no weight.
 *
 * @returns one { curve, weights, peak, strength, first, second, cross } for each prototype, null without prototypes;
 *   `first` and `second` are the moments q = 1, 2, `cross` is first of the next prototype times conj(first) of this one
 */
export function circularMoments(history, end, label) {
  if (history.padded === 0) return null;
  const found = [];
  for (let s = 0; s < PROTOTYPES; s++) {
    const curve = Float64Array.from({ length: history.window }, (_, i) => history.response(end - history.window + i, s, label));
    found.push({ curve, ...momentsOf(curve, end) });
  }
  found.forEach((one, s) => (one.cross = s + 1 < PROTOTYPES ? timesConjugate(found[s + 1].first, one.first) : null));
  return found;
}

function momentsOf(curve, end) {
  const size = curve.length;
  const turn = (2 * Math.PI) / size;
  const weights = new Float64Array(size);
  const first = { re: 0, im: 0 };
  const second = { re: 0, im: 0 };
  let [sum, peak, seen] = [0, -1, 0];
  for (let i = 0; i < size; i++) {
    if (Number.isNaN(curve[i])) continue;
    const weight = Math.exp(curve[i]);
    const angle = turn * ((end + i) % size); // the same as that of end - size + i
    if (peak < 0 || curve[i] > curve[peak]) peak = i;
    weights[i] = weight;
    sum += weight;
    seen++;
    first.re += weight * Math.cos(angle);
    first.im += weight * Math.sin(angle);
    second.re += weight * Math.cos(2 * angle);
    second.im += weight * Math.sin(2 * angle);
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
