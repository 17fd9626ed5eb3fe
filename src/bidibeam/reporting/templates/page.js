// The page: which explanation is shown, the link that holds its state, the form that asks the server, exports.

const $ = (id) => document.getElementById(id);
const documents = JSON.parse($("documents").textContent);
const server = JSON.parse($("server").textContent);
const FIELDS = ["source", "list", "model", "strategy", "similarity", "beam_size"]; // of the form, as requests have them
const SLIDERS = ["T", "lambda", "exponent"];
const AS_IT_WAS = { T: null, lambda: null, exponent: null, pair: null };
const LONGEST_LINK = 16000; // letters, beyond which a pasted list is left out of the link
let state = readLink();
let current = null; // the document that is shown
let waiting = null; // the request under way
let written = location.hash;

function readLink() {
  const known = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (/^-?[\d.]{1,9}$/u.test(known.get(name) ?? "") ? Number(known.get(name)) : null);
  const pair = (known.get("pair") ?? "").split(",").map((each) => Number(each) - 1);
  const isPair = pair.length === 2 && pair.every((each) => Number.isInteger(each) && each >= 0);
  return {
    asked: Object.fromEntries([...known].filter(([name, value]) => value && FIELDS.includes(name))),
    at: Math.max(0, (number("explanation") ?? 1) - 1),
    ...Object.fromEntries(SLIDERS.map((name) => [name, number(name)])),
    pair: isPair ? pair : null,
  };
}

function writeLink() {
  const link = new URLSearchParams();
  for (const [name, value] of Object.entries(state.asked)) if (value.length < LONGEST_LINK) link.set(name, value);
  if (documents.length > 1) link.set("explanation", state.at + 1);
  for (const name of SLIDERS) if (state[name] !== null) link.set(name, state[name]);
  if (state.pair) link.set("pair", state.pair.map((each) => each + 1).join(","));
  written = `#${link}`;
  history.replaceState(null, "", written);
}

function show(known) {
  current = known;
  const [i, j] = state.pair ?? [];
  if (!(i < known.regular.length && j < known.reverse.length)) state.pair = null;
  if (state.T !== null) state.T = Math.max(1, Math.round(state.T));
  showExplanation($("explanation"), known, state, writeLink);
  $("actions").hidden = false;
  $("svg").hidden = !document.querySelector("svg.tree");
}

function setUpPicker() {
  const go = (place) => { Object.assign(state, AS_IT_WAS); pick(place); writeLink(); };
  $("picker").hidden = documents.length < 2;
  const name = ({ source }, place) => make("option", `${place + 1}. ${shown(source).slice(0, 90)}`);
  $("which").append(...documents.map(name));
  $("which").addEventListener("change", () => go($("which").selectedIndex));
  $("previous").addEventListener("click", () => go(state.at - 1));
  $("next").addEventListener("click", () => go(state.at + 1));
}

function pick(place) {
  state.at = (place + documents.length) % documents.length;
  $("which").selectedIndex = state.at;
  show(documents[state.at]);
}

// The server.

async function ask() {
  waiting?.abort();
  const mine = new AbortController();
  waiting = mine;
  $("problem").replaceChildren();
  $("status").replaceChildren("Searching \u2026");
  $("explanation").setAttribute("aria-busy", "true");
  try {
    const known = await post("api/explain", makeBody(state.asked), mine.signal);
    show(known);
    $("status").replaceChildren(known.reply ? `The reply is: ${shown(known.reply)}` : "There is no reply.");
  } catch (error) {
    if (error.name === "AbortError") return;
    $("status").replaceChildren();
    $("problem").replaceChildren(clean(error.message));
  }
  $("explanation").removeAttribute("aria-busy");
}

function makeBody({ list, source, beam_size: size, ...rest }) {
  const body = { ...rest, ...(size ? { beam_size: Number(size) } : {}) };
  if (!list) return { source, ...body };
  try {
    return { list: JSON.parse(list), ...body };
  } catch (error) {
    throw new Error(`The list is no JSON object: ${error.message}.`);
  }
}

async function post(address, body, signal) {
  const key = sessionStorage.getItem("bidibeam-key");
  const headers = { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  const request = { method: "POST", headers, body: JSON.stringify(body), signal };
  const answer = await fetch(address, request).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("The server does not answer. Is it running?");
  });
  const content = await answer.json().catch(() => null);
  if (answer.status === 401) askKey();
  if (answer.ok && content) return content;
  throw new Error(content?.error?.message ?? `The server answered with status ${answer.status}.`);
}

function askKey() {
  $("key-row").hidden = false;
  $("key").focus();
}

function setUpForm() {
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    if ($("key").value) sessionStorage.setItem("bidibeam-key", $("key").value);
    submit(event.submitter === $("explain-list"));
  });
  $("source").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    $("form").requestSubmit($("explain"));
  });
  for (const id of FIELDS.slice(2)) {
    $(id).addEventListener("change", () => { if (current) submit(Boolean(state.asked.list)); });
  }
  for (const button of document.querySelectorAll(".examples button")) {
    button.addEventListener("click", () => { $("source").value = button.textContent; submit(false); });
  }
}

function submit(isList) {
  const values = FIELDS.map((name) => [name, $(name).value.trim()]);
  const asked = Object.fromEntries(values.filter(([name, value]) => value && name !== (isList ? "source" : "list")));
  if (!asked.list && !asked.source) { $(isList ? "list" : "source").focus(); return; }
  state = { asked, at: 0, ...AS_IT_WAS };
  writeLink();
  ask();
}

function fillForm() {
  for (const name of FIELDS) $(name).value = state.asked[name] ?? "";
  $("paste").open ||= Boolean(state.asked.list);
}

// Exports.

const DRAWN = [
  "fill", "opacity", "font-size", "font-family", "font-weight",
  "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray",
];

// The trees with every style written out, since a file has no style sheet.
function writeSvg() {
  const tree = document.querySelector("svg.tree");
  const copy = tree.cloneNode(true);
  const [from, to] = [tree, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  to.forEach((element, place) => {
    const style = getComputedStyle(from[place]);
    for (const name of DRAWN) element.setAttribute(name, style.getPropertyValue(name));
  });
  const paper = getComputedStyle(document.body).getPropertyValue("--card");
  copy.prepend(make("rect", { width: "100%", height: "100%", fill: paper }));
  return new XMLSerializer().serializeToString(copy);
}

function save(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function setUpActions() {
  const saveJson = () => save("explanation.json", JSON.stringify(current, null, 1), "application/json");
  $("json").addEventListener("click", saveJson);
  $("svg").addEventListener("click", () => save("beams.svg", writeSvg(), "image/svg+xml"));
  $("link").addEventListener("click", async () => {
    writeLink();
    const copied = navigator.clipboard?.writeText(location.href) ?? Promise.reject();
    const told = await copied.then(() => "The link is copied.", () => "The address bar holds the link.");
    $("copied").replaceChildren(told);
  });
}

function start() {
  if (server) fillForm();
  if (documents.length) pick(Math.min(state.at, documents.length - 1));
  else if (state.asked.source || state.asked.list) ask();
}

function follow() {
  if (location.hash === written) return;
  state = readLink();
  written = location.hash;
  start();
}

setUpPicker();
setUpActions();
if (server) setUpForm();
window.addEventListener("hashchange", follow);
window.addEventListener("resize", showOverflow);
window.bidibeam = { rankAgain };
start();
