// Entry `theme`: a classic script for <head>, so that no page is painted in the other theme first.

import { applyTheme } from "./theme-choice.js";

applyTheme();
