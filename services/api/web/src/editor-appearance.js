// Colours of the editor. Each is a custom property of the page's stylesheet, with a value for light and dark that has enough contrast.

import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { Compartment } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const COLOURS = {
  keyword: ["#7b1fa2", "#d7a5f2"],
  string: ["#0b5c2e", "#8fd6a8"],
  number: ["#8a3b00", "#f0b27a"],
  comment: ["#5a6270", "#a3acba"],
  name: ["#0b4f8a", "#8fc4f5"],
};

function colour(name) {
  const [light, dark] = COLOURS[name];
  return { color: `var(--code-${name}, light-dark(${light}, ${dark}))` };
}

const highlighting = HighlightStyle.define([
  { tag: [tags.keyword, tags.typeName, tags.bool, tags.null], ...colour("keyword") },
  { tag: [tags.string, tags.special(tags.string)], ...colour("string") },
  { tag: tags.number, ...colour("number") },
  { tag: tags.comment, ...colour("comment") },
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], ...colour("name") },
]);

const SURFACE = {
  "&": {
    backgroundColor: "var(--code-background, light-dark(#ffffff, #16181d))",
    border: "1px solid var(--code-border, light-dark(#767c87, #858d99))",
    color: "var(--code-text, light-dark(#1a1d23, #e6e9ee))",
  },
  "&.cm-focused": { outline: "3px solid var(--focus, light-dark(#0b57d0, #8ab4f8))", outlineOffset: "1px" },
  ".cm-content": { caretColor: "currentColor", minHeight: "8rem" },
  ".cm-cursor": { borderLeftColor: "currentColor" },
  ".cm-gutters": {
    backgroundColor: "transparent",
    border: "0",
    color: "var(--code-comment, light-dark(#5a6270, #a3acba))",
  },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "light-dark(#0000000a, #ffffff0d)" },
  ".cm-placeholder": { color: "inherit", opacity: "0.75" },
};

const dark = new Compartment();
const theme = EditorView.theme(SURFACE);

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}

/** Extensions for the colours. */
export function appearance() {
  return [theme, syntaxHighlighting(highlighting), dark.of(EditorView.darkTheme.of(isDark()))];
}

/** Keep what CodeMirror draws itself, lists and panels, in the theme of the page. */
export function followTheme(view) {
  const update = () => view.dispatch({ effects: dark.reconfigure(EditorView.darkTheme.of(isDark())) });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
  new MutationObserver(update).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}
