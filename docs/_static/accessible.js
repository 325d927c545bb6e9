document.addEventListener("DOMContentLoaded", () => {
  // What scrolls sideways must be reachable by keyboard (WCAG 2.1.1).
  for (const box of document.querySelectorAll(".highlight pre, .table-wrapper, .output pre")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
    }
  }
  // The theme's captions are headings without a level (WCAG 4.1.2).
  for (const caption of document.querySelectorAll(".caption[role=heading]")) {
    caption.setAttribute("aria-level", "2");
  }
});
