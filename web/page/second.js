/** One window: its log-mel picture, and below it the responses of the five prototypes of a class. */

import { AXIS, write } from "./figure.js";

const PICTURE_SHARE = 0.34; // of the height
const LEFT = 34; // for the scale of the responses
const MARK = 8; // radius of a number

export function drawSecond(figure, picture, view) {
  const { palette, end, moments, history } = view;
  const context = figure.begin();
  const width = figure.width - LEFT;
  const top = Math.round((figure.height - AXIS) * PICTURE_SHARE);
  const bottom = figure.height - AXIS;
  context.fillStyle = palette.faint;
  context.fillRect(LEFT, 0, width, top);
  picture.draw(context, end - history.window, end, LEFT, 0, width, top);
  const scale = Math.max(history.scale, 1e-6);
  const y = (response) => (top + 12 + bottom - 6) / 2 - (response / scale) * ((bottom - 6 - top - 12) / 2);
  drawTimes(context, view, width, bottom);
  if (!moments) {
    write(context, "this model has no prototypes", LEFT + width / 2, y(0), palette.muted, "center", 14);
    return null;
  }
  drawLevels(context, palette, figure, scale, y);
  const x = (place) => LEFT + ((place + 0.5) / history.window) * width;
  moments.forEach(({ curve }, s) => drawCurve(context, curve, x, y, palette.curves[s]));
  const peaks = moments.flatMap(({ curve, peak }, s) => (peak < 0 ? [] : [{ s, x: x(peak), y: y(curve[peak]) }]));
  for (const peak of apart(peaks, LEFT + 8, figure.width - 8)) drawPeak(context, peak, palette);
  return readValues(context, figure, view, x, width, bottom);
}

function drawLevels(context, palette, figure, scale, y) {
  context.lineWidth = 1;
  for (const level of [scale, 0, -scale]) {
    context.strokeStyle = palette.line;
    context.beginPath();
    context.moveTo(LEFT, Math.round(y(level)) + 0.5);
    context.lineTo(figure.width, Math.round(y(level)) + 0.5);
    context.stroke();
    write(context, level.toFixed(1).replace("-", "−"), LEFT - 6, y(level), palette.muted, "right", 11);
  }
}

function drawTimes(context, { palette, end, live, head, history }, width, bottom) {
  const frames = history.window;
  for (let quarter = 0; quarter <= 4; quarter++) {
    const place = (quarter / 4) * frames;
    const seconds = live ? (end - frames + place - head) / 100 : (end - frames + place) / 100;
    const align = quarter === 0 ? "left" : quarter === 4 ? "right" : "center";
    const text = `${seconds.toFixed(2).replace("-", "−")} s`;
    write(context, text, LEFT + (place / frames) * width, bottom + AXIS / 2 + 1, palette.muted, align, 11);
  }
}

function drawCurve(context, curve, x, y, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.lineJoin = "round";
  context.beginPath();
  let drawing = false;
  for (let i = 0; i < curve.length; i++) {
    if (Number.isNaN(curve[i])) drawing = false;
    else if (drawing) context.lineTo(x(i), y(curve[i]));
    else context.moveTo(x(i), y(curve[i]));
    drawing = !Number.isNaN(curve[i]);
  }
  context.stroke();
}

/** Pushes marks that cover each other apart, half of the way each. */
function apart(marks, least, most) {
  for (let round = 0; round < 20; round++)
    for (const [i, one] of marks.entries())
      for (const other of marks.slice(i + 1)) {
        const push = (2 * MARK + 1 - Math.hypot(one.x - other.x, one.y - other.y)) / 2;
        if (push <= 0) continue;
        const sign = one.x <= other.x ? 1 : -1;
        one.x = Math.min(Math.max(one.x - sign * push, least), most);
        other.x = Math.min(Math.max(other.x + sign * push, least), most);
      }
  return marks;
}

function drawPeak(context, { s, x, y }, palette) {
  context.fillStyle = palette.curves[s];
  context.beginPath();
  context.arc(x, y, MARK, 0, 2 * Math.PI);
  context.fill();
  write(context, `${s + 1}`, x, y + 0.5, palette.panel, "center", 11, 700);
}

/** A line under the pointer, and the five responses there. */
function readValues(context, figure, { palette, moments, end, live, head, history }, x, width, bottom) {
  const frames = history.window;
  const place = figure.pointer ? Math.floor(((figure.pointer.x - LEFT) / width) * frames) : -1;
  if (place < 0 || place >= frames || Number.isNaN(moments[0].curve[place])) return null;
  context.strokeStyle = palette.muted;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x(place), 0);
  context.lineTo(x(place), bottom);
  context.stroke();
  const frame = Math.floor(end) - frames + place;
  const time = live ? `${((head - frame) / 100).toFixed(2)} s ago` : `${(frame / 100).toFixed(2)} s`;
  const values = moments.map(({ curve }, s) => `${s + 1}: ${curve[place].toFixed(1).replace("-", "−")}`);
  return `${time}   ${values.join("   ")}`;
}
