// What HTML and htmx cannot say: whether the page is live, and Escape, which closes the details.
"use strict";

let opener = null;

document.addEventListener("htmx:sseOpen", () => live(true));
document.addEventListener("htmx:sseError", () => live(false));

function live(works) {
  document.body.classList.toggle("live", works);
  const note = document.querySelector(".lost");
  if (note) note.hidden = works;
}

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.target.id.startsWith("open-")) opener = event.target.id;
});

// The details begin at their heading, also for those who hear the page.
document.addEventListener("htmx:afterSwap", (event) => {
  const heading = event.detail.target.id === "panel" && event.detail.target.querySelector("h2");
  if (heading && opener) heading.focus();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
});

document.addEventListener("click", (event) => {
  if (!event.target.closest("#panel .close")) return;
  event.preventDefault();
  close();
});

function close() {
  const panel = document.getElementById("panel");
  if (!panel || !panel.firstElementChild) return;
  panel.replaceChildren();
  const row = opener && document.getElementById(opener);
  if (row) row.focus();
  opener = null;
}
