/**
 * CircleMatch for JavaScript: keywords in live sound and in recordings, in browsers, workers and Node.
 *
 *     const spotter = await Spotter.load("d16-gsc.safetensors");
 *     for (const hit of spotter.push(samples, 48000)) console.log(hit.label, hit.start, hit.end);
 *
 * The engine is compiled from C. Nothing leaves the machine; the only request is for the files that `load` is given.
 */

import { readModel } from "./model.js";
import { Resampler } from "./resample.js";
import { SAMPLE_RATE, Stream, hasVectors, modelNumbers } from "./stream.js";

const compiled = new Map(); // address of a module -> its WebAssembly.Module, which streams share

/** Finds keywords in one recording or one endless stream. */
export class Spotter {
  #stream;
  #resampler = null;

  constructor(stream) {
    this.#stream = stream;
  }

  /**
   * Loads a model: its address (in Node also a path), or its bytes. It may be a .safetensors file of the Python package or
   * the compact form. `wasm` is the address of a module, if it is not beside this file.
   */
  static async load(model, { wasm } = {}) {
    const name = hasVectors() ? "circlematch.simd.wasm" : "circlematch.wasm";
    const address = String(wasm ? placed(wasm) : new URL(name, import.meta.url));
    if (!compiled.has(address)) compiled.set(address, await WebAssembly.compile(await bytesOf(address)));
    const module = compiled.get(address);
    const { bytes } = readModel(await bytesOf(model), modelNumbers(module));
    return new Spotter(new Stream(module, bytes));
  }

  /** The classes, in the order of the scores. Those with `keyword: false` never give a hit. */
  get classes() {
    return this.#stream.classes;
  }

  /** Probability of every class in the newest window; null before the first. */
  get probabilities() {
    if (this.#stream.newest < 0) return null;
    return Object.fromEntries(this.classes.map(({ name }, label) => [name, this.#stream.probabilities[label]]));
  }

  /** Scores z of the newest window, in the order of the classes; null before the first. */
  get scores() {
    return this.#stream.newest < 0 ? null : Float32Array.from(this.#stream.scores);
  }

  /**
   * Takes mono samples of any length, float (full scale 1) or Int16Array, at a rate in hertz, and returns the keywords
   * that they complete: { label, score, start, end }, times in seconds from the first sample.
   */
  push(samples, rate) {
    return this.#stream.push(this.#resampled(samples, rate));
  }

  /** Ends the recording and returns the last keywords. The next push begins a new one. */
  finish() {
    const hits = this.#resampler ? this.#stream.push(this.#resampler.finish()) : [];
    hits.push(...this.#stream.finish());
    this.#resampler = null;
    return hits;
  }

  /** Forgets the recording. The next push begins a new one. */
  reset() {
    this.#stream.reset();
    this.#resampler = null;
  }

  #resampled(samples, rate) {
    this.#resampler ??= new Resampler(rate, SAMPLE_RATE);
    if (this.#resampler.from !== rate)
      throw new Error(`The sampling rate was ${this.#resampler.from} and is now ${rate}; call finish() or reset() first.`);
    const floats = samples instanceof Int16Array ? Float32Array.from(samples, (sample) => sample / 32768) : samples;
    if (!(floats instanceof Float32Array))
      throw new Error(`Samples are a ${samples?.constructor?.name}; give a Float32Array or an Int16Array.`);
    return this.#resampler.push(floats);
  }
}

/** An address as written in a program: relative to the page, or in Node to the folder in which it runs. */
function placed(address) {
  const base = globalThis.location?.href ?? (globalThis.process ? `file://${process.cwd()}/` : undefined);
  return new URL(String(address), base);
}

async function bytesOf(source) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  const address = placed(source);
  if (address.protocol === "file:" && globalThis.process?.versions?.node) {
    const { readFile } = await import("node:fs/promises");
    return new Uint8Array(await readFile(address));
  }
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address} cannot be read: ${answer.status} ${answer.statusText}`);
  return new Uint8Array(await answer.arrayBuffer());
}
