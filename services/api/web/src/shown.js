// What only works with scripts is hidden in the page and shown here; times get the reader's own zone beside UTC.

function show(root) {
  for (const element of root.querySelectorAll("[data-copy][hidden], [data-run-selection][hidden], [data-theme-toggle][hidden], form[data-upload][hidden]")) element.hidden = false;
  for (const time of root.querySelectorAll("time[data-local]:not([data-shown])")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    time.dataset.shown = "";
    time.title = `${time.title} · ${moment.toLocaleString()}`;
  }
}

show(document);
// Parts that came later.
document.addEventListener("htmx:after:swap", () => show(document));
