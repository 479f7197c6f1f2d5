// The chosen theme: kept in this browser, shown as `data-theme` of <html>.

const KEY = "odfabric-theme";
const THEMES = ["auto", "light", "dark"];

/** The stored choice; "auto" where nothing usable is stored or storage is refused. */
export function storedTheme() {
  try {
    const stored = localStorage.getItem(KEY);
    return THEMES.includes(stored) ? stored : "auto";
  } catch {
    return "auto";
  }
}

/** Show `theme`, by default the stored one. */
export function applyTheme(theme = storedTheme()) {
  document.documentElement.dataset.theme = theme;
}

/** Store and show `theme`. */
export function chooseTheme(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // The choice then lasts as long as the page.
  }
  applyTheme(theme);
}

/** The theme that follows `theme` when a button steps through them. */
export function nextTheme(theme) {
  return THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
}
