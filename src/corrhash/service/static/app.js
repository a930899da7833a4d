// The search page. Whatever comes from the data is put in as text, never as HTML.
"use strict";

const PAGE = 24;
const at = (id) => document.getElementById(id);
let now = null; // what was searched for last: {text | key | picture, find, label}
let asked = 0; // answers to earlier questions than this one come too late

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// Codes: two hexadecimal digits a byte; bit k has the value 2^(k % 8) in byte k / 8.
function bitsOf(code, n) {
  return Array.from({ length: n }, (_, k) =>
    (parseInt(code.slice(2 * (k >> 3), 2 * (k >> 3) + 2), 16) >> (k & 7)) & 1);
}

function pattern(node, code, n, other) {
  const bits = bitsOf(code, n);
  const others = other ? bitsOf(other, n) : bits;
  node.className = "bits";
  node.setAttribute("role", "img");
  const differ = bits.filter((bit, k) => bit !== others[k]).length;
  node.setAttribute("aria-label", other
    ? `${differ} of ${n} bits differ` : `A code of ${n} bits`);
  node.replaceChildren(...bits.map((bit, k) =>
    make("i", [bit ? "one" : "", bit !== others[k] ? "differs" : ""].join(" ").trim())));
}

function say(sentence) {
  at("status").textContent = sentence;
  at("status").className = "";
}

// Where there is nothing to show: why, and below it something to go on with.
function tell(sentence, wrong = false) {
  at("status").textContent = sentence;
  at("status").className = wrong ? "notice wrong" : "notice";
}

function lookAround(shown) {
  at("start").hidden = !shown || at("samples").children.length === 0;
}

function clear() {
  at("results").replaceChildren();
  at("results").removeAttribute("aria-busy");
  at("query").hidden = at("more").hidden = true;
  lookAround(true);
}

// Keys are often paths: their last part is what people call an item.
const nameOf = (key) => key.split("/").pop() || key;

function filterOf(label) {
  return label ? `'${label.replaceAll("'", "''")}' in labels` : null;
}

async function ask(search, offset) {
  const how = { find: search.find, k: PAGE, offset };
  const where = filterOf(search.label);
  if (where) how.where = where;
  let address = "/api/v1/search/text";
  const options = { method: "POST", headers: {} };
  if (search.picture) {
    address = `/api/v1/search/image?${new URLSearchParams(how)}`;
    options.body = search.picture;
    options.headers["Content-Type"] = search.picture.type || "application/octet-stream";
  } else {
    if (search.key) address = "/api/v1/search/item";
    const asked = search.key ? { key: search.key } : { text: search.text };
    options.body = JSON.stringify({ ...how, ...asked });
    options.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new Error("The service cannot be reached. Is it still running?");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `The service answered ${response.status}.`);
  return answer;
}

function card(match, answer) {
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
      chip.title = `Only what is labelled ${label}`;
      chip.addEventListener("click", () => { chooseLabel(label); again(); });
      labels.append(chip);
    }
    body.append(labels);
  }
  const distance = make("p", "distance");
  const differ = make("span");
  const verb = match.distance === 1 ? " bit differs" : " bits differ";
  differ.append(make("strong", "", `${match.distance}`), verb);
  distance.append(differ);
  if (match.score !== null) distance.append(make("span", "", `cosine ${match.score.toFixed(2)}`));
  const bits = make("div");
  pattern(bits, match.code, answer.bits, answer.code);
  const like = make("button", "like", "More like this");
  like.type = "button";
  like.setAttribute("aria-label", `More like this: ${nameOf(match.key)}`);
  like.addEventListener("click", () => startLike(match.key));
  body.append(distance, bits, like);
  item.append(body);
  return item;
}

function offerLabels(labels) {
  const known = new Set([...at("label").options].map((option) => option.value));
  for (const label of labels) if (!known.has(label)) at("label").add(new Option(label, label));
}

function chooseLabel(label) {
  offerLabels([label]);
  at("label").value = label;
}

const chosenFind = () => document.querySelector("input[name=find]:checked").value;

// The small picture of an item that was searched with, if it has one.
async function pictureOf(key) {
  const response = await fetch(`/api/v1/items?${new URLSearchParams({ key })}`).catch(() => null);
  const [item] = response?.ok ? await response.json() : [];
  return item?.thumbnail;
}

async function showQuery(search, answer) {
  at("query").hidden = false;
  at("query-title").textContent = search.picture ? "Your picture"
    : search.key ? `Like ${nameOf(search.key)}` : `“${search.text}”`;
  pattern(at("query-bits"), answer.code, answer.bits);
  at("copy").hidden = Boolean(search.picture); // pictures stay with whoever has them
  const picture = at("query-picture");
  if (picture.src.startsWith("blob:")) URL.revokeObjectURL(picture.src);
  picture.hidden = true;
  const mine = asked;
  const source = search.picture ? URL.createObjectURL(search.picture)
    : search.key ? await pictureOf(search.key) : null;
  if (!source || mine !== asked) return;
  picture.src = source;
  picture.hidden = false;
}

function sumUp(search, answer, started) {
  const n = at("results").children.length;
  const all = Math.round(performance.now() - started);
  const took = `${Math.round(answer.milliseconds)} ms to search, ${all} ms in all`;
  if (n) say(`${n} ${n === 1 ? "result" : "results"}, best first: ${took}.`);
  else if (search.label) {
    tell(`Nothing is labelled “${search.label}” here. Choose another label, or any.`);
  } else tell("Nothing was found. Try other words, or find texts in place of pictures.");
  lookAround(n === 0);
}

async function run(search, offset = 0) {
  const mine = ++asked;
  now = search;
  say("Searching …");
  at("results").setAttribute("aria-busy", "true");
  const started = performance.now();
  try {
    const answer = await ask(search, offset);
    if (mine !== asked) return;
    const cards = answer.matches.map((match) => card(match, answer));
    if (offset === 0) at("results").replaceChildren(...cards);
    else at("results").append(...cards);
    if (offset === 0) showQuery(search, answer);
    sumUp(search, answer, started);
    at("more").hidden = answer.next_offset === null;
    at("more").onclick = async () => {
      await run(search, answer.next_offset);
      const first = at("results").children[offset + answer.matches.length];
      first?.querySelector("button")?.focus();
    };
  } catch (error) {
    if (mine !== asked) return;
    if (offset === 0) clear();
    tell(error.message, true);
  } finally {
    if (mine === asked) at("results").removeAttribute("aria-busy");
  }
}

// What a search is, as the address of the page: opening it searches again.
function addressOf(search) {
  const parts = new URLSearchParams();
  if (search.text) parts.set("q", search.text);
  if (search.key) parts.set("like", search.key);
  if (search.find !== "image") parts.set("find", search.find);
  if (search.label) parts.set("label", search.label);
  return `${parts}` ? `/?${parts}` : "/";
}

function start(what) {
  const search = { ...what, find: chosenFind(), label: at("label").value };
  if (!search.picture) at("picture").value = "";
  at("words").value = search.text || "";
  history.pushState(null, "", addressOf(search));
  scrollTo(0, 0);
  return run(search);
}

// What was chosen is gone from the page: the focus goes on to what came in its place.
async function startLike(key) {
  await start({ key });
  at("results").focus({ preventScroll: true });
}

const again = () => { if (now) start({ text: now.text, key: now.key, picture: now.picture }); };

function searchPicture(file) {
  if (!file) return;
  if (!file.type.startsWith("image/") || file.type === "image/svg+xml") {
    tell("This is no picture that can be searched with. Choose a JPEG, PNG, WebP or GIF.", true);
    return;
  }
  start({ picture: file });
}

function fromAddress() {
  const parts = new URLSearchParams(location.search);
  const find = parts.get("find") === "text" ? "text" : "image";
  document.querySelector(`input[name=find][value=${find}]`).checked = true;
  chooseLabel(parts.get("label") || "");
  at("words").value = parts.get("q") || "";
  const search = { find, label: at("label").value };
  if (parts.get("like")) run({ ...search, key: parts.get("like") });
  else if (parts.get("q")) run({ ...search, text: parts.get("q") });
  else {
    now = null;
    asked += 1;
    clear();
    say("");
  }
}

function sample(item) {
  const place = make("li");
  const button = make("button");
  button.type = "button";
  button.setAttribute("aria-label", `More like ${nameOf(item.key)}`);
  const picture = make("img");
  picture.src = item.thumbnail;
  picture.alt = "";
  picture.title = item.text || item.labels.join(", ") || item.key;
  picture.addEventListener("error", () => place.remove());
  button.append(picture);
  button.addEventListener("click", () => startLike(item.key));
  place.append(button);
  return place;
}

function exampleWord(word) {
  const chip = make("button", "", word);
  chip.type = "button";
  chip.addEventListener("click", () => start({ text: word }));
  return chip;
}

async function introduce() {
  let info;
  try {
    const response = await fetch("/api/v1/info");
    info = await response.json();
    if (!response.ok) throw new Error(info.error);
  } catch (error) {
    tell(error instanceof TypeError
      ? "The service cannot be reached. Is it still running?" : error.message, true);
    return;
  }
  const { items, name, bits, method, labels, examples, samples, search_by: by } = info;
  at("about").textContent =
    `${items.toLocaleString("en")} items in ${name}, as codes of ${bits} bits (${method}).`;
  offerLabels(labels);
  at("examples").replaceChildren(...examples.map(exampleWord));
  at("samples").replaceChildren(...samples.map(sample));
  at("words").disabled = !by.includes("text");
  at("picture").disabled = !by.includes("image");
  if (at("results").children.length || at("results").hasAttribute("aria-busy")) return;
  lookAround(true);
  if (items === 0) tell("This collection is empty. Add pictures with: corrhash index");
}

at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = at("words").value.trim();
  if (text) start({ text });
  else tell("Type some words, or choose a picture.");
});
for (const choice of document.querySelectorAll("input[name=find]")) {
  choice.addEventListener("change", again);
}
at("label").addEventListener("change", again);
at("picture").addEventListener("change", () => searchPicture(at("picture").files[0]));
at("copy").addEventListener("click", async () => {
  const link = new URL(addressOf(now), location.href).href;
  try {
    await navigator.clipboard.writeText(link);
    say("The link is copied. Opening it searches again.");
  } catch {
    say(`The link to this search: ${link}`);
  }
});
document.addEventListener("paste", (event) => {
  const file = [...event.clipboardData.files][0];
  if (file) { event.preventDefault(); searchPicture(file); }
});
document.addEventListener("dragover", (event) => {
  if (![...event.dataTransfer.types].includes("Files")) return;
  event.preventDefault();
  at("drop").hidden = false;
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) at("drop").hidden = true;
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  at("drop").hidden = true;
  searchPicture(event.dataTransfer.files[0]);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
    event.preventDefault();
    at("words").focus();
  }
});
window.addEventListener("popstate", fromAddress);
fromAddress();
introduce();
