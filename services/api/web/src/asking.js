// `form[data-asking]`: htmx sends it and puts the answer into the page, so that the editor stays as it is. While the answer is awaited,
// the `[data-stop]` button ends the work: the node cancels what nobody waits for.

import { announce } from "./status.js";

const ASKING = "form[data-asking]";

// A file is no part of a page, and what is saved has a page of its own: the browser gets them by itself.
document.addEventListener(
  "submit",
  (event) => {
    if (event.target.matches?.(ASKING) && isElsewhere(event.submitter)) event.stopImmediatePropagation();
  },
  { capture: true },
);

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-stop]");
  if (!button?.form) return;
  button.form.dispatchEvent(new CustomEvent("htmx:abort"));
  announce(button.dataset.stop);
});

document.addEventListener("htmx:before:request", (event) => wait(event.target, true));
document.addEventListener("htmx:finally:request", (event) => wait(event.target, false));

// A session that ended leads to another page, and a refusal without a place in this one is a page of its own.
document.addEventListener("htmx:after:request", (event) => {
  if (!event.target.matches?.(ASKING)) return;
  const { ctx } = event.detail;
  if (ctx.response.raw.redirected) {
    event.preventDefault();
    window.location.assign(ctx.response.raw.url);
  } else if (!ctx.text.includes(`id="${ctx.target.id}"`)) {
    ctx.target = document.querySelector("main");
    ctx.select = "main";
  }
});

document.addEventListener("htmx:error", ({ target, detail: { ctx } }) => {
  if (!target.matches?.(ASKING)) return;
  const problem = document.createElement("p");
  problem.className = "problem";
  problem.setAttribute("role", "alert");
  problem.textContent = target.dataset.away;
  ctx.target.replaceChildren(problem);
});

function isElsewhere(button) {
  return button?.name === "export" || button?.hasAttribute("formaction");
}

function wait(form, isBusy) {
  if (!form.matches?.(ASKING)) return;
  if (isBusy) form.setAttribute("aria-busy", "true");
  else form.removeAttribute("aria-busy");
  for (const button of form.querySelectorAll("[data-stop]")) button.hidden = !isBusy;
}
