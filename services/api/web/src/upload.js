// `form[data-upload="URL"]`: posts the chosen file as the raw body, with progress.
//
// The media type is the form's `data-media-type`, or follows from the file's name. Then the page goes to `data-then`, in which `{id}`
// is the last part of the answer's Location (a job); without a Location it goes to `data-done`, where the form has one. With `data-named` the
// node is told the file's name.

import { csrfHeaders } from "./csrf.js";

const MEDIA_TYPES = {
  csv: "text/csv",
  geojson: "application/geo+json",
  json: "application/json",
  jsonl: "application/x-ndjson",
  ndgeojson: "application/x-ndgeojson",
  ndjson: "application/x-ndjson",
  parquet: "application/vnd.apache.parquet",
  shp: "application/vnd.shp",
  zip: "application/vnd.shp",
};

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches?.("form[data-upload]")) return;
  event.preventDefault();
  if (form.getAttribute("aria-busy") === "true") return;
  const file = form.querySelector('input[type="file"]').files[0];
  if (!file) return fail(form, "Choose a file first.");
  if (!mediaTypeOf(form, file)) return fail(form, `The format of ${file.name} is not known: ${Object.keys(MEDIA_TYPES).join(", ")}.`);
  send(form, file);
});

function mediaTypeOf(form, file) {
  const extension = file.name.slice(file.name.lastIndexOf(".") + 1).toLowerCase();
  return form.dataset.mediaType || (Object.hasOwn(MEDIA_TYPES, extension) ? MEDIA_TYPES[extension] : undefined);
}

function send(form, file) {
  const request = new XMLHttpRequest(); // fetch tells nothing of the progress of what is sent
  request.open("POST", form.dataset.upload);
  const headers = { Accept: "application/json", "Content-Type": mediaTypeOf(form, file), ...csrfHeaders() };
  if ("named" in form.dataset) headers["Content-Disposition"] = `attachment; filename*=UTF-8''${encodeURIComponent(file.name)}`;
  for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
  const progress = begin(form, request);
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    // The last byte sent is not yet an answer: from then on nobody knows how long.
    if (loaded < total) progress.value = loaded / total;
    else progress.removeAttribute("value");
  });
  request.addEventListener("load", () => finish(form, request));
  request.addEventListener("error", () => fail(form, "The connection to the node was lost. Nothing was added unless a job says so; try again."));
  request.addEventListener("abort", () => fail(form, "The upload was cancelled."));
  request.send(file);
}

function begin(form, request) {
  alertOf(form).textContent = "";
  form.setAttribute("aria-busy", "true");
  const progress = form.querySelector("progress") ?? form.appendChild(document.createElement("progress"));
  if (!progress.labels.length && !progress.hasAttribute("aria-label")) progress.setAttribute("aria-label", "Upload");
  progress.hidden = false;
  progress.max = 1;
  progress.value = 0;
  form.querySelector("[data-upload-cancel]")?.addEventListener("click", () => request.abort(), { once: true });
  return progress;
}

function finish(form, request) {
  if (request.status < 200 || request.status > 299) return fail(form, problemOf(request));
  end(form);
  const location = request.getResponseHeader("Location");
  const id = location?.replace(/[?#].*/, "").split("/").pop() ?? "";
  const then = (!location && form.dataset.done) || form.dataset.then;
  if (then) window.location.assign(then.replaceAll("{id}", encodeURIComponent(id)));
  else window.location.reload();
}

/** Message and hint of a problem document (RFC 9457); a proxy in between may answer with something else. */
function problemOf(request) {
  try {
    const { message, detail, hint } = JSON.parse(request.responseText);
    const text = [message ?? detail, hint].filter(Boolean).join("\n");
    if (text) return text;
  } catch {
    // Not JSON.
  }
  return `The node answered ${request.status} ${request.statusText}`.trim();
}

function fail(form, text) {
  end(form);
  alertOf(form).textContent = text;
}

function end(form) {
  form.removeAttribute("aria-busy");
  const progress = form.querySelector("progress");
  if (progress) progress.hidden = true;
}

function alertOf(form) {
  const found = form.querySelector('[role="alert"]');
  if (found) return found;
  const made = document.createElement("p");
  made.setAttribute("role", "alert");
  form.prepend(made);
  return made;
}
