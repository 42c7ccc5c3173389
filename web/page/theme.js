/** Light or dark: what the visitor chose here, else what the system says. */

import { redraw } from "./drawing.js";
import { $ } from "./state.js";

const SAVED = "circlematch-theme";

export function beginTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const ofSystem = () => (dark.matches ? "dark" : "light");
  useTheme(savedTheme() ?? ofSystem());
  dark.addEventListener("change", () => savedTheme() ?? useTheme(ofSystem()));
  $("theme").addEventListener("click", switchTheme);
}

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").setAttribute("aria-pressed", String(theme === "dark"));
  redraw();
}

function savedTheme() {
  try {
    return localStorage.getItem(SAVED);
  } catch {
    return null; // storage is forbidden
  }
}

function switchTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  useTheme(theme);
  try {
    localStorage.setItem(SAVED, theme);
  } catch {
    return; // it holds for this visit
  }
}
