// The viewer: one item, enlarged, with next and previous by button, key or swipe.
import { byId, captionOf, drawMatch, make, makeLabels, nameOf, previewOf } from "./results.js";

const SIZES = [1024, 1600, 2400, 4096];
const SWIPE = 60; // pixels
const MAX_SCALE = 4; // small pictures are not enlarged further

const viewer = byId("viewer");
let current = null; // the card
let options = {}; // what the service publishes, and what buttons do

function cards() {
  return current ? [...current.parentNode.querySelectorAll(".card")] : [];
}

function beside(card, step) {
  const all = cards();
  return all[all.indexOf(card) + step];
}

function urlOf(item) {
  if (!options.originals) return previewOf(item);
  const stage = byId("stage").getBoundingClientRect();
  const wanted = Math.max(stage.width, stage.height) * devicePixelRatio;
  const size = SIZES.find((each) => each >= wanted) || SIZES.at(-1);
  return `/api/v1/items/${item.id}/original?size=${size}`;
}

function load(url) {
  const picture = new Image();
  picture.src = url;
  return picture.decode().then(() => picture);
}

// The thumbnail is loaded already. The larger picture replaces it once it is decoded.
async function showPicture(card) {
  const { item } = card;
  const shown = byId("viewer-picture");
  byId("viewer-quote").hidden = Boolean(item.thumbnail);
  byId("viewer-quote").textContent = item.text;
  shown.hidden = !item.thumbnail;
  byId("viewer-note").textContent = "";
  if (!item.thumbnail) return;
  shown.alt = captionOf(item);
  shown.src = item.thumbnail;
  shown.style.maxWidth = shown.style.maxHeight = "";
  shown.setAttribute("aria-busy", "true");
  const picture = await load(urlOf(item)).catch(async () => {
    if (card === current && options.originals) {
      byId("viewer-note").textContent = "The original file is not available; this is its preview.";
    }
    return load(previewOf(item)).catch(() => null);
  });
  if (card !== current) return;
  shown.removeAttribute("aria-busy");
  if (!picture) {
    byId("viewer-note").textContent = "The picture cannot be loaded.";
    return;
  }
  shown.src = picture.src;
  shown.style.maxWidth = `${MAX_SCALE * picture.naturalWidth}px`;
  shown.style.maxHeight = `${MAX_SCALE * picture.naturalHeight}px`;
  const next = beside(card, 1)?.item;
  if (next?.thumbnail) load(urlOf(next)).catch(() => {});
}

function addFact(name, value) {
  byId("metadata").append(make("dt", "", name), make("dd", "", value));
}

async function showPath(card) {
  const response = await fetch(`/api/v1/items/${card.item.id}`).catch(() => null);
  const path = response?.ok ? (await response.json()).path : null;
  if (path && path !== nameOf(card.item.key) && card === current) addFact("File", path);
}

function showDetails(card) {
  const { item, answer } = card;
  const all = cards();
  byId("position").textContent = `${all.indexOf(card) + 1} of ${all.length}${options.more() ? "+" : ""}`;
  byId("viewer-text").textContent = item.thumbnail ? item.text : "";
  byId("viewer-name").textContent = nameOf(item.key);
  byId("viewer-labels").replaceChildren(...makeLabels(item.labels, (label) => {
    viewer.close();
    options.select(label);
  }));
  byId("metadata").replaceChildren();
  for (const [name, value] of Object.entries(item.metadata)) addFact(name, String(value));
  if (options.paths) showPath(card);
  else if (nameOf(item.key) !== item.key) addFact("Key", item.key);
  byId("viewer-code").replaceChildren();
  if (answer) drawMatch(byId("viewer-code"), item, answer);
  byId("original").hidden = !options.originals || !item.thumbnail;
  byId("original").href = `/api/v1/items/${item.id}/original`;
  byId("details").scrollTop = 0;
  byId("previous").disabled = !beside(card, -1);
  byId("next").disabled = !beside(card, 1) && !options.more();
}

function show(card) {
  current = card;
  showDetails(card);
  showPicture(card);
}

async function step(direction) {
  const from = current;
  if (direction > 0 && !beside(current, 1) && options.more()) await options.loadMore();
  if (from !== current || !viewer.open) return;
  const card = beside(current, direction);
  if (!card) return;
  const hadFocus = document.activeElement;
  show(card);
  if (hadFocus?.disabled) byId("details").focus(); // a disabled button loses the focus
}

// `given`: originals and paths (whether they are public), more() and loadMore() of the list,
// similar(key) and select(label).
export function openViewer(card, given) {
  options = given;
  viewer.showModal();
  show(card);
}

byId("previous").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(1));
byId("close").addEventListener("click", () => viewer.close());
byId("viewer-similar").addEventListener("click", () => {
  const { key } = current.item;
  viewer.close();
  options.similar(key);
});
byId("stage").addEventListener("click", (event) => {
  if (event.target === byId("stage")) viewer.close(); // beside the picture
});
viewer.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "ArrowRight") step(1);
  else if (event.key === "ArrowLeft") step(-1);
  else return;
  event.preventDefault();
});
let touched = null;
byId("stage").addEventListener("touchstart", (event) => {
  touched = event.touches.length === 1 ? event.touches[0] : null;
}, { passive: true });
byId("stage").addEventListener("touchend", (event) => {
  if (!touched || visualViewport.scale > 1.05) return; // a pinched picture is moved, not changed
  const { clientX, clientY } = event.changedTouches[0];
  const across = clientX - touched.clientX;
  if (Math.abs(across) > SWIPE && Math.abs(across) > 2 * Math.abs(clientY - touched.clientY)) {
    step(across < 0 ? 1 : -1);
  }
});
viewer.addEventListener("close", () => {
  const open = current?.isConnected ? current.querySelector(".open") : null;
  current = null;
  byId("viewer-picture").removeAttribute("src");
  // The card of the item that was shown last, unless "/" was pressed since the viewer closed.
  if (document.activeElement !== byId("text")) open?.focus();
});
