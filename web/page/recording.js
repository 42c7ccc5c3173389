/** A recording: decoded by the browser, searched in slices, and shown at any place. */

import { HOP, SAMPLE_RATE, Stream } from "../stream.js";
import { BLOCK, LOOK_AHEAD, RING } from "./history.js";

const SLICE = 10 * SAMPLE_RATE; // samples that are searched before the page may draw again

export class Recording {
  #stream = null;
  #history = null;
  #next = 0; // the sample that is pushed next
  #base = 0; // the frame at which the stream began
  #finished = false;

  constructor(name, samples) {
    this.name = name;
    this.samples = samples;
    this.seconds = samples.length / SAMPLE_RATE;
    this.frames = Math.ceil(samples.length / HOP);
  }

  /** Decodes what the browser can decode: mono at 16 kHz, all channels mixed. */
  static async decode(name, bytes) {
    const context = new OfflineAudioContext(1, 1, SAMPLE_RATE);
    let decoded;
    try {
      decoded = await context.decodeAudioData(bytes);
    } catch {
      throw new Error(`${name} is not a recording that this browser can decode. Try WAV, FLAC, MP3, OGG or M4A.`);
    }
    const samples = new Float32Array(decoded.length);
    for (let channel = 0; channel < decoded.numberOfChannels; channel++) {
      const one = decoded.getChannelData(channel);
      for (let i = 0; i < one.length; i++) samples[i] += one[i] / decoded.numberOfChannels;
    }
    if (samples.length === 0) throw new Error(`${name} holds no sound.`);
    return new Recording(name, samples);
  }

  /** All keywords, searched in slices. `progress` gets the share that is done; if it returns false, the search ends. */
  async search(module, model, progress) {
    const stream = new Stream(module, model);
    const hits = [];
    for (let at = 0; at < this.samples.length; at += SLICE) {
      hits.push(...stream.push(this.samples.subarray(at, at + SLICE)));
      if (progress(Math.min(1, (at + SLICE) / this.samples.length)) === false) return hits;
      await new Promise((go) => setTimeout(go));
    }
    return [...hits, ...stream.finish()];
  }

  /** Begins to show itself with a model in a history. */
  open(module, model, history) {
    this.#stream = new Stream(module, model, true);
    this.#history = history;
    this.#begin(0);
  }

  /** Fills the history with responses up to frame `end`: goes on if it is ahead, else begins again some seconds before. */
  show(end) {
    const frames = Math.min(end + LOOK_AHEAD, this.frames);
    if (frames * HOP < this.#next || (this.#finished && frames < this.frames) || frames * HOP - this.#next > RING * HOP)
      this.#begin(Math.max(0, Math.floor((frames - RING) / BLOCK) * BLOCK));
    const piece = this.samples.subarray(this.#next, frames * HOP);
    this.#next += piece.length;
    this.#history.addSound(piece);
    this.#stream.push(piece, this.#see);
    if (end + LOOK_AHEAD > this.frames && !this.#finished) {
      this.#finished = true;
      this.#stream.finish(this.#see);
    }
  }

  #begin(frame) {
    this.#stream.reset();
    this.#history.restart(frame);
    this.#base = frame;
    this.#next = frame * HOP;
    this.#finished = false;
  }

  #see = {
    frames: (mel, responses) => {
      this.#history.addMel(mel);
      this.#history.addResponses(responses);
    },
    window: ({ newest, probabilities }) => this.#history.addWindow(this.#base + newest, probabilities.slice()),
  };
}
