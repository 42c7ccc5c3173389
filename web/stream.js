/**
 * A stream of the engine: one WebAssembly instance with one model. Mono samples at 16 kHz in, hits and scores out.
 * web/main.c is the other side of every call.
 */

export const SAMPLE_RATE = 16000;
export const HOP = 160; // samples of a frame
export const BANDS = 32;
export const PROTOTYPES = 5;

/** The answers of cm_model_open and cm_stream_open, in words. */
const REFUSALS = {
  "-2": "it is cut off; get the file again",
  "-3": "it is not a CircleMatch model",
  "-4": "it was made for another version of the engine; export it again with this version of circlematch",
  "-5": "its checksum is wrong; get the file again",
  "-6": "its sizes or numbers are out of range; get the file again",
  "-7": "its network or its front end is one that this engine does not have",
  "-8": "there is not enough memory for it",
};

/** The smallest module that uses a vector instruction; only browsers with SIMD accept it. */
const VECTOR_MODULE = new Uint8Array([
  ...[0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11],
]);

/** Whether this machine runs circlematch.simd.wasm; if not, circlematch.wasm. */
export function hasVectors() {
  return WebAssembly.validate(VECTOR_MODULE);
}

/** Numbers that the bytes of a model must have to fit a compiled module. */
export function modelNumbers(module) {
  const engine = new WebAssembly.Instance(module).exports;
  return { version: engine.cm_web_model_version() >>> 0, frontEnd: engine.cm_web_front_end() >>> 0 };
}

export class Stream {
  #engine;
  #input;
  #probabilities;
  #newest = -1;

  /**
   * @param module a compiled WebAssembly.Module
   * @param bytes a model in its compact form
   * @param insight whether to compute log-mel frames and responses for `see`
   */
  constructor(module, bytes, insight = false) {
    const engine = new WebAssembly.Instance(module).exports;
    const room = engine.cm_web_room(bytes.length);
    if (room) new Uint8Array(engine.memory.buffer).set(bytes, room);
    const status = room ? engine.cm_web_open(bytes.length, insight ? 1 : 0) : -8;
    if (status !== 0) throw new Error(`This model cannot be used: ${REFUSALS[status] ?? `the engine answers ${status}`}.`);
    this.#engine = engine;
    this.#input = new Float32Array(engine.memory.buffer, engine.cm_web_samples(), engine.cm_web_most_samples());
    const classes = engine.cm_web_classes();
    const at = engine.cm_web_scores();
    /** Scores z, Eq. (9), of the newest window, and their probabilities; both change with the next push. */
    this.scores = new Float32Array(engine.memory.buffer, at, classes);
    this.#probabilities = new Float32Array(engine.memory.buffer, at + 4 * classes, classes);
    this.classes = Array.from({ length: classes }, (_, label) => ({
      name: this.#text(engine.cm_web_label(label)),
      keyword: engine.cm_web_is_keyword(label) !== 0,
      threshold: engine.cm_web_threshold(label),
    }));
    this.frames = engine.cm_web_frames(); // of a window, 10 ms each
    this.windows = engine.cm_web_windows(); // of so many, the newest,
    this.agreeing = engine.cm_web_agreeing(); // so many must reach the threshold
    this.scale = engine.cm_web_scale(); // alpha, the largest response
    this.paddedClasses = engine.cm_web_padded_classes(); // of the responses; 0 without prototypes
  }

  get probabilities() {
    return this.#probabilities;
  }

  /** The last frame of the newest window, or -1. */
  get newest() {
    return this.#newest;
  }

  /**
   * Processes samples and returns the hits: { label, score, start, end }, times in seconds.
   *
   * @param see called with the stream after every step: `frames(mel, responses)` with (n, 32) and (n, 5, padded classes)
   *   numbers that are new, `window(stream)` after each new window
   */
  push(samples, see) {
    const hits = [];
    for (let at = 0; at < samples.length; at += this.#input.length) {
      const piece = samples.subarray(at, at + this.#input.length);
      this.#input.set(piece);
      for (let used = 0; used < piece.length; ) {
        used += this.#engine.cm_web_push(used, piece.length - used);
        this.#take(hits, see);
      }
    }
    return hits;
  }

  /** Ends the recording, which may complete more windows and hits. */
  finish(see) {
    const hits = [];
    let more = 1;
    while (more) {
      more = this.#engine.cm_web_finish();
      this.#take(hits, see);
    }
    return hits;
  }

  /** The next sample is the first of a new recording. */
  reset() {
    this.#engine.cm_web_reset();
    this.#newest = -1;
  }

  #take(hits, see) {
    const engine = this.#engine;
    if (see?.frames) {
      const mel = this.#floats(engine.cm_web_mel(), engine.cm_web_mel_count() * BANDS);
      const count = engine.cm_web_responses_count() * PROTOTYPES * this.paddedClasses;
      see.frames(mel, this.#floats(engine.cm_web_responses(), count));
    }
    const newest = engine.cm_web_window();
    if (newest !== this.#newest) {
      this.#newest = newest;
      if (newest >= 0) see?.window?.(this); // -1: a new recording has begun
    }
    for (let at = engine.cm_web_hit(); at; at = engine.cm_web_hit()) {
      const [label, score, start, end] = new Float64Array(engine.memory.buffer, at, 4);
      hits.push({ label: this.classes[label].name, score, start: start / 1000, end: end / 1000 });
    }
  }

  #floats(at, count) {
    return new Float32Array(this.#engine.memory.buffer, at, count);
  }

  #text(at) {
    const bytes = new Uint8Array(this.#engine.memory.buffer);
    return decodeUtf8(bytes.subarray(at, bytes.indexOf(0, at)));
  }
}

/** UTF-8 to text. Audio threads have no TextDecoder. */
function decodeUtf8(bytes) {
  return decodeURIComponent(Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, "0")}`).join(""));
}
