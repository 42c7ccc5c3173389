/** Log-mel frames as an image: one column for each place of the history's ring. Only new columns are painted. */

import { BANDS } from "../stream.js";
import { RING } from "./history.js";
import { pictureColours } from "./palette.js";

const LOUDEST_POWER = 11; // the log power that has the last colour; silence is 0

export class Picture {
  #image = new OffscreenCanvas(RING, BANDS);
  #context = this.#image.getContext("2d");
  #column = new ImageData(1, BANDS);
  #pixels = new Uint32Array(this.#column.data.buffer);
  #painted = 0;
  #of = null; // the history and the palette that are painted
  #palette = null;
  #first = 0;

  /** Paints what is new in the history. */
  update(history, palette) {
    if (this.#of !== history || this.#palette !== palette || this.#first !== history.first) {
      this.#painted = Math.max(history.first, history.melEnd - RING);
      this.#colours = pictureColours(palette);
      this.#context.clearRect(0, 0, RING, BANDS);
      [this.#of, this.#palette, this.#first] = [history, palette, history.first];
    }
    this.#painted = Math.max(this.#painted, history.melEnd - RING);
    for (; this.#painted < history.melEnd; this.#painted++) {
      const frame = history.melFrame(this.#painted);
      for (let band = 0; band < BANDS; band++) {
        const share = Math.min(Math.max(frame[band] / LOUDEST_POWER, 0), 1);
        this.#pixels[BANDS - 1 - band] = this.#colours[Math.round(255 * share)];
      }
      this.#context.putImageData(this.#column, this.#painted % RING, 0);
    }
  }

  #colours = null;

  /** Draws the frames from one number to another, which may be fractions, into a rectangle. */
  draw(context, from, to, x, y, width, height) {
    const low = Math.max(from, this.#first, this.#painted - RING + 1);
    const high = Math.min(to, this.#painted);
    const scale = width / (to - from);
    for (let at = low; at < high; ) {
      const place = at % RING;
      const count = Math.min(high - at, RING - place);
      context.drawImage(this.#image, place, 0, count, BANDS, x + (at - from) * scale, y, count * scale + 0.5, height);
      at += count;
    }
  }
}
