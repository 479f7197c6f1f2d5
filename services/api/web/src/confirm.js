// `form[data-confirm-name="name"]`: is sent only when its field `[data-confirm-field]`, or else its first text field, has that name.

function fieldOf(form) {
  return form.querySelector("[data-confirm-field]") ?? form.querySelector('input:not([type]), input[type="text"]');
}

// In the capture phase, before htmx or anybody else takes the form.
document.addEventListener(
  "submit",
  (event) => {
    const name = event.target.dataset?.confirmName;
    if (name === undefined) return;
    const field = fieldOf(event.target);
    if (field?.value.trim() === name) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    field?.setCustomValidity(`Type ${name} to confirm.`);
    field?.reportValidity();
  },
  true,
);
document.addEventListener("input", (event) => {
  if (event.target.form?.dataset.confirmName !== undefined) event.target.setCustomValidity("");
});
