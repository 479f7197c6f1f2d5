// htmx reads its settings when its module runs, so this module is imported before it. A page's own settings win. The node
// bounds how long a request may take; whoever waits may cancel.

if (!document.querySelector('meta[name="htmx-config"]')) {
  const settings = document.createElement("meta");
  settings.name = "htmx-config";
  settings.content = JSON.stringify({ includeIndicatorCSS: false, defaultTimeout: 0 });
  document.head.append(settings);
}
