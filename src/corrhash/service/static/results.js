// The cards of items, their hash codes, and how they are shown. Data is inserted as text, never as
// HTML.

export const byId = (id) => document.getElementById(id);

export function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

export function makeButton(className, text, action) {
  const button = make("button", className, text);
  button.type = "button";
  button.addEventListener("click", action);
  return button;
}

// Keys are often paths; the last part is the name to show.
export const nameOf = (key) => key.split("/").pop() || key;
export const captionOf = (item) => item.text || item.labels.join(", ") || nameOf(item.key);

// Codes have two hexadecimal digits per byte; bit k has the value 2^(k % 8) in byte k / 8.
function bitsOf(code, n) {
  return Array.from({ length: n }, (_, k) =>
    (parseInt(code.slice(2 * (k >> 3), 2 * (k >> 3) + 2), 16) >> (k & 7)) & 1);
}

export function drawCode(node, code, n, queryCode) {
  const bits = bitsOf(code, n);
  const queryBits = queryCode ? bitsOf(queryCode, n) : bits;
  node.className = "bits";
  node.setAttribute("role", "img");
  const distance = bits.filter((bit, k) => bit !== queryBits[k]).length;
  node.setAttribute("aria-label", queryCode
    ? `${distance} of ${n} bits differ` : `Hash code of ${n} bits`);
  node.replaceChildren(...bits.map((bit, k) =>
    make("i", [bit ? "one" : "", bit !== queryBits[k] ? "differs" : ""].join(" ").trim())));
}

// The distance and the bits of a match. Bits are drawn only while codes are shown: thousands of
// hidden elements would slow down the page.
export function drawMatch(node, match, answer) {
  const distance = make("p", "distance");
  const differing = make("span");
  const verb = match.distance === 1 ? " bit differs" : " bits differ";
  differing.append(make("strong", "", `${match.distance}`), verb);
  distance.append(differing);
  if (match.score !== null) distance.append(make("span", "", `cosine ${match.score.toFixed(2)}`));
  if (match.probability !== null) {
    distance.append(make("span", "", `${Math.round(100 * match.probability)}% likely relevant`));
  }
  const bits = make("div");
  drawCode(bits, match.code, answer.bits, answer.code);
  node.replaceChildren(distance, bits);
}

export function makeLabels(labels, select) {
  return labels.map((label) => {
    const chip = makeButton("", label, () => select(label));
    chip.title = `Show only items labelled ${label}`;
    return chip;
  });
}

function makePicture(item) {
  const picture = make("img");
  // The browser chooses by the size of the card and the resolution of the screen.
  picture.sizes = "auto, 16rem";
  picture.loading = "lazy";
  picture.decoding = "async";
  picture.alt = "";
  picture.srcset = `${item.thumbnail} 256w, ${previewOf(item)} 640w`;
  picture.src = item.thumbnail;
  return picture;
}

export const previewOf = (item) => `/api/v1/items/${item.id}/preview`;

// `answer` has the code of the query; samples have none. `actions` are open, similar, select
// and judge.
export function makeCard(item, answer, actions) {
  const card = make("li", "card");
  const open = makeButton("open", undefined, () => actions.open(card));
  open.setAttribute("aria-label", `Enlarge: ${captionOf(item)}`);
  open.title = captionOf(item);
  if (item.thumbnail) {
    const picture = makePicture(item);
    picture.addEventListener("error", () => picture.replaceWith(make("span", "quote", captionOf(item))));
    open.append(picture);
  } else {
    open.append(make("span", "quote", captionOf(item)));
  }
  const body = make("div", "body");
  if (item.text && item.thumbnail) body.append(make("p", "text", item.text));
  const key = make("p", "key", nameOf(item.key));
  key.title = item.key;
  body.append(key);
  if (item.labels.length) {
    const labels = make("div", "labels");
    labels.append(...makeLabels(item.labels, actions.select));
    body.append(labels);
  }
  if (answer) {
    const code = make("div", "code codes-only");
    if (codesAreShown()) drawMatch(code, item, answer);
    else card.drawCode = () => { drawMatch(code, item, answer); card.drawCode = null; };
    body.append(code, actions.judge(item));
  }
  const similar = makeButton("similar", "Find similar", () => actions.similar(item.key));
  similar.setAttribute("aria-label", `Find similar to ${nameOf(item.key)}`);
  body.append(similar);
  card.append(open, body);
  card.item = item;
  card.answer = answer;
  return card;
}

export const codesAreShown = () => byId("codes").checked;

function remember(name, value) {
  try { localStorage.setItem(name, value); } catch { /* storage is disabled */ }
}

function remembered(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function showCodes() {
  document.body.classList.toggle("with-codes", codesAreShown());
  if (codesAreShown()) for (const card of document.querySelectorAll(".card")) card.drawCode?.();
  remember("codes", codesAreShown() ? "shown" : "hidden");
}

function setDensity(density) {
  document.body.dataset.density = density;
  remember("density", density);
}

// The choices of density and codes, kept in this browser.
export function initialize() {
  byId("codes").checked = remembered("codes") === "shown";
  showCodes();
  byId("codes").addEventListener("change", showCodes);
  const density = remembered("density") || "medium";
  for (const choice of document.querySelectorAll("input[name=density]")) {
    choice.checked = choice.value === density;
    if (choice.checked) setDensity(density);
    choice.addEventListener("change", () => setDensity(choice.value));
  }
}
