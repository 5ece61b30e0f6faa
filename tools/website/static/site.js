// What keyboards and screen readers need, and the theme leaves out.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "All pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "This page");
  for (const caption of document.querySelectorAll(".caption[role=heading]")) {
    caption.setAttribute("aria-level", "2");
  }
  for (const scrolled of document.querySelectorAll("pre, .table-wrapper")) {
    scrolled.tabIndex = 0;
  }
});
