// The page: which explanation is shown, the link that holds its state, the form that asks the server, exports.

const $ = (id) => document.getElementById(id);
const documents = JSON.parse($("documents").textContent);
const server = JSON.parse($("server").textContent);
const ASKED = ["source", "list", "model", "strategy", "similarity", "beam_size"];
const SLIDERS = ["T", "lambda", "exponent"];
const LONGEST_LINK = 16000; // letters, beyond which a pasted list is left out of the link
let state = readLink();
let current = null;
let waiting = null; // the request under way
let written = location.hash;

function readLink() {
  const known = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (known.get(name) && Number.isFinite(Number(known.get(name))) ? Number(known.get(name)) : null);
  const pair = (known.get("pair") ?? "").split(",").map((each) => Number(each) - 1);
  return {
    asked: Object.fromEntries(ASKED.filter((name) => known.get(name)).map((name) => [name, known.get(name)])),
    at: Math.max(0, (number("explanation") ?? 1) - 1), T: number("T"), lambda: number("lambda"), exponent: number("exponent"),
    pair: pair.length === 2 && pair.every((each) => Number.isInteger(each) && each >= 0) ? pair : null,
  };
}

function writeLink() {
  const link = new URLSearchParams();
  for (const [name, value] of Object.entries(state.asked)) if (value && value.length < LONGEST_LINK) link.set(name, value);
  if (documents.length > 1) link.set("explanation", state.at + 1);
  for (const name of SLIDERS) if (state[name] !== null) link.set(name, state[name]);
  if (state.pair) link.set("pair", state.pair.map((each) => each + 1).join(","));
  written = `#${link}`;
  history.replaceState(null, "", written);
}

function show(known) {
  current = known;
  if (state.pair && !(state.pair[0] < known.regular.length && state.pair[1] < known.reverse.length)) state.pair = null;
  if (state.T !== null) state.T = Math.max(1, Math.round(state.T));
  showExplanation($("explanation"), known, state, writeLink);
  $("actions").hidden = false;
  $("svg").hidden = !document.querySelector("svg.tree");
  showOverflow(document);
}

function pick(place) {
  state.at = (place + documents.length) % documents.length;
  $("which").selectedIndex = state.at;
  show(documents[state.at]);
}

function setUpPicker() {
  $("picker").hidden = documents.length < 2;
  documents.forEach((known, place) => $("which").append(make("option", {}, `${place + 1}. ${shown(known.source).slice(0, 90)}`)));
  const go = (place) => { Object.assign(state, { T: null, lambda: null, exponent: null, pair: null }); pick(place); writeLink(); };
  $("which").addEventListener("change", () => go($("which").selectedIndex));
  $("previous").addEventListener("click", () => go(state.at - 1));
  $("next").addEventListener("click", () => go(state.at + 1));
}

// The server.

function requestBody({ list, beam_size: size, ...rest }) {
  const body = { ...rest, ...(size ? { beam_size: Number(size) } : {}) };
  if (list === undefined) return body;
  delete body.source;
  return { ...body, list: JSON.parse(list) };
}

async function ask() {
  waiting?.abort();
  const mine = new AbortController();
  waiting = mine;
  const tell = (text) => { $("problem").replaceChildren(clean(text)); };
  tell("");
  $("status").replaceChildren("Searching \u2026");
  $("explanation").setAttribute("aria-busy", "true");
  try {
    const known = await post("api/explain", requestBody(state.asked), mine.signal);
    show(known);
    $("status").replaceChildren(known.reply ? `The reply is: ${shown(known.reply)}` : "There is no reply.");
  } catch (error) {
    if (error.name === "AbortError") return;
    $("status").replaceChildren();
    tell(error instanceof SyntaxError && state.asked.list ? `The list is no JSON object: ${error.message}.` : error.message);
  }
  if (waiting === mine) $("explanation").removeAttribute("aria-busy");
}

async function post(address, body, signal) {
  const key = sessionStorage.getItem("bidibeam-key");
  const headers = { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body), signal }).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("The server does not answer. Is it running?");
  });
  const content = await answer.json().catch(() => null);
  if (answer.status === 401) $("key-row").hidden = false;
  if (answer.ok && content) return content;
  throw new Error(content?.error?.message ?? `The server answered with status ${answer.status}.`);
}

const FIELDS = { source: "source", model: "model", strategy: "strategy", similarity: "similarity", beam_size: "beam" };

function readForm(given) {
  const values = Object.fromEntries(Object.entries(FIELDS).map(([name, id]) => [name, $(id).value.trim()]));
  const asked = Object.fromEntries(Object.entries({ ...values, ...given }).filter(([, value]) => value));
  state = { asked, at: 0, T: null, lambda: null, exponent: null, pair: null };
  writeLink();
  ask();
}

function fillForm() {
  for (const [name, id] of Object.entries(FIELDS)) $(id).value = state.asked[name] ?? "";
  $("list").value = state.asked.list ?? "";
  if (state.asked.list) $("paste").open = true;
}

function setUpForm() {
  fillForm();
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    if ($("key").value) sessionStorage.setItem("bidibeam-key", $("key").value);
    const isList = event.submitter?.id === "explain-list";
    if (!isList && !$("source").value.trim()) return $("source").focus();
    readForm(isList ? { list: $("list").value.trim() || "{}", source: "" } : {});
  });
  $("source").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); $("form").requestSubmit($("explain")); }
  });
  for (const id of ["model", "strategy", "similarity", "beam"]) {
    $(id).addEventListener("change", () => { if (state.asked.source || state.asked.list) readForm(state.asked.list ? { list: state.asked.list, source: "" } : {}); });
  }
  for (const button of document.querySelectorAll(".examples button")) {
    button.addEventListener("click", () => { $("source").value = button.textContent; readForm({}); });
  }
}

// Exports.

function save(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

const DRAWN = ["fill", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "font-size", "font-family", "font-weight"];

// The trees with every style written out, since a file has no style sheet.
function writeSvg() {
  const tree = document.querySelector("svg.tree");
  const copy = tree.cloneNode(true);
  const [from, to] = [tree, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  to.forEach((element, place) => {
    const style = getComputedStyle(from[place]);
    for (const name of DRAWN) element.setAttribute(name, style.getPropertyValue(name));
  });
  copy.prepend(make("rect", { width: "100%", height: "100%", fill: getComputedStyle(document.body).getPropertyValue("--card") }));
  return new XMLSerializer().serializeToString(copy);
}

function setUpActions() {
  $("json").addEventListener("click", () => save("explanation.json", JSON.stringify(current, null, 1), "application/json"));
  $("svg").addEventListener("click", () => save("beams.svg", writeSvg(), "image/svg+xml"));
  $("link").addEventListener("click", async () => {
    writeLink();
    const told = await navigator.clipboard.writeText(location.href).then(() => "The link is copied.", () => "The address bar holds the link.");
    $("copied").replaceChildren(told);
  });
}

function start() {
  if (server) fillForm();
  if (documents.length) pick(Math.min(state.at, documents.length - 1));
  else if (server && (state.asked.source || state.asked.list)) ask();
}

setUpPicker();
setUpActions();
if (server) setUpForm();
window.addEventListener("hashchange", () => { if (location.hash !== written) { state = readLink(); written = location.hash; start(); } });
window.addEventListener("resize", () => showOverflow(document));
window.bidibeam = { rankAgain, readTokens, findMarks };
start();
