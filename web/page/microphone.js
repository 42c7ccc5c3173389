/** The microphone, through the engine on the audio thread, and in words what is wrong if it does not work. */

const WANTED = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: true };

/** What the errors of getUserMedia mean for a visitor. */
const TROUBLES = {
  NotAllowedError:
    "The microphone is blocked. Allow it for this page (the symbol beside the address), then press Listen again. The sample and your files work without it.",
  NotFoundError: "No microphone was found. Plug one in and press Listen again, or open a file.",
  NotReadableError: "The microphone is in use by another program, or switched off in the system. Free it, then press Listen again.",
  OverconstrainedError: "This microphone is no longer there. Choose another one, then press Listen again.",
};

export class Microphone {
  #acts;
  #context = null;
  #node = null;
  #media = null;
  #rate = 0;
  #number = 0; // of the model that the audio thread is to use
  #name = "";

  /** @param acts `frames(message)` for what the engine computed, `say(text, isTrouble)`, `stopped()`, `devices(list, id)` */
  constructor(acts) {
    this.#acts = acts;
    navigator.mediaDevices?.addEventListener?.("devicechange", () => this.#devicesChanged());
  }

  get on() {
    return this.#node !== null;
  }

  get about() {
    return `${this.#name || "the microphone"}, ${(this.#rate / 1000).toLocaleString("en", { maximumFractionDigits: 1 })} kHz`;
  }

  /** Begins to listen. Returns whether it works; if not, it has said why. */
  async start({ wasm, model, worklet }, device = "") {
    if (!navigator.mediaDevices?.getUserMedia || !globalThis.AudioWorkletNode) {
      this.#acts.say("Browsers open the microphone on https pages and on this computer only. Run “circlematch demo” and use its address.", true);
      return false;
    }
    this.#acts.say("Your browser asks whether this page may use the microphone.");
    try {
      const audio = device ? { ...WANTED, deviceId: { exact: device } } : WANTED;
      this.#media = await navigator.mediaDevices.getUserMedia({ audio });
      await this.#connect({ wasm, model, worklet });
    } catch (error) {
      this.stop();
      this.#acts.say(TROUBLES[error.name] ?? `The microphone does not work: ${error.message}`, true);
      return false;
    }
    await this.#listDevices();
    return true;
  }

  stop() {
    this.#media?.getTracks().forEach((track) => track.stop());
    this.#node?.port.postMessage({ stop: true });
    this.#node?.disconnect();
    this.#context?.close();
    this.#context = this.#node = this.#media = null;
  }

  /** Goes on with another model. */
  use(model) {
    this.#number++;
    this.#node?.port.postMessage({ model });
  }

  /** After a click: browsers may have suspended the sound until then. */
  async wake() {
    if (this.#context?.state === "suspended") await this.#context.resume();
  }

  async #connect({ wasm, model, worklet }) {
    const context = new AudioContext();
    this.#context = context;
    await context.audioWorklet.addModule(worklet);
    this.#node = new AudioWorkletNode(context, "circlematch-listener", {
      ...{ numberOfInputs: 1, numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" },
      processorOptions: { wasm, model },
    });
    this.#number = 0;
    this.#node.port.onmessage = ({ data }) => data.number === this.#number && this.#acts.frames(data);
    this.#node.onprocessorerror = () => this.#end("The engine on the audio thread has failed. Press Listen to start it again.");
    context.createMediaStreamSource(this.#media).connect(this.#node);
    const [track] = this.#media.getAudioTracks();
    [this.#name, this.#rate] = [track.label, context.sampleRate];
    track.addEventListener("ended", () => this.#end("The microphone was unplugged or taken away. Press Listen to use another one."));
    track.addEventListener("mute", () => this.on && this.#acts.say("The system has muted the microphone.", true));
    track.addEventListener("unmute", () => this.on && this.#acts.say(""));
    context.addEventListener("statechange", () => this.#stateChanged(context));
    if (context.state === "suspended") await Promise.race([context.resume(), new Promise((go) => setTimeout(go, 500))]);
    this.#stateChanged(context);
  }

  #stateChanged(context) {
    if (context !== this.#context) return;
    if (context.state === "running") {
      this.#node?.port.postMessage({ resumed: true });
      this.#acts.say("");
    } else if (context.state !== "closed") {
      this.#acts.say("Your browser has paused the sound. Click anywhere on the page to go on.", true);
    }
  }

  #end(why) {
    if (!this.on) return;
    this.stop();
    this.#acts.stopped();
    this.#acts.say(why, true);
  }

  async #listDevices() {
    const all = await navigator.mediaDevices.enumerateDevices();
    const inputs = all.filter(({ kind, deviceId }) => kind === "audioinput" && deviceId);
    this.#acts.devices(inputs, this.#media?.getAudioTracks()[0]?.getSettings().deviceId);
    return inputs;
  }

  async #devicesChanged() {
    if (!this.on) return;
    const inputs = await this.#listDevices();
    this.#acts.say(`The microphones have changed: ${inputs.length} now. The page listens to ${this.about}.`);
  }
}
