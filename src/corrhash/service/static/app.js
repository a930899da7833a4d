// The search page: the form, searches and their results, and the URL of a search.
import {
  byId, drawCode, initialize, make, makeButton, makeCard, nameOf,
} from "./results.js";
import { allowJudging, judgeQuery, makeJudge } from "./judging.js";
import { openViewer } from "./viewer.js";

const PAGE_SIZE = 48;
const MAX_OFFSET = 10_000; // of the service
let currentSearch = null; // {text | key | picture, find, label}
let searchNumber = 0; // responses to earlier searches are ignored
let nextOffset = null; // of the results that follow
let loading = null; // the request for them
let published = { originals: false, paths: false };

function showStatus(message) {
  byId("status").textContent = message;
  byId("status").className = "";
}

// A prominent message, for errors and empty results.
function showNotice(message, isError = false) {
  byId("status").textContent = message;
  byId("status").className = isError ? "notice wrong" : "notice";
}

// Messages about the words of a query, and searches with suggested words in place of unknown ones.
function showWarnings(search = {}, { message, warnings = [], suggestions = {} } = {}) {
  const messages = [message, ...warnings].filter(Boolean).map((each) => make("p", "", each));
  let text = search.text || "";
  for (const [word, term] of Object.entries(suggestions)) {
    const at = text.toLowerCase().indexOf(word);
    if (at >= 0) text = text.slice(0, at) + term + text.slice(at + word.length);
  }
  if (messages.length && text !== (search.text || "")) {
    messages[0].append(makeButton("", `Search for “${text}”`, () => start({ text })));
  }
  byId("warnings").replaceChildren(...messages);
}

function showSamples(shown) {
  byId("start").hidden = !shown || byId("samples").children.length === 0;
}

function setNext(offset) {
  nextOffset = offset !== null && offset <= MAX_OFFSET ? offset : null;
  byId("more").hidden = nextOffset === null;
  byId("more").textContent = "Show more";
}

function clearResults() {
  byId("results").replaceChildren();
  byId("results").removeAttribute("aria-busy");
  byId("query").hidden = true;
  document.body.classList.toggle("searched", currentSearch !== null);
  showWarnings();
  setNext(null);
  showSamples(true);
}

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

const actions = {
  judge: makeJudge,
  similar: (key) => searchSimilar(key),
  select: (label) => { selectLabel(label); repeatSearch(); },
  async open(card) {
    await overview; // results can arrive before it
    if (!card.isConnected) return;
    const isResult = card.parentNode === byId("results");
    openViewer(card, {
      ...published,
      ...actions,
      more: () => isResult && nextOffset !== null,
      loadMore,
    });
  },
};

function addLabelOptions(labels) {
  const known = new Set([...byId("label").options].map((option) => option.value));
  for (const label of labels) if (!known.has(label)) byId("label").add(new Option(label, label));
  byId("filter").hidden = byId("label").options.length < 2;
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

async function showQuery(search, answer, started) {
  byId("query").hidden = false;
  byId("query-title").textContent = search.picture ? "Your picture"
    : search.key ? `Similar to ${nameOf(search.key)}` : `“${search.text}”`;
  drawCode(byId("query-bits"), answer.code, answer.bits);
  const total = Math.round(performance.now() - started);
  const inService = Math.round(answer.milliseconds);
  byId("times").textContent = `Searched in ${inService} ms, ${total} ms in total.`;
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

const cards = () => byId("results").querySelectorAll(".card");

// A line before the first result that is more likely irrelevant than relevant.
function drawLine() {
  const at = [...cards()].findIndex(({ item }) => item.probability !== null && item.probability < 0.5);
  if (at < 0 || byId("results").querySelector(".line")) return;
  cards()[at].before(make("li", "line", at
    ? "Results below are less likely to be relevant." : "None of these results is likely to be relevant."));
}

function showSummary(search) {
  const n = cards().length;
  const counted = `${n} ${n === 1 ? "result" : "results"}`;
  if (n) showStatus(nextOffset === null ? counted : `First ${counted}`);
  else if (search.label) {
    showNotice(`No results labelled “${search.label}”. Choose another label, or “any”.`);
  } else showNotice("No results. Try other words, or switch between Pictures and Texts.");
  showSamples(n === 0);
}

async function run(search, offset = 0) {
  const number = offset ? searchNumber : ++searchNumber;
  currentSearch = search;
  document.body.classList.add("searched");
  if (!offset) {
    loading = null;
    judgeQuery(search);
    showStatus("Searching …");
    showWarnings();
    byId("results").setAttribute("aria-busy", "true");
  }
  const started = performance.now();
  try {
    const answer = await fetchMatches(search, offset);
    if (number !== searchNumber) return;
    const cards = answer.matches.map((match) => makeCard(match, answer, actions));
    if (offset) byId("results").append(...cards);
    else {
      byId("results").replaceChildren(...cards);
      showQuery(search, answer, started);
      showWarnings(search, answer);
    }
    drawLine();
    setNext(answer.next_offset);
    showSummary(search);
    watchEnd();
  } catch (error) {
    if (number !== searchNumber) return;
    if (offset === 0) clearResults();
    else byId("more").textContent = "Cannot load more results. Try again";
    showNotice(error.message, true);
  } finally {
    if (number === searchNumber) byId("results").removeAttribute("aria-busy");
  }
}

// Results follow by themselves before their end comes into view. After an error the button stays.
const end = new IntersectionObserver((entries) => {
  if (entries.some((entry) => entry.isIntersecting)) loadMore();
}, { rootMargin: "800px" });

function watchEnd() {
  end.disconnect(); // observing anew reports an end that is still in view
  if (nextOffset !== null) end.observe(byId("more"));
}

function loadMore() {
  if (nextOffset === null || byId("results").hasAttribute("aria-busy")) return loading;
  end.disconnect();
  loading ??= run(currentSearch, nextOffset).finally(() => { loading = null; });
  return loading;
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
  byId("viewer").close();
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
  published = { originals: info.originals, paths: info.paths };
  allowJudging(info.writable, (message, isError) => (
    isError ? showNotice(message, true) : showStatus(message)));
  const count = `${items.toLocaleString("en")} ${items === 1 ? "item" : "items"}`;
  byId("about").textContent = `${name}: ${count}`;
  byId("about-codes").textContent = `, ${bits}-bit hash codes (${method})`;
  document.title = `${name} – corrhash search`;
  addLabelOptions(labels);
  byId("find").hidden = info.find.length < 2;
  byId("examples").replaceChildren(
    ...examples.map((text) => makeButton("", text, () => start({ text }))));
  byId("examples").hidden = !examples.length || !by.includes("text");
  byId("samples").replaceChildren(...samples.map((item) => makeCard(item, null, actions)));
  byId("text").disabled = !by.includes("text");
  byId("picture").disabled = !by.includes("image");
  if (info.find.length === 1 && info.find[0] !== selectedFind()) {
    document.querySelector(`input[name=find][value=${info.find[0]}]`).checked = true;
    repeatSearch();
  }
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
byId("more").addEventListener("click", async () => {
  const n = cards().length;
  await loadMore();
  cards()[n]?.querySelector("button").focus();
});
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
  if (event.key !== "/" || byId("viewer").open) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)
    && !/^(radio|checkbox)$/.test(event.target.type)) return;
  event.preventDefault();
  byId("text").focus();
});
window.addEventListener("popstate", runFromUrl);
initialize();
runFromUrl();
const overview = showOverview();
