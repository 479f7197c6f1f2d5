// Entry `editor`: turns `textarea[data-editor="sql"]` and `textarea[data-editor="yaml"]` into editors. The textarea stays the form's field.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, indentOnInput } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { appearance, followTheme } from "./editor-appearance.js";
import { sqlLanguage } from "./editor-sql.js";

const LANGUAGES = { sql: sqlLanguage, yaml };
const ENHANCED = new WeakMap();

function enhance(textarea) {
  const language = LANGUAGES[textarea.dataset.editor];
  if (!language || ENHANCED.has(textarea)) return;
  const view = new EditorView({ doc: textarea.value, extensions: [...behaviour(textarea), language(), appearance()] });
  ENHANCED.set(textarea, view);
  textarea.before(view.dom);
  if (document.activeElement === textarea || textarea.autofocus) view.focus();
  textarea.hidden = true;
  textarea.required = false; // a hidden field could not be pointed at; the server says what is missing
  for (const label of textarea.labels) label.addEventListener("click", () => view.focus());
  textarea.form?.addEventListener("reset", () => setTimeout(() => replace(view, textarea.value)));
  followTheme(view);
}

function behaviour(textarea) {
  const nonce = document.querySelector('meta[name="csp-nonce"]')?.content;
  const submit = () => {
    textarea.form?.requestSubmit();
    return true;
  };
  const send = ["Mod-Enter", "Ctrl-Enter"].map((key) => ({ key, run: submit }));
  return [
    nonce ? EditorView.cspNonce.of(nonce) : [],
    Prec.highest(keymap.of(send)),
    lineNumbers(),
    history(),
    drawSelection(),
    EditorState.allowMultipleSelections.of(true),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    autocompletion(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    search({ top: true }),
    EditorView.lineWrapping,
    textarea.placeholder ? placeholder(textarea.placeholder) : [],
    EditorState.readOnly.of(textarea.readOnly),
    // Tab indents; Escape and then Tab leaves the editor, which CodeMirror does itself.
    keymap.of([...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
    EditorView.contentAttributes.of(accessibleNames(textarea)),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) textarea.value = update.state.doc.toString();
    }),
  ];
}

/** The editor has the names and descriptions that the textarea has. */
function accessibleNames(textarea) {
  const found = {};
  for (const name of ["aria-label", "aria-labelledby", "aria-describedby", "aria-invalid"]) {
    if (textarea.hasAttribute(name)) found[name] = textarea.getAttribute(name);
  }
  if (!found["aria-label"] && !found["aria-labelledby"]) {
    const labels = [...textarea.labels];
    for (const label of labels) label.id ||= `label-of-${textarea.id || textarea.name}`;
    found["aria-labelledby"] = labels.map((label) => label.id).join(" ");
  }
  return found;
}

function replace(view, text) {
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
}

/** Sends the form of the button with the selected text only, or with all of it where nothing is selected. */
function runSelection(button) {
  const textarea = button.form?.querySelector("textarea[data-editor]");
  const view = ENHANCED.get(textarea);
  if (!view) return;
  const { from, to } = view.state.selection.main;
  const text = from === to ? view.state.doc.toString() : view.state.sliceDoc(from, to);
  const form = button.form;
  const listening = new AbortController();
  // Whoever sends the form, the browser or htmx, builds its data once; the textarea keeps the whole text.
  form.addEventListener("formdata", ({ formData }) => formData.set(textarea.name, text), { once: true, signal: listening.signal });
  let valid = false;
  form.addEventListener("submit", () => (valid = true), { once: true, capture: true, signal: listening.signal });
  form.requestSubmit();
  if (!valid) listening.abort();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-run-selection]");
  if (button) runSelection(button);
});

function enhanceAll() {
  document.querySelectorAll("textarea[data-editor]").forEach(enhance);
}
document.addEventListener("htmx:after:process", enhanceAll);
enhanceAll();
