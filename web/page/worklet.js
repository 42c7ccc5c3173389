/** The engine on the audio thread. It sends what it computes to the page, about every 20 ms. */

import { Resampler } from "../resample.js";
import { BANDS, PROTOTYPES, Stream } from "../stream.js";
import { LostSound } from "./lost.js";

const SENT_FRAMES = 2; // so many at least in one message

class Listener extends AudioWorkletProcessor {
  constructor({ processorOptions: { wasm, model } }) {
    super();
    this.module = new WebAssembly.Module(wasm);
    this.resampler = new Resampler(sampleRate);
    this.lost = new LostSound(sampleRate);
    this.running = true;
    this.number = 0; // of the model, so that the page can tell what an older one still computed
    this.open(model);
    this.port.onmessage = ({ data }) => {
      if (data.model) {
        this.number++;
        this.open(data.model);
      }
      if (data.resumed) this.lost.restart();
      if (data.stop) this.running = false;
    };
  }

  /** Begins a stream with a model. */
  open(model) {
    this.stream = new Stream(this.module, model, true);
    this.frame = this.responseFrame = 0;
    this.empty();
  }

  empty() {
    this.batch = { sound: [], mel: [], responses: [], windows: [], hits: [] };
    this.frames = 0;
  }

  process([channels]) {
    if (!this.running) return false;
    if (channels.length === 0) return true; // the microphone has not started
    this.lost.add(channels[0].length, Date.now());
    const samples = this.resampler.push(channels[0]);
    const { batch } = this;
    batch.sound.push(samples);
    const found = this.stream.push(samples, {
      frames: (mel, responses) => {
        if (mel.length) batch.mel.push(mel.slice());
        if (responses.length) batch.responses.push(responses.slice());
        this.frames += mel.length / BANDS;
      },
      window: ({ newest, probabilities }) => batch.windows.push({ last: newest, probabilities: probabilities.slice() }),
    });
    batch.hits.push(...found);
    if (this.frames >= SENT_FRAMES) this.send();
    return true;
  }

  send() {
    const { windows, hits } = this.batch;
    const [sound, mel, responses] = [this.batch.sound, this.batch.mel, this.batch.responses].map(joined);
    const { frame, responseFrame } = this;
    this.frame += mel.length / BANDS;
    this.responseFrame += responses.length / (PROTOTYPES * Math.max(1, this.stream.paddedClasses));
    this.empty();
    const lostFrames = Math.round(this.lost.lostMs / 10);
    const { number } = this;
    this.port.postMessage({ number, frame, responseFrame, sound, mel, responses, windows, hits, lostFrames }, [
      ...[sound.buffer, mel.buffer, responses.buffer],
    ]);
  }
}

function joined(pieces) {
  const whole = new Float32Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

registerProcessor("circlematch-listener", Listener);
