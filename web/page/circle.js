/**
 * The circle: a window of sound bent into a ring. The angle of a frame is its number modulo the frames of a window,
 * clockwise from the top, as in the engine, so the hand writes the newest frame over the oldest. Outside, ticks show the loudness; the curves are
 * the five responses; the numbered dots are the moments q = 1, the small rings q = 2 (at half the angle), and the arrows
 * between the dots the cross moments.
 */

import { BANDS } from "../stream.js";
import { write } from "./figure.js";
import { magnitude, turns } from "./moments.js";

const FULL = 2 * Math.PI;
const POINTED = 0.06; // the least length of a moment that has a direction worth a number
const LOUD_FRAME = 8; // mean log power of a frame at the full length of a tick

/** Radii as shares of half the figure. */
const RADIUS = { ticks: 0.86, longest: 0.115, highest: 0.8, lowest: 0.16, moments: 0.8 };

export function drawCircle(figure, view) {
  const { palette, moments, end, history } = view;
  const angleOf = (frame) => turnOf(frame, history.window) * FULL;
  const context = figure.begin();
  const half = Math.min(figure.width, figure.height) / 2;
  context.save();
  context.translate(figure.width / 2, figure.height / 2);
  drawFace(context, half, palette);
  drawTicks(context, half, view, angleOf);
  if (moments) {
    moments.forEach((one, s) => drawResponse(context, half, one, Math.floor(end), angleOf, history.scale, palette.curves[s]));
    drawHand(context, half, angleOf(end), palette);
    moments.slice(0, -1).forEach((one, s) => drawCross(context, half, one, moments[s + 1], palette));
    moments.forEach((one, s) => drawMoment(context, half, one, palette, s));
  } else {
    drawHand(context, half, angleOf(end), palette);
  }
  context.restore();
  return figure.pointer && moments ? circleValue(figure, half, view) : null;
}

function point(angle, radius) {
  return [radius * Math.sin(angle), -radius * Math.cos(angle)];
}

/** The place of a frame on a circle of so many frames, from 0 to 1. */
function turnOf(frame, frames) {
  return (((frame % frames) + frames) % frames) / frames;
}

function drawFace(context, half, palette) {
  context.lineWidth = 1;
  context.strokeStyle = palette.line;
  for (const radius of [RADIUS.highest, radiusOf(0, 1), RADIUS.lowest]) {
    context.beginPath();
    context.arc(0, 0, radius * half, 0, FULL);
    context.stroke();
  }
  for (let quarter = 0; quarter < 4; quarter++) {
    const angle = (quarter / 4) * FULL;
    context.beginPath();
    context.moveTo(...point(angle, RADIUS.lowest * half));
    context.lineTo(...point(angle, RADIUS.highest * half));
    context.stroke();
  }
}

/** One tick for each frame, as long as the frame is loud; older ones are fainter. */
function drawTicks(context, half, { history, end, palette }, angleOf) {
  context.lineWidth = Math.max(1.5, half * 0.011);
  context.lineCap = "round";
  context.strokeStyle = palette.ink;
  const last = Math.floor(end);
  for (let i = 0; i < history.window; i++) {
    const frame = last - history.window + i;
    const mel = history.melFrame(frame);
    const share = mel ? Math.min(mel.reduce((sum, value) => sum + value, 0) / BANDS / LOUD_FRAME, 1) : 0;
    const angle = angleOf(frame + 0.5);
    context.globalAlpha = mel ? 0.25 + (0.65 * i) / history.window : 0.12;
    context.beginPath();
    context.moveTo(...point(angle, RADIUS.ticks * half));
    context.lineTo(...point(angle, (RADIUS.ticks + 0.012 + RADIUS.longest * share) * half));
    context.stroke();
  }
  context.globalAlpha = 1;
}

/** From the lowest circle, half of alpha below zero, to the highest, nine tenths of it: few are beyond. */
function radiusOf(response, scale) {
  const share = Math.min(Math.max((response / scale + 0.5) / 1.4, 0), 1);
  return RADIUS.lowest + (RADIUS.highest - RADIUS.lowest) * share;
}

/** A response curve: faint, filled where the response is positive, and strong where most of its weight is. */
function drawResponse(context, half, { curve, weights }, last, angleOf, scale, colour) {
  const angle = (i) => angleOf(last - curve.length + i + 0.5);
  const at = (i, least = -Infinity) => point(angle(i), half * radiusOf(Math.max(curve[i], least), scale));
  const known = [...curve.keys()].filter((i) => !Number.isNaN(curve[i]));
  if (known.length < 2) return;
  const highest = weights.reduce((most, weight) => Math.max(most, weight), 0);
  const mean = weights.reduce((sum, weight) => sum + weight, 0) / known.length;
  const strong = Math.max(0.3 * highest, 2 * mean); // nothing is strong if all are alike
  context.strokeStyle = context.fillStyle = colour;
  context.lineJoin = "round";
  trace(context, known.map((i) => at(i, 0)));
  context.arc(0, 0, half * radiusOf(0, scale), angle(known.at(-1)) - FULL / 4, angle(known[0]) - FULL / 4, true);
  context.globalAlpha = 0.13;
  context.fill();
  context.lineWidth = 1.25;
  context.globalAlpha = 0.5;
  trace(context, known.map((i) => at(i)));
  context.stroke();
  context.lineWidth = 3;
  context.globalAlpha = 1;
  for (let from = 0; from < curve.length; from++) {
    let to = from;
    while (to < curve.length && weights[to] > strong) to++;
    if (to - from > 1) trace(context, Array.from({ length: to - from }, (_, i) => at(from + i)));
    if (to - from > 1) context.stroke();
    from = to;
  }
}

/** A path through the middles between points, which rounds off the corners. */
function trace(context, points) {
  context.beginPath();
  context.moveTo(...points[0]);
  for (let i = 1; i < points.length - 1; i++) {
    const [x, y] = points[i];
    context.quadraticCurveTo(x, y, (x + points[i + 1][0]) / 2, (y + points[i + 1][1]) / 2);
  }
  context.lineTo(...points.at(-1));
}

function drawHand(context, half, angle, palette) {
  context.strokeStyle = palette.accent;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(...point(angle, RADIUS.lowest * half));
  context.lineTo(...point(angle, (RADIUS.ticks + RADIUS.longest + 0.012) * half));
  context.stroke();
}

function place(moment, half) {
  return point(turns(moment) * FULL, magnitude(moment) * RADIUS.moments * half);
}

/** A moment q = 1 as a numbered dot at its direction and length, q = 2 as a ring at half its angle. */
function drawMoment(context, half, { first, second }, palette, s) {
  const [x, y] = place(first, half);
  const pointed = magnitude(first) >= POINTED;
  const size = pointed ? Math.max(9, half * 0.045) : 3;
  context.strokeStyle = palette.curves[s];
  context.lineWidth = 1.5;
  context.beginPath();
  context.arc(...point(nearestHalf(second, first) * FULL, magnitude(second) * RADIUS.moments * half), 3.5, 0, FULL);
  context.stroke();
  context.fillStyle = palette.curves[s];
  context.strokeStyle = palette.panel;
  context.lineWidth = 2;
  context.beginPath();
  context.arc(x, y, size, 0, FULL);
  context.fill();
  context.stroke();
  if (pointed) write(context, `${s + 1}`, x, y + 0.5, palette.panel, "center", Math.round(size * 1.25), 700);
}

/** The angle of q = 2 runs twice as fast: of its two halves, the one that is nearer to q = 1. */
function nearestHalf(second, first) {
  const half = turns(second) / 2;
  const apart = Math.abs(((half - turns(first) + 1.5) % 1) - 0.5);
  return apart <= 0.25 ? half : half + 0.5;
}

/** A cross moment as an arrow from one dot to the next, as strong as it is long. */
function drawCross(context, half, from, to, palette) {
  const [[x0, y0], [x1, y1]] = [place(from.first, half), place(to.first, half)];
  const length = Math.hypot(x1 - x0, y1 - y0);
  const gap = Math.max(9, half * 0.045) + 3;
  if (length < 2 * gap + 6) return;
  const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
  const tip = [x1 - dx * gap, y1 - dy * gap];
  context.globalAlpha = 0.25 + 0.75 * Math.min(1, magnitude(from.cross));
  context.strokeStyle = context.fillStyle = palette.ink;
  context.lineWidth = 1 + 2 * magnitude(from.cross);
  context.beginPath();
  context.moveTo(x0 + dx * gap, y0 + dy * gap);
  context.lineTo(tip[0] - dx * 6, tip[1] - dy * 6);
  context.stroke();
  context.beginPath();
  context.moveTo(...tip);
  context.lineTo(tip[0] - dx * 9 - dy * 5, tip[1] - dy * 9 + dx * 5);
  context.lineTo(tip[0] - dx * 9 + dy * 5, tip[1] - dy * 9 - dx * 5);
  context.fill();
  context.globalAlpha = 1;
}

/** What the pointer is at: a moment if one is near, else the frame of its angle. */
function circleValue(figure, half, { moments, end, history }) {
  const x = figure.pointer.x - figure.width / 2;
  const y = figure.pointer.y - figure.height / 2;
  if (Math.hypot(x, y) > half) return null;
  const distance = ({ first }) => Math.hypot(place(first, half)[0] - x, place(first, half)[1] - y);
  const nearest = moments.reduce((best, one, s) => (distance(one) < distance(moments[best]) ? s : best), 0);
  if (distance(moments[nearest]) < 16) return describe(moments[nearest], nearest);
  const frames = history.window;
  const under = Math.floor(((Math.atan2(x, -y) / FULL + 1) % 1) * frames);
  const i = (((under - Math.floor(end)) % frames) + frames) % frames;
  if (Number.isNaN(moments[0].curve[i])) return null;
  const values = moments.map(({ curve }, s) => `${s + 1}: ${curve[i].toFixed(1).replace("-", "−")}`);
  return `${((frames - i) / 100).toFixed(2)} s before the hand   ${values.join("   ")}`;
}

function describe({ first, second, cross }, s) {
  const next = cross ? `, to ${s + 2}: ${magnitude(cross).toFixed(2)} at ${Math.round(angleDegrees(cross))}°` : "";
  return `moment ${s + 1}: ${magnitude(first).toFixed(2)} at ${Math.round(turns(first) * 360)}°, q = 2: ${magnitude(second).toFixed(2)}${next}`;
}

/** The angle of a cross moment: how far the next prototype is ahead, from −180° to 180°. */
function angleDegrees({ re, im }) {
  return (Math.atan2(im, re) * 180) / Math.PI;
}
