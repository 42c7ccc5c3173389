/**
 * From any sampling rate to 16 kHz: a polyphase filter, a Kaiser-windowed sinc. Passes up to 0.45 of the lower rate
 * (7.2 kHz of 16 kHz) within 0.01 dB, stops from 0.55 on (8.8 kHz) by 70 dB, so what is folded back lies above 7.2 kHz.
 * Linear phase, without delay in time: output n stands for the input at n * from / to.
 */

const PASSES = 0.45;
const STOPS = 0.55;
const STOPPED_DB = 70;

export class Resampler {
  #rows; // one filter for each place that an output can have between two inputs
  #up;
  #down;
  #half;
  #kept; // inputs that later outputs need
  #count;
  #next = 0; // where the next output is, in steps of 1 / up of an input, from the first kept input

  constructor(from, to = 16000) {
    if (!(Number.isInteger(from) && from >= 4000 && from <= 768000))
      throw new Error(`The sampling rate is ${from}; give a whole number of hertz from 4000 to 768000.`);
    this.from = from;
    const common = divisor(from, to);
    this.#up = to / common;
    this.#down = from / common;
    const lower = Math.min(from, to);
    const taps = (STOPPED_DB - 7.95) / (14.36 * (((STOPS - PASSES) * lower) / from));
    this.#half = 2 * Math.ceil(taps / 4);
    this.#rows = from === to ? [] : filters(this.#up, this.#half, (((PASSES + STOPS) / 2) * lower) / from);
    this.#kept = new Float64Array(4096);
    this.#count = this.#half - 1; // zeros before the first input
  }

  /** The outputs that these inputs complete. */
  push(samples) {
    if (this.#rows.length === 0) return samples;
    this.#append(samples);
    const taps = 2 * this.#half;
    const out = new Float32Array(Math.ceil((samples.length * this.#up) / this.#down) + 1);
    let made = 0;
    for (let first = this.#first(); first + taps <= this.#count; first = this.#first()) {
      out[made++] = product(this.#rows[this.#next % this.#up], this.#kept, first);
      this.#next += this.#down;
    }
    const used = Math.min(this.#first(), this.#count);
    this.#kept.copyWithin(0, used, this.#count);
    this.#count -= used;
    this.#next -= used * this.#up;
    return out.subarray(0, made);
  }

  /** The last outputs, with silence after the last input. */
  finish() {
    return this.push(new Float32Array(this.#rows.length ? this.#half : 0));
  }

  /** The first of the inputs that the next output needs. */
  #first() {
    return Math.floor(this.#next / this.#up);
  }

  #append(samples) {
    const needed = this.#count + samples.length;
    if (needed > this.#kept.length) {
      const larger = new Float64Array(2 * needed);
      larger.set(this.#kept.subarray(0, this.#count));
      this.#kept = larger;
    }
    this.#kept.set(samples, this.#count);
    this.#count = needed;
  }
}

/** The sum of row[i] * kept[first + i], four at a time; a row has a multiple of four taps. */
function product(row, kept, first) {
  let [a, b, c, d] = [0, 0, 0, 0];
  for (let i = 0, at = first; i < row.length; i += 4, at += 4) {
    a += row[i] * kept[at];
    b += row[i + 1] * kept[at + 1];
    c += row[i + 2] * kept[at + 2];
    d += row[i + 3] * kept[at + 3];
  }
  return a + b + (c + d);
}

function divisor(a, b) {
  return b === 0 ? a : divisor(b, a % b);
}

/** Filter p is that of an output p / up after an input: taps for the inputs from 1 - half to half. Each sums to 1. */
function filters(up, half, cutoff) {
  const beta = 0.1102 * (STOPPED_DB - 8.7);
  return Array.from({ length: up }, (_, phase) => {
    const row = new Float64Array(2 * half);
    let sum = 0;
    for (let i = 0; i < row.length; i++) {
      const x = i + 1 - half - phase / up;
      row[i] = sinc(2 * cutoff * x) * bessel(beta * Math.sqrt(Math.max(0, 1 - (x / half) ** 2)));
      sum += row[i];
    }
    return row.map((tap) => tap / sum);
  });
}

function sinc(x) {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
}

/** The modified Bessel function I0, by its series. */
function bessel(x) {
  let sum = 1;
  for (let term = 1, k = 1; term > 1e-12 * sum; k++) {
    term *= (x / 2 / k) ** 2;
    sum += term;
  }
  return sum;
}
