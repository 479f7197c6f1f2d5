// `[data-part]`: a part of a page that htmx loads after it, because it takes long. While it is awaited the element says so; a part that
// does not come leaves the page as it is, and the link in it asks again.

const PART = "[data-part]";

document.addEventListener("htmx:before:request", ({ target }) => {
  if (target.matches?.(PART)) say(target, "waiting");
});

document.addEventListener("htmx:after:request", (event) => {
  const { target, detail: { ctx } } = event;
  if (!target.matches?.(PART)) return;
  const wanted = target.getAttribute("hx-select").slice(1);
  if (ctx.response.raw.redirected || !ctx.text.includes(`id="${wanted}"`)) {
    event.preventDefault();
    say(target, "away");
  }
});

document.addEventListener("htmx:error", ({ target }) => {
  if (target.matches?.(PART)) say(target, "away");
});

function say(part, what) {
  const text = part.querySelector("[data-waiting]");
  text.textContent = text.dataset[what];
  part.querySelector("a").hidden = what === "waiting";
}
