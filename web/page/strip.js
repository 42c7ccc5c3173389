/** The last ten seconds: log-mel, the hits, and a bracket around the window that is judged. */

import { BANDS } from "../stream.js";
import { AXIS, write } from "./figure.js";

export function drawStrip(figure, picture, view) {
  const { palette, end, head, span, history } = view;
  const context = figure.begin();
  const height = figure.height - AXIS;
  const from = head - span;
  const x = (frame) => ((frame - from) / span) * figure.width;
  context.fillStyle = palette.faint;
  context.fillRect(0, 0, figure.width, height);
  picture.draw(context, from, head, 0, 0, figure.width, height);
  drawHits(context, view, x, height);
  drawBracket(context, palette, x(end - history.window), x(end), height);
  drawSeconds(context, view, x, figure);
  return figure.pointer && figure.pointer.y < height ? stripValue(history, view, figure, from, height) : null;
}

function drawBracket(context, palette, left, right, height) {
  context.strokeStyle = palette.accent;
  context.lineWidth = 2;
  context.strokeRect(left + 1, 1, right - left - 2, height - 2);
}

function drawHits(context, { palette, hits, head }, x, height) {
  for (const { label, start, end } of hits) {
    const [left, right] = [x(start * 100), x(end * 100)];
    if (right < 0 || start * 100 > head) continue;
    context.fillStyle = palette.accent;
    context.fillRect(left, height - 4, Math.max(right - left, 2), 4);
    const size = context.measureText(label).width + 10;
    context.fillStyle = palette.panel;
    context.fillRect(left, height - 24, size, 18);
    write(context, label, left + 5, height - 15, palette.ink, "left", 12, 600);
  }
}

function drawSeconds(context, { palette, head, span, live }, x, figure) {
  const y = figure.height - AXIS / 2 + 1;
  const zero = live ? head : 0; // live: seconds before now
  const apart = span > 700 ? 200 : 100;
  const first = Math.ceil((head - span - zero) / apart) * apart;
  for (let frame = first; frame <= head - zero; frame += apart) {
    if (!live && frame < 0) continue;
    const at = x(frame + zero);
    const align = at < 14 ? "left" : at > figure.width - 14 ? "right" : "center";
    const text = live && frame === 0 ? "now" : `${(frame / 100).toString().replace("-", "−")} s`;
    write(context, text, at, y, palette.muted, align, 11);
  }
}

function stripValue(history, { live, head, span }, figure, from, height) {
  const frame = Math.floor(from + (figure.pointer.x / figure.width) * span);
  const band = Math.min(BANDS - 1, Math.floor((1 - figure.pointer.y / height) * BANDS));
  const value = history.melFrame(frame)?.[band];
  if (value === undefined) return null;
  const time = live ? `${((head - frame) / 100).toFixed(2)} s ago` : `${(frame / 100).toFixed(2)} s`;
  return `${time}, ${bandHertz(band)} Hz: log power ${value.toFixed(1)}`;
}

/** The middle of a mel band, of 32 from 0 to 8 kHz. */
export function bandHertz(band) {
  const mel = ((band + 1) / (BANDS + 1)) * 2595 * Math.log10(1 + 8000 / 700);
  return Math.round(700 * (10 ** (mel / 2595) - 1));
}
