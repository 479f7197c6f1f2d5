// htmx for this console: server-sent events, the CSRF token, and no code in attributes.

import "./htmx-settings.js";
import htmx from "htmx.org/dist/htmx.esm.js";
import "htmx.org/dist/ext/hx-sse.js";
import { csrfHeaders } from "./csrf.js";

const SAFE_METHODS = ["GET", "HEAD", "OPTIONS", "QUERY"];

// The policy of the pages forbids eval already. Where a proxy took the policy away, code in attributes still must not run.
function refuseCode() {
  throw new Error("hx-on and js: are not supported in this console");
}
htmx.registerExtension("no-code", { init: (api) => api.initSecurity(undefined, refuseCode, refuseCode) });

document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
  if (!SAFE_METHODS.includes(ctx.request.method.toUpperCase())) Object.assign(ctx.request.headers, csrfHeaders());
});
