// Judgments: "Fits" and "Does not fit" on each result, kept in the collection. Pressing a button
// again withdraws the judgment. A service that accepts them asks for its token once per tab.
import { byId, make, makeButton, nameOf } from "./results.js";

const VERDICTS = [[true, "Fits", "✓"], [false, "Does not fit", "✗"]];
let query = {}; // the text, key or image that is judged, and what was searched
let verdicts = new Map(); // of its results, by key of the item
let showStatus = () => {};

export function allowJudging(writable, report) {
  document.body.classList.toggle("can-judge", writable);
  showStatus = report;
  query.load?.();
}

function storedToken(value) {
  try {
    if (value !== undefined) sessionStorage.setItem("token", value);
    return sessionStorage.getItem("token") || "";
  } catch { return value || ""; } // storage is disabled
}

function request(method, path, content) {
  const headers = { Authorization: `Bearer ${storedToken()}` };
  if (content) headers["Content-Type"] = "application/json";
  return fetch(`/api/v1/judgments${path}`, { method, headers, body: content && JSON.stringify(content) });
}

function askForToken() {
  const dialog = byId("token-dialog");
  dialog.returnValue = "";
  byId("token").value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const token = dialog.returnValue === "save" ? byId("token").value.trim() : "";
      if (token) storedToken(token);
      resolve(Boolean(token));
    }, { once: true });
  });
}

async function send(content) {
  let response = await request("POST", "", content);
  while (response.status === 401) {
    if (!await askForToken()) throw new Error("Judging needs the token of this service.");
    response = await request("POST", "", content);
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `The service returned ${response.status}.`);
}

function showVerdicts() {
  for (const group of document.querySelectorAll(".judge")) {
    const verdict = verdicts.get(group.dataset.key);
    for (const button of group.children) {
      button.setAttribute("aria-pressed", `${button.fits === verdict}`);
    }
  }
}

async function judge(key, fits) {
  const judged = query;
  const verdict = verdicts.get(key) === fits ? null : fits;
  try {
    await send({ ...await judged.content(), item: key, fits: verdict });
  } catch (error) {
    showStatus(error instanceof TypeError
      ? "Cannot reach the service. Check that it is running." : error.message, true);
    return;
  }
  if (judged !== query) return;
  if (verdict === null) verdicts.delete(key);
  else verdicts.set(key, verdict);
  showVerdicts();
  const name = nameOf(key);
  showStatus(verdict === null ? `Judgment of ${name} withdrawn.`
    : `${name} ${verdict ? "fits" : "does not fit"}. Press again to undo.`);
}

export function makeJudge(item) {
  const group = make("div", "judge");
  group.dataset.key = item.key;
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", `Judge ${nameOf(item.key)}`);
  for (const [fits, title, sign] of VERDICTS) {
    const button = makeButton("", sign, () => judge(item.key, fits));
    button.title = title;
    button.setAttribute("aria-label", `${title}: ${nameOf(item.key)}`);
    button.setAttribute("aria-pressed", `${verdicts.get(item.key) === fits}`);
    button.fits = fits;
    group.append(button);
  }
  return group;
}

async function inBase64(file) {
  const reader = new FileReader();
  await new Promise((resolve) => { reader.onload = resolve; reader.readAsDataURL(file); });
  return reader.result.split(",")[1];
}

// Forget the judgments of the last query, and load those of this one where the token is known.
export function judgeQuery({ text, key, picture, find }) {
  const words = { ...(key ? { key } : { text }), find };
  const own = {
    content: async () => (picture ? { image: await inBase64(picture), find } : words),
    async load() {
      if (picture || !storedToken() || !document.body.classList.contains("can-judge")) return;
      const response = await request("GET", `?${new URLSearchParams(words)}`).catch(() => null);
      if (!response?.ok || own !== query) return;
      for (const { item, fits } of await response.json()) verdicts.set(item, fits);
      showVerdicts();
    },
  };
  query = own;
  verdicts = new Map();
  own.load();
}
