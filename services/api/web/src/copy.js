// `[data-copy="text"]`: a button that copies the text. `[data-copy][data-copy-from="id"]` copies the text of that element.

import { announce } from "./status.js";

const SHOWN_MS = 2000;

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const copied = await copy(textOf(button));
  announce(copied ? "Copied" : "The browser refused to copy; select the text and copy it by hand.");
  if (copied) show(button);
});

function textOf({ dataset }) {
  const source = dataset.copyFrom && document.getElementById(dataset.copyFrom);
  return source ? (source.value ?? source.textContent) : dataset.copy;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

// Browsers have no clipboard interface on pages that came by plain HTTP from another machine.
function copyBySelection(text) {
  const focused = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  focused?.focus({ preventScroll: true });
  return copied;
}

function show(button) {
  button.dataset.copied = "";
  setTimeout(() => delete button.dataset.copied, SHOWN_MS);
}
