// `[data-theme-toggle]`: a <select> with the values auto, light and dark, or a button that steps through them.

import { applyTheme, chooseTheme, nextTheme, storedTheme } from "./theme-choice.js";

const TOGGLE = "[data-theme-toggle]";

function showOn(toggle) {
  const theme = document.documentElement.dataset.theme;
  if (toggle instanceof HTMLSelectElement) toggle.value = theme;
  else toggle.setAttribute("aria-label", `Theme: ${theme}`);
}

function choose(theme) {
  chooseTheme(theme);
  document.querySelectorAll(TOGGLE).forEach(showOn);
}

document.addEventListener("click", (event) => {
  const toggle = event.target.closest?.(TOGGLE);
  if (toggle && !(toggle instanceof HTMLSelectElement)) choose(nextTheme(document.documentElement.dataset.theme));
});
document.addEventListener("change", (event) => {
  if (event.target.matches?.(`select${TOGGLE}`)) choose(event.target.value);
});
// Another tab chose.
window.addEventListener("storage", () => {
  applyTheme();
  document.querySelectorAll(TOGGLE).forEach(showOn);
});

applyTheme(storedTheme());
document.querySelectorAll(TOGGLE).forEach(showOn);
