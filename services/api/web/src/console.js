// Entry `console`: what every page of the console loads.

import "./htmx.js";
import "./asking.js";
import "./confirm.js";
import "./copy.js";
import "./part.js";
import "./shown.js";
import "./theme.js";
import "./upload.js";
