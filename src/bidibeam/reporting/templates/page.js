// The page: which explanation is shown, the link that holds its state, the form that asks the server, exports.

const $ = (id) => document.getElementById(id);
const form = $("form"); // where there is a server to ask
const FIELDS = ["source", "list", "model", "strategy", "similarity", "beam_size"]; // of the form, as requests have them
const SLIDERS = ["T", "lambda", "exponent"];
const AS_IT_WAS = { T: null, lambda: null, exponent: null, pair: null };
const LONGEST_LINK = 16000; // letters, beyond which a pasted list is left out of the link
const INTRO = [...$("explanation").childNodes];
let documents = JSON.parse($("documents").textContent);
let link = readLink();
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

// Writes the state into the address: in place of the last one, or as a new page to come back from.
function writeLink(isNew = false) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(link.asked)) if (value.length < LONGEST_LINK) parameters.set(name, value);
  if (documents.length > 1) parameters.set("explanation", link.at + 1);
  for (const name of SLIDERS) if (link[name] !== null) parameters.set(name, link[name]);
  if (link.pair) parameters.set("pair", link.pair.map((each) => each + 1).join(","));
  written = `#${parameters}`;
  history[isNew && written !== location.hash ? "pushState" : "replaceState"](null, "", written);
}

function show(known) {
  current = known;
  const [i, j] = link.pair ?? [];
  if (!(i < known.regular.length && j < known.reverse.length)) link.pair = null;
  if (link.T !== null) link.T = Math.max(1, Math.round(link.T));
  showExplanation($("explanation"), known, link, writeLink);
  $("actions").hidden = false;
  $("svg").hidden = !document.querySelector("svg.tree");
}

function setUpPicker() {
  const go = (place) => { Object.assign(link, AS_IT_WAS); pick(place); writeLink(); };
  $("which").addEventListener("change", () => go($("which").selectedIndex));
  $("previous").addEventListener("click", () => go(link.at - 1));
  $("next").addEventListener("click", () => go(link.at + 1));
}

// Shows one of some documents, and lets the reader go to the others.
function present(found) {
  documents = found;
  $("picker").hidden = documents.length < 2;
  $("which").replaceChildren(...documents.map(({ source }, place) =>
    make("option", `${place + 1}. ${shown(source).slice(0, 90)}`)));
  pick(Math.min(link.at, documents.length - 1));
}

function pick(place) {
  link.at = (place + documents.length) % documents.length;
  $("which").selectedIndex = link.at;
  show(documents[link.at]);
}

// Shows that there is nothing to show.
function clear() {
  waiting?.abort();
  [current, documents] = [null, []];
  for (const id of ["picker", "actions"]) $(id).hidden = true;
  for (const id of ["problem", "status"]) $(id).replaceChildren();
  $("explanation").replaceChildren(...INTRO);
  $("explanation").removeAttribute("aria-busy");
}

// The server.

async function ask() {
  waiting?.abort();
  const mine = (waiting = new AbortController());
  $("problem").replaceChildren();
  $("explanation").setAttribute("aria-busy", "true");
  try {
    present(await explainAll(makeBodies(link.asked), mine.signal));
    $("status").replaceChildren(current.reply ? `The reply is: ${shown(current.reply)}` : "There is no reply.");
    $("explanation").removeAttribute("aria-busy");
  } catch (error) {
    if (error.name === "AbortError") return;
    clear();
    $("problem").replaceChildren(clean(error.message));
  }
}

async function explainAll(bodies, signal) {
  const found = [];
  for (const body of bodies) {
    const list = bodies.length > 1 ? `List ${found.length + 1}` : "";
    $("status").replaceChildren(list ? `${list} of ${bodies.length} \u2026` : "Searching \u2026");
    found.push(await post("api/explain", body, signal).catch((error) => {
      if (list && error.name !== "AbortError") error.message = `${list}: ${error.message}`;
      throw error;
    }));
  }
  return found;
}

function makeBodies({ list, source, beam_size: size, ...rest }) {
  const body = { ...rest, ...(size ? { beam_size: Number(size) } : {}) };
  return list ? readLists(list).map((each) => ({ list: each, ...body })) : [{ source, ...body }];
}

// The lists of a pasted text: a JSON object, an array of them, or one on each line.
function readLists(text) {
  const read = (json) => { try { return JSON.parse(json); } catch (error) { return error; } };
  const lines = text.split("\n").filter((line) => line.trim());
  const isLines = lines.length > 1 && !(read(lines[0]) instanceof Error);
  const lists = isLines ? lines.map(read) : [read(text)].flat();
  (lists.length ? lists : [null]).forEach((each, place) => {
    const name = lists.length > 1 ? `List ${place + 1}` : "The list";
    const why = each instanceof Error ? `: ${each.message}` : ", {\"regular\": [\u2026], \"reverse\": [\u2026]}";
    if (each?.constructor !== Object) throw new Error(`${name} is no JSON object${why}.`);
  });
  return lists;
}

async function post(address, body, signal) {
  const key = sessionStorage.getItem("bidibeam-key");
  const headers = { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  const request = { method: "POST", headers, body: JSON.stringify(body), signal };
  const answer = await fetch(address, request).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("The server does not answer. Is it running?");
  });
  const content = await answer.json().catch(() => null);
  if (answer.ok && content) return content;
  if (answer.status === 401) {
    askKey();
    throw new Error(key ? "The API key is wrong: enter another one." : "Enter the API key, which this server wants.");
  }
  throw new Error(content?.error?.message ?? `The server answered with status ${answer.status}.`);
}

function askKey() {
  $("key-row").hidden = false;
  $("key").focus();
}

function setUpForm() {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(event.submitter === $("explain-list") || !$("source").value.trim());
  });
  $("source").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit($("explain"));
  });
  $("key").addEventListener("change", () => sessionStorage.setItem("bidibeam-key", $("key").value));
  for (const id of [...FIELDS.slice(2), "key"]) {
    $(id).addEventListener("change", () => { if (isAsked()) submit(Boolean(link.asked.list)); });
  }
  for (const button of document.querySelectorAll(".examples button")) {
    button.addEventListener("click", () => { $("source").value = button.textContent; submit(false); });
  }
}

const isAsked = () => Boolean(link.asked.source || link.asked.list);

function submit(isList) {
  const left = isList && $("list").value.trim() ? "source" : "list";
  const values = FIELDS.map((name) => [name, $(name).value.trim()]);
  const asked = Object.fromEntries(values.filter(([name, value]) => value && name !== left));
  if (!asked.list && !asked.source) { $(isList && $("paste").open ? "list" : "source").focus(); return; }
  const isSame = JSON.stringify(asked) === JSON.stringify(link.asked);
  if (isSame && $("explanation").ariaBusy) return; // Enter in a field changes it, and submits
  link = { asked, at: 0, ...AS_IT_WAS };
  documents = [];
  writeLink(true);
  ask();
}

function fillForm() {
  for (const name of FIELDS) $(name).value = link.asked[name] ?? "";
  $("paste").open ||= Boolean(link.asked.list);
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
  const paper = getComputedStyle(tree.closest("section")).backgroundColor;
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
    const isWhole = Object.values(link.asked).every((value) => value.length < LONGEST_LINK);
    const copied = navigator.clipboard?.writeText(location.href) ?? Promise.reject();
    const told = await copied.then(() => "The link is copied", () => "The address bar holds the link");
    $("copied").replaceChildren(`${told}${isWhole ? "." : ", without the list, which is too long for one."}`);
  });
}

function start() {
  if (form) fillForm();
  if (form && isAsked()) ask();
  else if (documents.length) present(documents);
  else clear();
}

function follow() {
  if (location.hash === written) return;
  link = readLink();
  written = location.hash;
  if (form) documents = [];
  start();
}

setUpPicker();
setUpActions();
if (form) setUpForm();
window.addEventListener("hashchange", follow);
window.addEventListener("resize", showOverflow);
window.bidibeam = { rankAgain, formulas: Object.keys(FORMULAS) };
start();
