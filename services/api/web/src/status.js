// One live region for short news that has no place of its own on the page.

let region;

/** Have screen readers say `text`. */
export function announce(text) {
  if (!region?.isConnected) {
    region = document.createElement("div");
    region.className = "visually-hidden";
    region.setAttribute("role", "status");
    document.body.append(region);
  }
  region.textContent = text;
}
