// `form[data-asking]`: while the answer is awaited, its `[data-stop]` button ends the work: the node cancels what nobody waits for.

import { announce } from "./status.js";

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches?.("form[data-asking]") || event.submitter?.name === "export") return; // a file leaves the page where it is
  wait(form, true);
});

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-stop]");
  if (!button?.form) return;
  window.stop();
  wait(button.form, false);
  announce(button.dataset.stop);
});

// A page that comes back from the browser's memory waits for nothing.
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-asking]")) wait(form, false);
});

function wait(form, is_busy) {
  form.toggleAttribute("aria-busy", is_busy);
  const button = form.querySelector("[data-stop]");
  if (button) button.hidden = !is_busy;
}
