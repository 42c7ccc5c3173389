/** A keyword that was found; times in seconds from the first sample. */
export interface Hit {
  label: string;
  score: number;
  start: number;
  end: number;
}

/** A class of a model. One with `keyword: false`, such as "silence", never gives a hit. */
export interface Class {
  name: string;
  keyword: boolean;
  threshold: number;
}

export interface LoadOptions {
  /** The address of the WebAssembly module, if it is not beside circlematch.js. */
  wasm?: string | URL;
}

/** Finds keywords in one recording or one endless stream. */
export class Spotter {
  private constructor(stream: unknown);
  /** Loads a model from its address (in Node also a path) or from its bytes. */
  static load(model: string | URL | ArrayBuffer | ArrayBufferView, options?: LoadOptions): Promise<Spotter>;
  /** The classes, in the order of the scores. */
  get classes(): readonly Class[];
  /** Probability of every class in the newest window; null before the first. */
  get probabilities(): Record<string, number> | null;
  /** Scores z of the newest window, in the order of the classes; null before the first. */
  get scores(): Float32Array | null;
  /** Takes mono samples at a rate in hertz and returns the keywords that they complete. */
  push(samples: Float32Array | Int16Array, rate: number): Hit[];
  /** Ends the recording and returns the last keywords. */
  finish(): Hit[];
  /** Forgets the recording. */
  reset(): void;
}
