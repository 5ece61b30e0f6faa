// What HTML and htmx cannot say: whether the page is live, and Escape, which closes the details.
"use strict";

let opener = null;
let isOpening = false;

document.addEventListener("htmx:sseOpen", () => live(true));
document.addEventListener("htmx:sseError", () => live(false));

function live(works) {
  document.body.classList.toggle("live", works);
  const note = document.querySelector(".lost");
  if (note) note.hidden = works;
}

document.addEventListener("htmx:beforeRequest", (event) => {
  if (!event.target.id.startsWith("open-")) return;
  opener = event.target.id;
  isOpening = true;
});

// Who opens details comes to their heading, also by ear; when they are drawn again, nobody is moved.
document.addEventListener("htmx:afterSwap", (event) => {
  if (!isOpening || event.detail.target.id !== "panel") return;
  isOpening = false;
  event.detail.target.querySelector("h2").focus();
});

// Who wants details in a tab of their own gets them: htmx does not hear of it.
document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) event.stopPropagation();
}, true);

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
});

document.addEventListener("click", (event) => {
  if (event.target.closest("nav a")) clear();
  if (!event.target.closest("#panel .close")) return;
  event.preventDefault();
  close();
});

function close() {
  const row = opener && document.getElementById(opener);
  if (clear() && row) row.focus();
}

function clear() {
  const panel = document.getElementById("panel");
  if (!panel || !panel.firstElementChild) return false;
  panel.replaceChildren();
  opener = null;
  return true;
}
