// The search page. Data is inserted as text, never as HTML.
"use strict";

const PAGE_SIZE = 24;
const byId = (id) => document.getElementById(id);
let currentSearch = null; // {text | key | picture, find, label}
let searchNumber = 0; // responses to earlier searches are ignored

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// Codes have two hexadecimal digits per byte; bit k has the value 2^(k % 8) in byte k / 8.
function bitsOf(code, n) {
  return Array.from({ length: n }, (_, k) =>
    (parseInt(code.slice(2 * (k >> 3), 2 * (k >> 3) + 2), 16) >> (k & 7)) & 1);
}

function drawCode(node, code, n, queryCode) {
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

function showStatus(message) {
  byId("status").textContent = message;
  byId("status").className = "";
}

// A prominent message, for errors and empty results.
function showNotice(message, isError = false) {
  byId("status").textContent = message;
  byId("status").className = isError ? "notice wrong" : "notice";
}

function showSamples(shown) {
  byId("start").hidden = !shown || byId("samples").children.length === 0;
}

function clearResults() {
  byId("results").replaceChildren();
  byId("results").removeAttribute("aria-busy");
  byId("query").hidden = byId("more").hidden = true;
  showSamples(true);
}

// Keys are often paths; the last part is the name to show.
const nameOf = (key) => key.split("/").pop() || key;

function filterOf(label) {
  return label ? `'${label.replaceAll("'", "''")}' in labels` : null;
}

async function fetchMatches(search, offset) {
  const parameters = { find: search.find, k: PAGE_SIZE, offset };
  const where = filterOf(search.label);
  if (where) parameters.where = where;
  let url = "/api/v1/search/text";
  const options = { method: "POST", headers: {} };
  if (search.picture) {
    url = `/api/v1/search/image?${new URLSearchParams(parameters)}`;
    options.body = search.picture;
    options.headers["Content-Type"] = search.picture.type || "application/octet-stream";
  } else {
    if (search.key) url = "/api/v1/search/key";
    const query = search.key ? { key: search.key } : { text: search.text };
    options.body = JSON.stringify({ ...parameters, ...query });
    options.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(url, options);
  } catch {
    throw new Error("Cannot reach the service. Check that it is running.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `The service returned ${response.status}.`);
  return answer;
}

function makeCard(match, answer) {
  const item = make("li");
  if (match.thumbnail) {
    const picture = make("img");
    picture.src = match.thumbnail;
    picture.alt = match.text || match.labels.join(", ") || match.key;
    picture.loading = "lazy";
    picture.addEventListener("error", () => picture.remove());
    item.append(picture);
  }
  const body = make("div", "body");
  if (match.text) {
    const text = make("p", "text", match.text);
    text.title = match.text;
    body.append(text);
  }
  const key = make("p", "key", nameOf(match.key));
  key.title = match.key;
  body.append(key);
  if (match.labels.length) {
    const labels = make("div", "labels");
    for (const label of match.labels) {
      const chip = make("button", "", label);
      chip.type = "button";
      chip.title = `Show only items labelled ${label}`;
      chip.addEventListener("click", () => { selectLabel(label); repeatSearch(); });
      labels.append(chip);
    }
    body.append(labels);
  }
  const distance = make("p", "distance");
  const differing = make("span");
  const verb = match.distance === 1 ? " bit differs" : " bits differ";
  differing.append(make("strong", "", `${match.distance}`), verb);
  distance.append(differing);
  if (match.score !== null) distance.append(make("span", "", `cosine ${match.score.toFixed(2)}`));
  const bits = make("div");
  drawCode(bits, match.code, answer.bits, answer.code);
  const similar = make("button", "similar", "Find similar");
  similar.type = "button";
  similar.setAttribute("aria-label", `Find similar to ${nameOf(match.key)}`);
  similar.addEventListener("click", () => searchSimilar(match.key));
  body.append(distance, bits, similar);
  item.append(body);
  return item;
}

function addLabelOptions(labels) {
  const known = new Set([...byId("label").options].map((option) => option.value));
  for (const label of labels) if (!known.has(label)) byId("label").add(new Option(label, label));
}

function selectLabel(label) {
  addLabelOptions([label]);
  byId("label").value = label;
}

const selectedFind = () => document.querySelector("input[name=find]:checked").value;

async function thumbnailOf(key) {
  const response = await fetch(`/api/v1/items?${new URLSearchParams({ key })}`).catch(() => null);
  const [item] = response?.ok ? await response.json() : [];
  return item?.thumbnail;
}

async function showQuery(search, answer) {
  byId("query").hidden = false;
  byId("query-title").textContent = search.picture ? "Your picture"
    : search.key ? `Similar to ${nameOf(search.key)}` : `“${search.text}”`;
  drawCode(byId("query-bits"), answer.code, answer.bits);
  byId("copy").hidden = Boolean(search.picture); // an uploaded picture has no link
  const picture = byId("query-picture");
  if (picture.src.startsWith("blob:")) URL.revokeObjectURL(picture.src);
  picture.hidden = true;
  const number = searchNumber;
  const source = search.picture ? URL.createObjectURL(search.picture)
    : search.key ? await thumbnailOf(search.key) : null;
  if (!source || number !== searchNumber) return;
  picture.src = source;
  picture.hidden = false;
}

function showSummary(search, answer, started) {
  const n = byId("results").children.length;
  const total = Math.round(performance.now() - started);
  const times = `searched in ${Math.round(answer.milliseconds)} ms, ${total} ms in total`;
  if (n) showStatus(`${n} ${n === 1 ? "result" : "results"}, ${times}.`);
  else if (search.label) {
    showNotice(`No results labelled “${search.label}”. Choose another label, or “any”.`);
  } else showNotice("No results. Try other words, or switch between Pictures and Texts.");
  showSamples(n === 0);
}

async function run(search, offset = 0) {
  const number = ++searchNumber;
  currentSearch = search;
  showStatus("Searching …");
  byId("results").setAttribute("aria-busy", "true");
  const started = performance.now();
  try {
    const answer = await fetchMatches(search, offset);
    if (number !== searchNumber) return;
    const cards = answer.matches.map((match) => makeCard(match, answer));
    if (offset === 0) byId("results").replaceChildren(...cards);
    else byId("results").append(...cards);
    if (offset === 0) showQuery(search, answer);
    showSummary(search, answer, started);
    byId("more").hidden = answer.next_offset === null;
    byId("more").onclick = async () => {
      await run(search, answer.next_offset);
      const first = byId("results").children[offset + answer.matches.length];
      first?.querySelector("button")?.focus();
    };
  } catch (error) {
    if (number !== searchNumber) return;
    if (offset === 0) clearResults();
    showNotice(error.message, true);
  } finally {
    if (number === searchNumber) byId("results").removeAttribute("aria-busy");
  }
}

// The URL of the page describes the search; opening it repeats the search.
function urlOf(search) {
  const parameters = new URLSearchParams();
  if (search.text) parameters.set("q", search.text);
  if (search.key) parameters.set("like", search.key);
  if (search.find !== "image") parameters.set("find", search.find);
  if (search.label) parameters.set("label", search.label);
  return `${parameters}` ? `/?${parameters}` : "/";
}

function start(query) {
  const search = { ...query, find: selectedFind(), label: byId("label").value };
  if (!search.picture) byId("picture").value = "";
  byId("text").value = search.text || "";
  history.pushState(null, "", urlOf(search));
  scrollTo(0, 0);
  return run(search);
}

// The selected card is replaced, so the focus moves to the results.
async function searchSimilar(key) {
  await start({ key });
  byId("results").focus({ preventScroll: true });
}

function repeatSearch() {
  if (!currentSearch) return;
  const { text, key, picture } = currentSearch;
  start({ text, key, picture });
}

function searchPicture(file) {
  if (!file) return;
  if (!file.type.startsWith("image/") || file.type === "image/svg+xml") {
    showNotice("Unsupported file. Choose a JPEG, PNG, WebP or GIF picture.", true);
    return;
  }
  start({ picture: file });
}

function runFromUrl() {
  const parameters = new URLSearchParams(location.search);
  const find = parameters.get("find") === "text" ? "text" : "image";
  document.querySelector(`input[name=find][value=${find}]`).checked = true;
  selectLabel(parameters.get("label") || "");
  byId("text").value = parameters.get("q") || "";
  const search = { find, label: byId("label").value };
  if (parameters.get("like")) run({ ...search, key: parameters.get("like") });
  else if (parameters.get("q")) run({ ...search, text: parameters.get("q") });
  else {
    currentSearch = null;
    searchNumber += 1;
    clearResults();
    showStatus("");
  }
}

function makeSample(item) {
  const entry = make("li");
  const button = make("button");
  button.type = "button";
  button.setAttribute("aria-label", `Find similar to ${nameOf(item.key)}`);
  const picture = make("img");
  picture.src = item.thumbnail;
  picture.alt = "";
  picture.title = item.text || item.labels.join(", ") || item.key;
  picture.addEventListener("error", () => entry.remove());
  button.append(picture);
  button.addEventListener("click", () => searchSimilar(item.key));
  entry.append(button);
  return entry;
}

function makeExample(text) {
  const chip = make("button", "", text);
  chip.type = "button";
  chip.addEventListener("click", () => start({ text }));
  return chip;
}

async function showOverview() {
  let info;
  try {
    const response = await fetch("/api/v1/info");
    info = await response.json();
    if (!response.ok) throw new Error(info.error);
  } catch (error) {
    showNotice(error instanceof TypeError
      ? "Cannot reach the service. Check that it is running." : error.message, true);
    return;
  }
  const { items, name, bits, method, labels, examples, samples, search_by: by } = info;
  const count = `${items.toLocaleString("en")} ${items === 1 ? "item" : "items"}`;
  byId("about").textContent = `${name}: ${count}, ${bits}-bit hash codes (${method})`;
  addLabelOptions(labels);
  byId("examples").replaceChildren(...examples.map(makeExample));
  byId("samples").replaceChildren(...samples.map(makeSample));
  byId("text").disabled = !by.includes("text");
  byId("picture").disabled = !by.includes("image");
  if (byId("results").children.length || byId("results").hasAttribute("aria-busy")) return;
  showSamples(true);
  if (items === 0) showNotice("This collection is empty. Add items with corrhash index.");
}

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("text").value.trim();
  if (text) start({ text });
  else showNotice("Enter a text, or choose a picture.");
});
for (const choice of document.querySelectorAll("input[name=find]")) {
  choice.addEventListener("change", repeatSearch);
}
byId("label").addEventListener("change", repeatSearch);
byId("picture").addEventListener("change", () => searchPicture(byId("picture").files[0]));
byId("copy").addEventListener("click", async () => {
  const link = new URL(urlOf(currentSearch), location.href).href;
  try {
    await navigator.clipboard.writeText(link);
    showStatus("Link copied.");
  } catch {
    showStatus(`Link to this search: ${link}`);
  }
});
document.addEventListener("paste", (event) => {
  const file = [...event.clipboardData.files][0];
  if (file) { event.preventDefault(); searchPicture(file); }
});
document.addEventListener("dragover", (event) => {
  if (![...event.dataTransfer.types].includes("Files")) return;
  event.preventDefault();
  byId("drop").hidden = false;
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) byId("drop").hidden = true;
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  byId("drop").hidden = true;
  searchPicture(event.dataTransfer.files[0]);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
    event.preventDefault();
    byId("text").focus();
  }
});
window.addEventListener("popstate", runFromUrl);
runFromUrl();
showOverview();
