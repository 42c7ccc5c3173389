/** Answers one question about the JavaScript in web/: node module.mjs QUESTION, with {"web": FOLDER, …} on standard input. */

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const question = process.argv[2];
const asked = JSON.parse(readFileSync(0, "utf8"));
const load = (path) => import(pathToFileURL(`${asked.web}/${path}`));

const { Stream, modelNumbers } = await load("stream.js");
const { readModel } = await load("model.js");
const { Resampler } = await load("resample.js");

const moduleOf = (path) => new WebAssembly.Module(readFileSync(path));

function floats(path) {
  const bytes = readFileSync(path);
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}

/** Samples cut into pieces of irregular lengths. */
function* pieces(samples) {
  for (let at = 0, length = 1; at < samples.length; at += length, length = (length * 7 + 13) % 5003) {
    yield samples.subarray(at, at + length);
  }
}

/** A tone at one rate, brought to 16 kHz in pieces. */
function resampledTone(rate, hertz, seconds) {
  const tone = Float32Array.from({ length: rate * seconds }, (_, i) => Math.sin((2 * Math.PI * hertz * i) / rate));
  const resampler = new Resampler(rate);
  return [...pieces(tone)].flatMap((piece) => [...resampler.push(piece)]).concat([...resampler.finish()]);
}

const answers = {
  /** Scores of every window, and the hits, of models in their compact form. */
  scores({ module, models, samples }) {
    const compiled = moduleOf(module);
    return models.map((path) => {
      const stream = new Stream(compiled, new Uint8Array(readFileSync(path)));
      const windows = [];
      const see = { window: ({ scores }) => windows.push([...scores]) };
      const hits = [...pieces(floats(samples))].flatMap((piece) => stream.push(piece, see));
      hits.push(...stream.finish(see));
      const classes = stream.classes;
      return { windows, hits, classes, frames: stream.frames, looked: stream.windows, agreeing: stream.agreeing };
    });
  },

  /** The compact form of model files, in base64, or why not. */
  compact({ module, files }) {
    const numbers = modelNumbers(moduleOf(module));
    return files.map((path) => {
      try {
        const { bytes, name, parameters } = readModel(new Uint8Array(readFileSync(path)), numbers);
        return { bytes: Buffer.from(bytes).toString("base64"), name, parameters };
      } catch (error) {
        return { refused: error.message, plain: error.constructor === Error };
      }
    });
  },

  /** What the engine answers to bytes that are not a model. */
  refusals({ module, files }) {
    const compiled = moduleOf(module);
    return files.map((path) => {
      try {
        new Stream(compiled, new Uint8Array(readFileSync(path)));
        return null;
      } catch (error) {
        return error.message;
      }
    });
  },

  /** Names of what the module gives and needs. */
  interface({ module }) {
    const compiled = moduleOf(module);
    const names = (entries) => entries.map(({ name }) => name);
    return [names(WebAssembly.Module.exports(compiled)), names(WebAssembly.Module.imports(compiled))];
  },

  resampled({ rate, hertz, seconds }) {
    return resampledTone(rate, hertz, seconds);
  },

  /** Log-mel frames, and curves and moments of a class in the last window. */
  async insight({ module, model, samples, label }) {
    const { History } = await load("page/history.js");
    const { circularMoments } = await load("page/moments.js");
    const stream = new Stream(moduleOf(module), new Uint8Array(readFileSync(model)), true);
    const history = new History(stream);
    const see = {
      frames: (mel, responses) => {
        history.addMel(mel);
        history.addResponses(responses);
      },
      window: ({ newest, probabilities }) => history.addWindow(newest, probabilities.slice()),
    };
    stream.push(floats(samples), see);
    stream.finish(see);
    const { last } = history.windows[0];
    const scores = history.windows.map((window) => [...window.scores]);
    const probabilities = history.windows.map((window) => [...window.probabilities]);
    const moments = circularMoments(history, last + 1, label).map((one) => ({ ...one, curve: [...one.curve], weights: null }));
    const mel = Array.from({ length: last + 1 }, (_, frame) => [...history.melFrame(frame)]);
    return { last, moments, mel, scores, probabilities };
  },

  /** Milliseconds that were counted as lost, of bursts that arrived at some times. */
  async lost({ rate, arrivals }) {
    const { LostSound } = await load("page/lost.js");
    const lost = new LostSound(rate);
    for (const [samples, now] of arrivals) lost.add(samples, now);
    return lost.lostMs;
  },

  /** Milliseconds of processor time for a second of sound at 48 kHz in pieces as the audio thread gathers them. */
  speed({ module, model, samples }) {
    const sound = floats(samples);
    const at48 = Float32Array.from({ length: 3 * sound.length }, (_, i) => sound[Math.floor(i / 3)]);
    const stream = new Stream(moduleOf(module), new Uint8Array(readFileSync(model)), true);
    const resampler = new Resampler(48000);
    const see = { frames: () => {}, window: () => {} };
    const rounds = Array.from({ length: 5 }, () => {
      const begun = process.cpuUsage();
      for (let i = 0; i < at48.length; i += 1024) stream.push(resampler.push(at48.subarray(i, i + 1024)), see);
      const { user, system } = process.cpuUsage(begun);
      return (user + system) / 1000 / (at48.length / 48000);
    });
    return Math.min(...rounds);
  },

  /** The keywords that the package finds, and what it refuses. */
  async spotter({ model, samples, samples48 }) {
    const { Spotter } = await load("circlematch.js");
    const sound = floats(samples);
    const spotter = await Spotter.load(model);
    const before = { probabilities: spotter.probabilities, scores: spotter.scores };
    const hits = [...pieces(sound)].flatMap((piece) => spotter.push(piece, 16000));
    hits.push(...spotter.finish());
    const sum = Object.values(spotter.probabilities).reduce((a, b) => a + b);
    const words = Int16Array.from(sound, (sample) => Math.round(sample * 32768));
    const again = [...spotter.push(words, 16000), ...spotter.finish()];
    const thrice = Float32Array.from({ length: 3 * sound.length }, (_, i) => {
      const [place, share] = [Math.floor(i / 3), (i % 3) / 3];
      return sound[place] * (1 - share) + (sound[place + 1] ?? 0) * share;
    });
    const at48 = [...spotter.push(floats(samples48), 48000), ...spotter.finish()];
    spotter.push(sound.subarray(0, 100), 16000);
    const refused = [() => spotter.push(sound, 48000), () => spotter.push([1, 2], 16000)].map((act) => {
      try {
        return act();
      } catch (error) {
        return error.message;
      }
    });
    return { before, hits, again, at48, refused, sum, after: spotter.probabilities };
  },
};

console.log(JSON.stringify(await answers[question](asked)));
