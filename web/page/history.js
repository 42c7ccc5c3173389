/**
 * The last ten seconds of a stream: samples, log-mel frames, responses, and the probabilities of windows. Frames are
 * numbered from the start of the recording; a ring holds the newest of them.
 */

import { BANDS, HOP, PROTOTYPES } from "../stream.js";

export const SHOWN = 1000; // frames: ten seconds
export const LONGEST_WINDOW = 200; // frames
export const BLOCK = 10; // frames from one window to the next
export const LOOK_AHEAD = 11; // frames by which log-mel frames are ahead of responses
export const RING = SHOWN + LONGEST_WINDOW;

export class History {
  /** @param stream what its engine says of the model */
  constructor(stream) {
    this.classes = stream.classes;
    this.padded = stream.paddedClasses;
    this.window = stream.frames; // of a window
    this.looked = stream.windows;
    this.agreeing = stream.agreeing;
    this.scale = stream.scale;
    this.mel = new Float32Array(RING * BANDS);
    this.responses = new Float32Array(RING * PROTOTYPES * this.padded);
    this.sound = new Float32Array(RING * HOP);
    this.restart(0);
  }

  /** Forgets everything; the next frame has this number. */
  restart(frame) {
    this.soundEnd = frame * HOP;
    this.skipTo(frame, frame);
  }

  /** Forgets all frames, but not the sound; these are the numbers of the next log-mel frame and response. */
  skipTo(frame, responseFrame) {
    this.first = this.melEnd = frame;
    this.end = responseFrame;
    this.windows = []; // { last, probabilities, scores }, oldest first
  }

  addSound(samples) {
    for (const sample of samples) this.sound[this.soundEnd++ % this.sound.length] = sample;
  }

  addMel(values) {
    for (let at = 0; at < values.length; at += BANDS, this.melEnd++)
      this.mel.set(values.subarray(at, at + BANDS), (this.melEnd % RING) * BANDS);
    if (this.padded === 0) this.end = this.melEnd - LOOK_AHEAD; // no prototypes, no responses
  }

  addResponses(values) {
    const size = PROTOTYPES * this.padded;
    for (let at = 0; size && at < values.length; at += size, this.end++)
      this.responses.set(values.subarray(at, at + size), (this.end % RING) * size);
  }

  /**
   * Adds a window by the number of its last frame. The detector compares scores with thresholds: the probability that
   * `agreeing` of the newest windows reach, or all while there are fewer.
   */
  addWindow(last, probabilities) {
    const before = this.looked > 1 ? this.windows.slice(1 - this.looked) : [];
    const newest = [...before, { probabilities }];
    const place = Math.max(newest.length - this.agreeing, 0);
    const scores = probabilities.map((_, k) => newest.map((window) => window.probabilities[k]).sort((a, b) => a - b)[place]);
    this.windows.push({ last, probabilities, scores });
    if (this.windows.length > RING / BLOCK) this.windows.shift();
  }

  /** The log-mel frame of a number; null if the ring does not have it. */
  melFrame(frame) {
    if (frame < Math.max(this.first, this.melEnd - RING) || frame >= this.melEnd) return null;
    return this.mel.subarray((frame % RING) * BANDS, (frame % RING) * BANDS + BANDS);
  }

  /** The response of prototype s of a class in a frame; NaN if the ring does not have it. */
  response(frame, s, label) {
    if (frame < Math.max(this.first, this.end - RING) || frame >= this.end) return NaN;
    return this.responses[((frame % RING) * PROTOTYPES + s) * this.padded + label];
  }

  /** The newest window that ends before frame `end`; undefined if there is none. */
  windowBefore(end) {
    return this.windows.findLast(({ last }) => last < end);
  }

  /** Samples from one time to another, in seconds, as far as the ring has them. */
  piece(start, end) {
    const from = Math.max(Math.round(start * 100) * HOP, this.first * HOP, this.soundEnd - this.sound.length);
    const to = Math.min(Math.round(end * 100) * HOP, this.soundEnd);
    return Float32Array.from({ length: Math.max(0, to - from) }, (_, i) => this.sound[(from + i) % this.sound.length]);
  }
}
