// The session's CSRF token, which the page carries in <meta name="csrf-token">.

/** Headers of a request that changes something. */
export function csrfHeaders() {
  const token = document.querySelector('meta[name="csrf-token"]')?.content;
  return token ? { "X-CSRF-Token": token } : {};
}
