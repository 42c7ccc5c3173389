/** The page: what is shown, and what happens when something is pressed, dropped or heard. */

import { readModel } from "../model.js";
import { SAMPLE_RATE, Stream, hasVectors, modelNumbers } from "../stream.js";
import { drawCircle } from "./circle.js";
import { Figure } from "./figure.js";
import { History, LOOK_AHEAD, SHOWN, WINDOW } from "./history.js";
import { Hits } from "./hits.js";
import { Microphone } from "./microphone.js";
import { circularMoments } from "./moments.js";
import { showNumbers } from "./numbers.js";
import { paletteOf } from "./palette.js";
import { ownModels, part } from "./parts.js";
import { Picture } from "./picture.js";
import { Recording } from "./recording.js";
import { Scores, element } from "./scores.js";
import { drawSecond } from "./second.js";
import { faded, play, silence } from "./sound.js";
import { drawStrip } from "./strip.js";

const HEARD_FRAMES = 150; // for so long the word stays above the circle
const AROUND_S = 0.15; // played before and after a keyword
const EASE = 0.35; // of the way to the newest frame, for each drawn frame: messages come in bursts
const CLEARLY = 0.15; // by which another keyword must lead before its responses are shown
const PROBABLE = 0.5; // the least probability at which a word stands above the circle before it is heard
const CALM_MS = 250; // between two drawings, for visitors who asked for less motion
const AFTER_HIT = 15; // frames after a keyword's end, where the page shows it

const $ = (id) => document.getElementById(id);

/** All that changes. In a recording `place` is the frame at which the shown second ends; live, `back` counts from now. */
const state = {
  module: null,
  wasm: null,
  worklet: null, // the address of its script
  model: null, // { name, parameters, bytes }
  models: [],
  history: null,
  recording: null, // null: live
  sample: null,
  place: WINDOW,
  back: 0,
  shown: 0, // the newest frame, eased
  paused: true,
  clock: null, // tells the time in the recording while it plays
  pinned: -1,
  followed: 0,
  search: 0, // number of the newest search, so that older ones end
};

let changed = () => {}; // asks for a drawing; set below
const figures = {};
for (const name of ["circle", "strip", "second"]) figures[name] = new Figure($(name), () => changed());
const picture = new Picture();
const scores = new Scores($("scores"), (label) => {
  state.pinned = label;
  changed();
});
const hits = new Hits($("hits"), $("no-hits"), $("clear"), { play: playHit, go: showHit });
const microphone = new Microphone({
  frames: hear,
  say,
  stopped: showListening,
  devices: showDevices,
});

/* ---- drawing ---- */

let asked = false;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
changed = () => {
  if (asked) return;
  asked = true;
  if (calm.matches && !state.paused) setTimeout(() => requestAnimationFrame(draw), CALM_MS);
  else requestAnimationFrame(draw);
};

function draw() {
  asked = false;
  const { history } = state;
  if (!history) return;
  advance();
  const view = viewOf();
  picture.update(history, view.palette);
  const said = {
    strip: drawStrip(figures.strip, picture, view),
    second: drawSecond(figures.second, picture, view),
    circle: drawCircle(figures.circle, view),
  };
  for (const [name, text] of Object.entries(said)) setText($(`${name}-readout`), text ?? "");
  showAnswer(view);
  showClock(view);
  if ($("numbers").open) showNumbers($("numbers-body"), view.moments, view.whole);
  if (!state.paused) changed();
}

/** Moves on to the newest frame, or to the time at which the recording plays. */
function advance() {
  const { history, recording } = state;
  if (recording) {
    if (state.clock) state.place = Math.min(Math.round(state.clock() * 100), recording.frames);
    recording.show(headOf(recording) - LOOK_AHEAD);
  } else if (!state.paused) {
    const ahead = history.end - state.shown;
    state.shown = Math.abs(ahead) > WINDOW ? history.end : state.shown + EASE * ahead;
  }
}

/** The last frame of a recording in the strip, which shows five seconds before and after the place if it can. */
function headOf({ frames }) {
  return Math.max(Math.min(frames, Math.max(state.place + SHOWN / 2, SHOWN)), WINDOW);
}

function viewOf() {
  const { history, recording } = state;
  const head = recording ? headOf(recording) : state.shown + LOOK_AHEAD;
  const span = recording ? Math.min(SHOWN, head) : SHOWN;
  const end = recording ? state.place : state.shown - state.back;
  const whole = Math.round(end);
  const heard = history.windowBefore(whole);
  const label = follow(heard);
  setText($("second-name"), history.padded ? `One second, five responses to “${history.classes[label].name}”` : "One second");
  return {
    ...{ history, head, span, end, whole, heard, label, live: !recording, hits: hits.hits },
    palette: paletteOf(document.documentElement.dataset.theme),
    moments: circularMoments(history, whole, label),
  };
}

/** The class whose responses are shown: the pinned one, else the leading keyword. */
function follow(heard) {
  if (state.pinned >= 0) return state.pinned;
  const { classes } = state.history;
  if (heard) {
    const best = argmax(heard.means, (label) => classes[label].keyword);
    if (best >= 0 && heard.means[best] > (heard.means[state.followed] ?? 0) + CLEARLY) state.followed = best;
  }
  return state.followed;
}

function argmax(values, eligible) {
  return values.reduce((best, value, i) => (eligible(i) && (best < 0 || value > values[best]) ? i : best), -1);
}

/** The word above the circle, and the bars. */
function showAnswer({ history, heard, whole }) {
  const top = heard ? argmax(heard.means, () => true) : -1;
  scores.show(heard?.means, top);
  const hit = hits.hits.findLast(({ start, end }) => start * 100 < whole && whole < end * 100 + HEARD_FRAMES);
  $("word").parentElement.classList.toggle("heard", Boolean(hit));
  if (hit) {
    setText($("word"), hit.label);
    setText($("word-note"), `${Math.round(100 * hit.score)} %, ${hit.start.toFixed(2)}–${hit.end.toFixed(2)} s`);
  } else if (top < 0) {
    setText($("word"), "Say a word");
    setText($("word-note"), keywords(history.classes));
  } else {
    const probable = history.classes[top].keyword && heard.means[top] >= PROBABLE;
    setText($("word"), probable ? history.classes[top].name : "…");
    setText($("word-note"), `${history.classes[top].name}, ${Math.round(100 * heard.means[top])} %`);
  }
}

function keywords(classes) {
  const words = classes.filter(({ keyword }) => keyword).map(({ name }) => name);
  return words.length > 4 ? `${words.slice(0, 4).join(", ")} …` : words.join(", ");
}

function showClock({ end, live }) {
  const place = $("place");
  const value = live ? SHOWN - state.back : state.place;
  if (Number(place.value) !== value) place.value = value;
  const text = live ? `${(state.back ? -state.back / 100 : 0).toFixed(2).replace("-", "−")} s` : `${(end / 100).toFixed(2)} s`;
  setText($("clock"), live && !state.back ? "now" : text);
  if (document.activeElement === place) place.setAttribute("aria-valuetext", text);
}

function setText(at, text) {
  if (at.textContent !== text) at.textContent = text;
}

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
  Object.assign($("place"), { min: WINDOW, max: SHOWN, value: SHOWN });
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
    changed();
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
  Object.assign(state, { recording, clock: null, back: 0, place: Math.min(WINDOW, recording.frames) });
  newHistory();
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
  changed();
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

/** Goes to a keyword: the shown second then ends shortly after it. */
function showHit(hit) {
  const end = Math.round(hit.end * 100) + AFTER_HIT;
  if (state.recording) seek(Math.max(end, WINDOW));
  else if (end >= state.history.end - SHOWN + WINDOW) stepTo(Math.max(0, Math.round(state.shown) - end));
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
  changed();
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
  changed();
}

/** Freezes, and shows what was `back` frames ago. */
function stepTo(back) {
  if (!state.paused) pause(true);
  state.shown = Math.round(state.shown);
  state.back = Math.min(Math.max(back, 0), SHOWN - WINDOW);
  changed();
}

/** Puts the middle of the shown second where the strip is pressed. */
function dragStrip({ buttons, offsetX }) {
  if (buttons !== 1 || !state.history) return;
  const { head, span } = viewOf();
  const end = Math.round(head - span + (offsetX / figures.strip.width) * span + WINDOW / 2);
  if (state.recording) seek(Math.max(end, WINDOW));
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

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").setAttribute("aria-pressed", String(theme === "dark"));
  changed();
}

function savedTheme() {
  try {
    return localStorage.getItem("circlematch-theme");
  } catch {
    return null; // storage is forbidden
  }
}

function switchTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  useTheme(theme);
  try {
    localStorage.setItem("circlematch-theme", theme);
  } catch {
    return; // it holds for this visit
  }
}

function listenToVisitor() {
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
  $("theme").addEventListener("click", switchTheme);
  $("numbers").addEventListener("toggle", changed);
  document.addEventListener("pointerdown", () => microphone.wake());
  document.addEventListener("keydown", pressed);
  listenToDrops();
  let heardBefore = 0;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) heardBefore = hits.hits.length;
    else if (microphone.on) say(`Listening went on in the background: ${hits.hits.length - heardBefore} keywords. ${lostText}`);
  });
}

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, textarea")) return;
  const onButton = event.target.closest("button, summary");
  const acts = {
    l: listen,
    " ": onButton ? null : togglePause,
    ArrowLeft: () => step(event.shiftKey ? -10 : -1),
    ArrowRight: () => step(event.shiftKey ? 10 : 1),
  };
  const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act || !state.history) return;
  event.preventDefault();
  act();
}

function listenToDrops() {
  const shade = $("drop");
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    shade.hidden = false;
  });
  document.addEventListener("dragleave", ({ relatedTarget }) => {
    if (relatedTarget === null) shade.hidden = true;
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    shade.hidden = true;
    if (event.dataTransfer.files[0]) openFile(event.dataTransfer.files[0]);
  });
}

/** An address for a script inside the page. Opened as a file, a page has no origin, and worklets refuse its blobs. */
function addressOf(script) {
  if (location.protocol === "file:") return `data:text/javascript,${encodeURIComponent(new TextDecoder().decode(script))}`;
  return URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
}

async function begin() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  useTheme(savedTheme() ?? (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => savedTheme() ?? useTheme(dark.matches ? "dark" : "light"));
  listenToVisitor();
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
