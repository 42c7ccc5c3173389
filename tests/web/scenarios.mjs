/** What the tests do with the page. Each returns what it saw. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const wait = (ms) => new Promise((go) => setTimeout(go, ms));
const text = (page, selector) => page.$eval(selector, (element) => element.textContent.trim());

/** The keywords in the list: [label, percent, start, end]. */
function heard(page) {
  return page.$$eval("#hits li", (items) =>
    items.map((item) => {
      const [start, end] = item.querySelector(".when").textContent.replace(" s", "").split("–").map(Number);
      return [item.querySelector(".go").firstChild.textContent, parseInt(item.querySelector("small").textContent), start, end];
    }),
  );
}

async function ready(page) {
  await page.waitForFunction(() => document.querySelectorAll("#hits li").length > 0, { timeout: 20000 });
}

async function status(page, pattern, timeout = 30000) {
  await page.waitForFunction((p) => new RegExp(p).test(document.getElementById("status").textContent), { timeout }, pattern);
}

async function upload(page, path) {
  const input = await page.$("#file");
  await input.uploadFile(path);
}

/** The page as it opens. */
async function open(page) {
  await ready(page);
  await wait(300);
  return {
    hits: await heard(page),
    status: await text(page, "#status"),
    word: await text(page, "#word"),
    shifted: await page.evaluate(() => window.shifted),
    wide: await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
  };
}

/** The sample at a word, for a screenshot. */
async function portrait(page, { word = "left" }) {
  await ready(page);
  await page.$$eval("#hits .go", (all, name) => all.find(({ firstChild }) => firstChild.textContent === name).click(), word);
  await page.evaluate(() => document.activeElement.blur());
  await wait(500);
  return { word: await text(page, "#word") };
}

/** Listens for some seconds to the simulated microphone. */
async function listen(page, { seconds }, begun) {
  await page.waitForFunction(() => document.querySelectorAll("#model option").length > 0);
  await page.click("#listen");
  await status(page, "^Listening");
  const listening = Date.now() - begun;
  await page.waitForFunction(() => document.getElementById("word-note").textContent.includes("%"));
  await page.evaluate(() => (window.drawn.length = 0));
  await wait(1000 * seconds);
  const drawn = await page.evaluate(() => window.drawn);
  const live = { hits: await heard(page), status: await text(page, "#status"), listening, drawn };
  await page.keyboard.press(" ");
  await page.keyboard.press("ArrowLeft");
  await wait(300);
  const stepped = await text(page, "#clock");
  await page.keyboard.down("Shift");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.up("Shift");
  await wait(300);
  const steppedMore = await text(page, "#clock");
  const frozen = await text(page, "#pause");
  await page.click("#pause");
  await wait(300);
  const shifted = await page.evaluate(() => window.shifted);
  return { ...live, stepped, steppedMore, frozen, goesOn: await text(page, "#clock"), shifted };
}

/** Opens recordings and models. */
async function files(page, { recording, model, damaged, notSound }) {
  await ready(page);
  await upload(page, recording);
  await status(page, "keywords? in 15");
  const found = await heard(page);
  await page.click("#hits li:first-child .go");
  await wait(200);
  const shown = { word: await text(page, "#word"), clock: await text(page, "#clock") };
  await page.click("#hits li:first-child .play");
  await page.select("#model", "0");
  await status(page, "keywords? in 15");
  const withOther = { hits: await heard(page), parameters: await text(page, "#parameters") };
  await upload(page, model);
  await status(page, "is in use");
  const own = { hits: await heard(page), chosen: await page.$eval("#model", (list) => list.selectedOptions[0].textContent) };
  own.parameters = await text(page, "#parameters");
  await upload(page, damaged);
  await status(page, "damaged|not a");
  const refusedModel = await text(page, "#status");
  await upload(page, notSound);
  await status(page, "not a recording");
  return { found, shown, withOther, own, refusedModel, refusedSound: await text(page, "#status") };
}

/** Listens for some minutes: the heap after each, in MB, and what is said of lost frames. */
async function soak(page, { minutes }) {
  await ready(page);
  await page.click("#listen");
  await status(page, "^Listening");
  const session = await page.createCDPSession();
  const heap = [];
  for (let minute = 0; minute <= minutes; minute++) {
    await session.send("HeapProfiler.collectGarbage");
    heap.push(await page.evaluate(() => performance.memory.usedJSHeapSize / 1e6));
    if (minute < minutes) await wait(60000);
  }
  return { heap, status: await text(page, "#status"), hits: (await heard(page)).length };
}

/** Plays the sample to its end. */
async function sample(page) {
  await ready(page);
  await page.click("#sample");
  await wait(2500);
  const during = { word: await text(page, "#word"), clock: parseFloat(await text(page, "#clock")), button: await text(page, "#pause") };
  await page.waitForFunction(() => document.getElementById("pause").textContent === "Play", { timeout: 20000 });
  return { during, clock: await text(page, "#clock") };
}

/** The microphone is refused. */
async function denied(page) {
  await ready(page);
  await page.click("#listen");
  await status(page, "blocked");
  return { status: await text(page, "#status"), button: await text(page, "#listen"), hits: await heard(page) };
}

/** What can go wrong with a microphone, and what the page then says. */
async function troubles(page, { trackEvents }) {
  await ready(page);
  const said = {};
  for (const name of ["NotFoundError", "NotReadableError", "OverconstrainedError"]) {
    await page.evaluate((which) => {
      const refuse = () => Promise.reject(new DOMException("refused", which));
      Object.defineProperty(navigator.mediaDevices, "getUserMedia", { value: refuse, configurable: true, writable: true });
      document.getElementById("status").textContent = "";
      document.getElementById("listen").click();
    }, name);
    await status(page, "again");
    said[name] = await text(page, "#status");
  }
  await page.evaluate(() => {
    navigator.mediaDevices.getUserMedia = async () => (window.media = new AudioContext().createMediaStreamDestination().stream);
    document.getElementById("listen").click();
  });
  await status(page, "^Listening");
  await wait(700); // the browser may tell once more that the sound runs
  const event = async (kind, pattern) => {
    await page.evaluate((name) => window.media.getAudioTracks()[0].dispatchEvent(new Event(name)), kind);
    await status(page, pattern);
    said[kind] = await text(page, "#status");
  };
  if (trackEvents) await event("mute", "muted");
  await page.evaluate(() => {
    for (const hidden of [true, false]) {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }
  });
  said.background = await text(page, "#status");
  await page.evaluate(() => navigator.mediaDevices.dispatchEvent(new Event("devicechange")));
  await status(page, "have changed");
  said.devicechange = await text(page, "#status");
  if (trackEvents) await event("ended", "unplugged");
  else await page.click("#listen");
  said.button = await text(page, "#listen");
  await page.evaluate(() => {
    Object.defineProperty(navigator, "mediaDevices", { value: undefined });
    document.getElementById("listen").click();
  });
  await status(page, "circlematch demo");
  said.insecure = await text(page, "#status");
  return { said };
}

/** What axe finds, in both colour schemes. */
async function accessible(page) {
  await ready(page);
  const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  await page.evaluate(axe);
  await page.click("#numbers summary");
  const run = () =>
    page.evaluate(async () => {
      const { violations } = await globalThis.axe.run();
      return violations.map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`);
    });
  const first = await run();
  await page.click("#theme");
  return { violations: [...first, ...(await run())] };
}

/** Everything with the keyboard alone: the order of the focus, and what keys do. */
async function keyboard(page) {
  await ready(page);
  const focused = [];
  for (let i = 0; i < 12; i++) {
    await page.keyboard.press("Tab");
    focused.push(await page.evaluate(() => document.activeElement.id || document.activeElement.className));
  }
  await page.evaluate(() => document.activeElement.blur());
  const before = parseFloat(await text(page, "#clock"));
  await page.keyboard.press("ArrowRight");
  await wait(100);
  const after = parseFloat(await text(page, "#clock"));
  return { focused, before, after };
}

export const scenarios = { open, portrait, listen, files, soak, sample, denied, troubles, accessible, keyboard };
