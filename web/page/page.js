/** The page: what happens when something is pressed, dropped or heard. drawing.js shows it. */

import { readModel } from "../model.js";
import { SAMPLE_RATE, Stream, hasVectors, modelNumbers } from "../stream.js";
import { figures, redraw, scores, viewOf } from "./drawing.js";
import { History, LOOK_AHEAD, SHOWN } from "./history.js";
import { Hits } from "./hits.js";
import { Microphone } from "./microphone.js";
import { ownModels, part } from "./parts.js";
import { Recording } from "./recording.js";
import { element } from "./scores.js";
import { faded, play, silence } from "./sound.js";
import { $, setText, state } from "./state.js";
import { beginTheme } from "./theme.js";
import { listenToDrops, listenToKeys } from "./visitor.js";

const AROUND_S = 0.15; // played before and after a keyword
const AFTER_HIT = 60; // frames after a keyword's end, where the page shows it: by then most windows agree

const hits = new Hits($("hits"), $("no-hits"), $("clear"), { play: playHit, go: showHit });
state.hits = hits;
const microphone = new Microphone({
  frames: hear,
  say,
  stopped: showListening,
  devices: showDevices,
});

/* ---- words ---- */

function say(text, isTrouble = false) {
  const line = text || (microphone.on ? `Listening to ${microphone.about}. ${lostText}` : "");
  setText($("status"), line);
  $("status").classList.toggle("trouble", isTrouble);
}

let lostText = "No frames lost.";

/* ---- live ---- */

async function listen() {
  if (microphone.on) {
    microphone.stop();
    showListening();
    pause(true);
    return say("Stopped. The last ten seconds stay until you listen again.");
  }
  silence();
  $("listen").disabled = true;
  const works = await microphone.start({ wasm: state.wasm, model: state.model.bytes, worklet: state.worklet }, $("device").value);
  $("listen").disabled = false;
  if (!works) {
    showDevices([]);
    return showListening();
  }
  goLive();
  showListening();
}

function goLive() {
  state.recording = state.clock = null;
  state.search++;
  newHistory();
  hits.reset();
  state.back = state.shown = 0;
  $("marks").replaceChildren();
  Object.assign($("place"), { min: state.history.window, max: SHOWN, value: SHOWN });
  setText($("strip-name"), "The last ten seconds");
  pause(false);
}

function showListening() {
  setText($("listen").querySelector("span"), microphone.on ? "Stop" : "Listen");
  showPause();
}

/** What the engine on the audio thread has computed. */
function hear({ frame, responseFrame, sound, mel, responses, windows, hits: found, lostFrames }) {
  const { history } = state;
  if (state.recording) return;
  history.addSound(sound);
  if (!state.paused) {
    if (frame !== history.melEnd) history.skipTo(frame, responseFrame);
    history.addMel(mel);
    history.addResponses(responses);
    for (const { last, probabilities } of windows) history.addWindow(last, probabilities);
    redraw();
  }
  for (const hit of found) {
    hits.add({ ...hit, sound: history.piece(hit.start - AROUND_S, hit.end + AROUND_S) });
    setText($("announce"), `${hit.label}, ${Math.round(100 * hit.score)} percent`);
  }
  const text = lostFrames ? `${lostFrames} frames of 10 ms lost.` : "No frames lost.";
  if (text !== lostText) {
    lostText = text;
    say("");
  }
}

function showDevices(inputs, chosen) {
  const list = $("device");
  const options = inputs.map(({ deviceId, label }, i) => {
    const option = element("option", "", { value: deviceId });
    option.textContent = label || `Microphone ${i + 1}`;
    return option;
  });
  if (options.length === 0) options.push(systemsChoice());
  list.replaceChildren(...options);
  list.disabled = inputs.length < 2;
  if (chosen) list.value = chosen;
}

function systemsChoice() {
  const option = element("option", "", { value: "" });
  option.textContent = "the system’s choice";
  return option;
}

async function changeDevice() {
  if (!microphone.on) return;
  microphone.stop();
  await listen();
}

/* ---- recordings ---- */

async function openRecording(recording) {
  microphone.stop();
  showListening();
  silence();
  newHistory();
  Object.assign(state, { recording, clock: null, back: 0, place: Math.min(state.history.window, recording.frames) });
  hits.reset();
  $("marks").replaceChildren();
  Object.assign($("place"), { min: 0, max: recording.frames, value: state.place });
  setText($("strip-name"), recording.name);
  recording.open(state.module, state.model.bytes, state.history);
  pause(true);
  return searchRecording(recording);
}

/** Searches the recording and shows every keyword. Returns the hits, or null if another search has begun. */
async function searchRecording(recording) {
  const search = ++state.search;
  const found = await recording.search(state.module, state.model.bytes, (share) => {
    if (search === state.search && share < 1) say(`Searching ${recording.name}: ${Math.round(100 * share)} %`);
    return search === state.search;
  });
  if (search !== state.search) return null;
  for (const hit of found) {
    const [from, to] = [hit.start - AROUND_S, hit.end + AROUND_S].map((s) => Math.max(0, Math.round(s * SAMPLE_RATE)));
    hits.add({ ...hit, sound: recording.samples.subarray(from, to) });
  }
  showMarks(recording);
  const count = found.length === 1 ? "one keyword" : `${found.length || "no"} keywords`;
  say(`${recording.name}: ${count} in ${recording.seconds.toFixed(1)} s.`);
  if (found.length) showHit(hits.hits[0]);
  redraw();
  return found;
}

function showMarks({ seconds }) {
  const marks = hits.hits.map(({ label, start, end }) => {
    const mark = element("span", "", { title: label });
    mark.style.left = `${(100 * start) / seconds}%`;
    mark.style.width = `${(100 * (end - start)) / seconds}%`;
    return mark;
  });
  $("marks").replaceChildren(...marks);
}

function playRecording() {
  const { recording } = state;
  const from = state.place >= recording.frames ? 0 : state.place / 100;
  state.clock = play(recording.samples, from, () => {
    state.clock = null;
    state.place = recording.frames;
    pause(true);
  });
  pause(false);
}

async function hearSample() {
  if (state.recording !== state.sample) await openRecording(state.sample);
  state.place = 0;
  playRecording();
}

function playHit(hit) {
  if (state.clock) pause(true);
  play(faded(hit.sound));
  showHit(hit);
}

/** Goes to a keyword: the shown window then ends shortly after it. */
function showHit(hit) {
  const end = Math.round(hit.end * 100) + AFTER_HIT;
  if (state.recording) seek(Math.max(end, state.history.window));
  else if (end >= state.history.end - SHOWN + state.history.window) stepTo(Math.max(0, Math.round(state.shown) - end));
  else say("This keyword is more than ten seconds ago; its sound is kept, its picture is not.");
  state.followed = state.history.classes.findIndex(({ name }) => name === hit.label);
}

/* ---- freezing and stepping ---- */

function togglePause() {
  if (state.recording) return state.clock ? pause(true) : playRecording();
  if (microphone.on) pause(!state.paused);
}

function pause(paused) {
  if (paused && state.clock) {
    state.clock = null;
    silence();
  }
  if (!paused) state.back = 0;
  state.paused = paused;
  showPause();
  redraw();
}

function showPause() {
  const button = $("pause");
  const words = state.recording ? ["Pause", "Play"] : ["Freeze", "Go on"];
  setText(button, state.paused ? words[1] : words[0]);
  button.disabled = !state.recording && !microphone.on;
}

/** Shows the recording as it was at a frame. */
function seek(frame) {
  if (state.clock) pause(true);
  state.place = Math.min(Math.max(frame, 0), state.recording.frames);
  redraw();
}

/** Freezes, and shows what was `back` frames ago. */
function stepTo(back) {
  if (!state.paused) pause(true);
  state.shown = Math.round(state.shown);
  state.back = Math.min(Math.max(back, 0), SHOWN - state.history.window);
  redraw();
}

/** Puts the middle of the shown window where the strip is pressed. */
function dragStrip({ buttons, offsetX }) {
  if (buttons !== 1 || !state.history) return;
  const { head, span } = viewOf();
  const end = Math.round(head - span + (offsetX / figures.strip.width) * span + state.history.window / 2);
  if (state.recording) seek(Math.max(end, state.history.window));
  else stepTo(Math.round(head) - LOOK_AHEAD - end);
}

function step(frames) {
  if (state.recording) seek(state.place + frames);
  else stepTo(state.back - frames);
}

/* ---- models and files ---- */

function newHistory() {
  state.history = new History(new Stream(state.module, state.model.bytes));
  scores.reset(state.history.classes);
  state.pinned = -1;
  state.followed = Math.max(0, state.history.classes.findIndex(({ keyword }) => keyword));
}

async function useModel(model) {
  new Stream(state.module, model.bytes); // refuses what the engine cannot run, before anything is changed
  state.model = model;
  if (!state.models.includes(model)) addModel(model);
  $("model").value = String(state.models.indexOf(model));
  const count = model.parameters === null ? `${model.bytes.length.toLocaleString("en")} bytes` : `${model.parameters.toLocaleString("en")} parameters`;
  setText($("parameters"), count);
  if (microphone.on) {
    microphone.use(model.bytes);
    goLive();
  } else if (state.recording) await openRecording(state.recording);
}

function addModel(model) {
  state.models.push(model);
  const option = element("option", "", { value: String(state.models.length - 1) });
  option.textContent = model.name;
  $("model").append(option);
}

/** Opens a file that was dropped or chosen: a model or a recording. */
async function openFile(file) {
  const bytes = await file.arrayBuffer();
  try {
    if (/\.(safetensors|bin)$/i.test(file.name)) {
      const read = readModel(new Uint8Array(bytes), modelNumbers(state.module));
      await useModel({ ...read, name: read.name ?? file.name });
      say(`${read.name ?? file.name} is in use. It stays in this page until you close it.`);
    } else {
      await openRecording(await Recording.decode(file.name, bytes));
    }
  } catch (error) {
    say(error.message.replace(/^This (file|model)/, file.name), true);
  }
}

/* ---- the page ---- */

function listenToButtons() {
  $("listen").addEventListener("click", listen);
  $("sample").addEventListener("click", hearSample);
  $("open").addEventListener("click", () => $("file").click());
  $("file").addEventListener("change", ({ target }) => {
    if (target.files[0]) openFile(target.files[0]);
    target.value = "";
  });
  $("pause").addEventListener("click", togglePause);
  $("place").addEventListener("input", ({ target }) => {
    if (state.recording) seek(Number(target.value));
    else stepTo(SHOWN - Number(target.value));
  });
  $("strip").addEventListener("pointerdown", dragStrip);
  $("strip").addEventListener("pointermove", dragStrip);
  $("model").addEventListener("change", ({ target }) => useModel(state.models[Number(target.value)]));
  $("device").addEventListener("change", changeDevice);
  $("numbers").addEventListener("toggle", redraw);
  document.addEventListener("pointerdown", () => microphone.wake());
}

/** Says what was heard while the page was in the background, where it goes on listening and draws nothing. */
function listenToTabs() {
  let before = 0;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) before = hits.hits.length;
    else if (microphone.on) say(`Listening went on in the background: ${hits.hits.length - before} keywords. ${lostText}`);
  });
}

/** An address for a script inside the page. Opened as a file, a page has no origin, and worklets refuse its blobs. */
function addressOf(script) {
  if (location.protocol === "file:") return `data:text/javascript,${encodeURIComponent(new TextDecoder().decode(script))}`;
  return URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
}

async function begin() {
  beginTheme();
  listenToButtons();
  listenToKeys({ listen, pause: togglePause, step });
  listenToDrops(openFile);
  listenToTabs();
  state.wasm = await part(hasVectors() ? "wasm-simd" : "wasm-plain");
  state.module = await WebAssembly.compile(state.wasm);
  state.worklet = addressOf(await part("worklet"));
  for (const model of await ownModels()) addModel(model);
  await useModel(state.models.find(({ chosen }) => chosen) ?? state.models[0]);
  state.sample = await Recording.decode("A sample", (await part("sample-sound")).buffer);
  if (microphone.on || state.recording) return;
  await openRecording(state.sample);
  say("This is a sample, spoken by a synthesiser. Press Listen and speak yourself.");
}

begin().catch((error) => say(`The page cannot start: ${error.message}. It needs a browser of 2023 or newer.`, true));
