/** A browser with the page in it: node browser.mjs BROWSER SCENARIO '{"url": …}' prints what it saw as JSON. */

import { readFileSync } from "node:fs";
import { scenarios } from "./scenarios.mjs";
import puppeteer from "puppeteer-core";

const [, , name, scenario, given] = process.argv;
const options = JSON.parse(given);

const CHROMIUM = [
  ...["--no-sandbox", "--autoplay-policy=no-user-gesture-required", "--enable-precise-memory-info"],
  ...["--use-fake-device-for-media-stream", ...(options.deny ? [] : ["--use-fake-ui-for-media-stream"])],
  ...(options.sound ? [`--use-file-for-fake-audio-capture=${options.sound}`] : []),
];
const FIREFOX = {
  "media.autoplay.default": 0,
  "media.autoplay.blocking_policy": 0,
  "permissions.default.microphone": options.deny ? 2 : 1,
  "layout.css.prefers-color-scheme.content-override": options.theme === "dark" ? 0 : 1,
};

const browser = await puppeteer.launch({
  browser: name === "firefox" ? "firefox" : "chrome",
  executablePath: options.executable,
  headless: true,
  args: name === "firefox" ? [] : CHROMIUM,
  extraPrefsFirefox: FIREFOX,
});
try {
  const page = await browser.newPage();
  const seen = { errors: [], requests: [] };
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && seen.errors.push(message.text()));
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("request", (request) => /^(data|blob|about):/.test(request.url()) || seen.requests.push(request.url()));
  await page.setViewport({ width: options.width ?? 1360, height: options.height ?? 860 });
  if (options.theme && name !== "firefox") await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: options.theme }]);
  if (name === "firefox" && options.sound) await page.evaluateOnNewDocument(substituteMicrophone, base64(options.sound));
  if (options.deny && name === "firefox") await page.evaluateOnNewDocument(denyMicrophone);
  await page.evaluateOnNewDocument(watch);
  const begun = Date.now();
  await page.goto(options.url);
  const found = await scenarios[scenario](page, options, begun);
  if (options.screenshot) await page.screenshot({ path: options.screenshot, fullPage: Boolean(options.full) });
  console.log(JSON.stringify({ ...seen, ...found }));
} finally {
  await browser.close();
}

function base64(file) {
  return readFileSync(file).toString("base64");
}

/** In the page: a microphone that hears a WAV file once, from the moment at which it is opened. */
function substituteMicrophone(wav) {
  const open = async () => {
    const context = new AudioContext();
    const bytes = Uint8Array.from(atob(wav), (letter) => letter.charCodeAt(0));
    const source = context.createBufferSource();
    source.buffer = await context.decodeAudioData(bytes.buffer);
    const destination = context.createMediaStreamDestination();
    source.connect(destination);
    await context.resume();
    source.start();
    return destination.stream;
  };
  Object.defineProperty(navigator.mediaDevices, "getUserMedia", { value: open });
}

/** In the page: what Firefox does when a visitor says no. */
function denyMicrophone() {
  const refuse = () => Promise.reject(new DOMException("denied", "NotAllowedError"));
  Object.defineProperty(navigator.mediaDevices, "getUserMedia", { value: refuse });
}

/** In the page: the time of every drawing, and how far the layout has shifted. */
function watch() {
  window.drawn = [];
  window.shifted = 0;
  const ask = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (draw) =>
    ask((now) => {
      const begun = performance.now();
      draw(now);
      window.drawn.push(performance.now() - begun);
    });
  if (globalThis.PerformanceObserver?.supportedEntryTypes?.includes("layout-shift"))
    new PerformanceObserver((list) => {
      for (const { value } of list.getEntries()) window.shifted += value;
    }).observe({ type: "layout-shift", buffered: true });
}
