// One explanation: the reply and why, sliders, each strategy's winner, both beams, the matrix, a pair, the trees.

const DIRECTIONS = ["regular", "reverse"];
const TITLES = { regular: "Regular beam", reverse: "Reverse beam" };
const WAYS = { regular: "written first word first", reverse: "written last word first" };
const FEW = 12; // hypotheses of a beam, and columns with numbers in their cells, before there are too many

// Shows `known`, a document of Explanation.to_dict(), in `root`. `state` has T, lambda, exponent and pair, which
// controls change before they call `changed`.
function showExplanation(root, known, state, changed = () => {}) {
  const view = { known, state, changed, marks: findMarks(known), parts: {}, items: {}, cells: [] };
  root.classList.add("explanation");
  root.replaceChildren(...[
    makeHead(view), makeSliders(view), makeChoices(view), makeBeams(view), makeMatrix(view), makeTrees(view),
    makeNotes(view),
  ].filter(Boolean));
  update(view);
  return view;
}

const settingsOf = ({ T = null, lambda = null, exponent = null }) => ({ T, lambda, exponent });
const textOf = (known, direction, place) => shown(known[direction][place].text);
const quote = (text) => make("q", {}, make("bdi", {}, text));

function update(view) {
  const { known, state } = view;
  view.winners = rankAgain(known, settingsOf(state));
  view.own = view.winners.find((each) => each.system === known.system);
  view.rows = view.own?.direction === "reverse" && view.own.partner !== null && known.similarity.reverse_by_regular ? "reverse" : "regular";
  view.matrix = orientMatrix(view);
  view.pairs = pairsOf(view.winners);
  view.ownPair = view.own ? pairsOf([view.own])[0]?.pair : null;
  view.pair = state.pair ?? view.ownPair ?? view.pairs[0]?.pair ?? findBest(view.matrix);
  paintHead(view);
  paintChoices(view);
  paintBeams(view);
  paintMatrix(view);
  paintTrees(view);
  select(view, view.pair);
}

// Always (regular, reverse), compared from the side of the reply: a similarity need not be symmetric.
function orientMatrix({ known, state, rows }) {
  const matrix = compare(known, rows, other(rows), settingsOf(state));
  return rows === "regular" ? matrix : known.regular.map((_, row) => matrix.map((values) => values[row]));
}

function pairsOf(winners) {
  return winners.filter((each) => each.partner !== null).map(({ system, direction, place, partner }) =>
    ({ system, pair: direction === "regular" ? [place, partner] : [partner, place] }));
}

function findBest(matrix) {
  let best = null;
  matrix.forEach((row, i) => row.forEach((value, j) => {
    if (!best || value > matrix[best[0]][best[1]]) best = [i, j];
  }));
  return best;
}

function section(name, title, ...children) {
  return make("section", { class: name, "aria-label": title }, make("h3", {}, title), children);
}

// The source, the reply, and a sentence why.

function makeHead(view) {
  const { parts, known } = view;
  parts.reply = make("p", { class: "reply" });
  parts.why = make("p", { class: "why" });
  parts.decides = make("p", { class: "decides" });
  const row = (label, content) => [make("span", { class: "label" }, label), content];
  const text = (written) => make("p", { class: "source", dir: "auto" }, shown(written));
  const lines = [["source", text(known.source)], ["reply", parts.reply], ...(known.references ?? []).map((each) => ["reference", text(each)])];
  return make("header", {}, make("div", { class: "dialogue" }, lines.flatMap(([label, content]) => row(label, content))), parts.why, parts.decides);
}

function paintHead({ parts, known, own, winners, state }) {
  const text = own ? own.text : known.reply;
  const isMissing = !own && !known.reply;
  parts.reply.classList.toggle("long", text.length > 100);
  parts.reply.replaceChildren(make("span", { dir: "auto" }, isMissing ? "(no reply)" : shown(text)),
    ...own?.isChanged ? [" ", make("span", { class: "changed" }, "changed")] : []);
  const missing = `${known.system} could not choose, since something that it needs is missing.`;
  parts.why.replaceChildren(...own ? [make("b", {}, own.system), own.reason ? ` answers so, since ${clean(own.reason)}` : " answers so."] : known.choices.length && isMissing ? [missing] : []);
  parts.decides.replaceChildren(...tellLength(known, winners, state, own));
}

// Whether the length term decides, or agreement by itself.
function tellLength(known, winners, state, own) {
  if (!known.similarity.length_term) return [];
  const compares = (each) => ["bidia", "mbr"].includes(each.formula);
  const one = own && compares(own) ? own : winners.find((each) => each.formula === "bidia");
  if (!one) return [];
  const plain = rankAgain(known, { ...settingsOf(state), T: 1 }).find((each) => each.system === one.system);
  if (plain.text === one.text) return [make("b", {}, "Agreement decides: "), `without the length term BP_T, ${one.system} chooses the same.`];
  return [make("b", {}, "Length decides: "), `without the length term BP_T, ${one.system} would choose `, quote(shown(plain.text)), "."];
}

// Sliders, which rank again what the search found.

function makeSliders(view) {
  const sliders = describeSliders(view.known);
  if (!sliders.length) return null;
  view.parts.status = make("p", { class: "status", role: "status" });
  const reset = make("button", { type: "button", onclick: () => { sliders.forEach(({ name }) => { view.state[name] = null; }); slid(view, sliders); } }, "Reset");
  view.parts.sliders = sliders.map((slider) => makeSlider(view, slider, sliders));
  return section("sliders", "What if?", make("div", { class: "controls" }, view.parts.sliders, reset), view.parts.status);
}

function describeSliders(known) {
  const has = (...formulas) => known.choices.some((each) => formulas.includes(each.formula));
  const options = Object.assign({}, ...known.choices.map((each) => each.options ?? {}));
  const longest = Math.max(1, ...[...known.regular, ...known.reverse].map((each) => each.tokens?.length ?? 0));
  const sliders = [];
  const T = known.similarity.length_term?.T.reverse;
  if (T && has("bidia", "mbr")) sliders.push({ name: "T", label: "T", hint: "shorter replies agree less", min: 1, max: Math.max(2 * longest, Math.ceil(1.5 * T)), step: 1, start: T });
  if (has("bidis")) sliders.push({ name: "lambda", label: "\u03bb", hint: "weight of the reverse score in bidis", min: 0, max: Math.max(3, 2 * options.lambda), step: 0.05, start: options.lambda });
  const start = known.length_penalty?.exponent ?? options.length_exponent ?? 0.6;
  const isScored = has("vbs", "reverse-vbs", "bidis", "vbs-tuned", "loglinear") && [...known.regular, ...known.reverse].some((each) => each.log_prob !== null);
  if (isScored) sliders.push({ name: "exponent", label: "length exponent", hint: "more favours long replies in scores", min: Math.min(0, start), max: Math.max(2, 1.5 * start), step: 0.05, start, isKnown: Boolean(known.length_penalty) });
  return sliders;
}

function makeSlider(view, slider, sliders) {
  const { name, label, hint, min, max, step, start, isKnown = true } = slider;
  const input = make("input", { type: "range", min, max, step, value: start, "aria-describedby": `hint-${name}`, oninput: () => {
    const value = Number(input.value);
    view.state[name] = Math.abs(value - start) < step / 2 ? null : value;
    slid(view, sliders);
  } });
  const output = make("output", {});
  const before = isKnown ? `${Number(start.toFixed(3))}, as it was` : "as the scores are";
  const box = make("label", { class: "slider" }, make("span", {}, make("b", {}, label), " ", output), input, make("small", { id: `hint-${name}` }, hint));
  box.refresh = () => { input.value = view.state[name] ?? start; output.replaceChildren(String(view.state[name] ?? before)); };
  box.refresh();
  return box;
}

function slid(view, sliders) {
  view.state.pair = null;
  view.parts.sliders.forEach((box) => box.refresh());
  update(view);
  const changes = view.winners.filter((each) => each.isChanged);
  const isMoved = sliders.some(({ name }) => view.state[name] !== null);
  const told = changes.length ? changes.map((each) => `${each.system}: ${shown(each.text)}`).join("; ") : "no winner changes";
  view.parts.status.replaceChildren(isMoved ? `With these settings, ${told}.` : "As it was.");
  view.changed();
}

// Each strategy's winner.

function makeChoices({ parts, known }) {
  parts.choices = make("tbody", {});
  if (!known.choices.length) return section("choices", "Who chooses what", make("p", {}, "No strategy has anything to choose from."));
  const heads = ["strategy", "reply", ...(known.choices.some((each) => each.reason) ? ["since"] : [])].map((text) => make("th", { scope: "col" }, text));
  return section("choices", "Who chooses what", make("table", {}, make("thead", {}, make("tr", {}, heads)), parts.choices));
}

function paintChoices({ parts, known, winners }) {
  parts.choices.replaceChildren(...winners.map((each) => make("tr", { class: each.system === known.system ? "own" : null },
    make("th", { scope: "row" }, each.system, each.system === known.system && make("small", {}, "answers")),
    make("td", { class: "text" }, make("span", { dir: "auto" }, shown(each.text)),
      ...each.isChanged ? [" ", make("span", { class: "changed" }, "changed, was ", quote(shown(each.before.text)))] : []),
    each.reason && make("td", { class: "since" }, clean(each.reason), each.isKept && make("small", {}, " (the page cannot ask this one again)")))));
}

// Both beams in reading order.

function makeBeams(view) {
  return section("beams", "The two beams, in reading order", make("div", { class: "columns" }, DIRECTIONS.map((direction) => makeBeam(view, direction))));
}

function makeBeam(view, direction) {
  const hypotheses = view.known[direction];
  const head = make("h4", {}, TITLES[direction], make("small", {}, ` ${WAYS[direction]}`));
  view.items[direction] = hypotheses.map((each, place) => makeItem(view, direction, each, place));
  const list = make("ol", {}, view.items[direction]);
  const all = hypotheses.length > FEW && make("button", { type: "button", class: "all", onclick: () => { list.classList.add("open"); all.remove(); } }, `Show all ${hypotheses.length}`);
  const body = hypotheses.length ? [list, all] : [make("p", { class: "none" }, `There is no ${direction} beam.`)];
  return make("div", { class: `beam ${direction}` }, head, body);
}

function makeItem(view, direction, each, place) {
  const best = Math.max(...view.known[direction].map((one) => one.score ?? -Infinity));
  const hasScore = typeof each.score === "number";
  const score = make("span", { class: "score", title: hasScore ? "length-normalised log-probability" : null }, hasScore ? round(each.score) : "");
  const item = make("li", { onclick: () => pinHypothesis(view, direction, place) }, make("span", { class: "place" }, String(place + 1)),
    make("span", { class: "text", dir: "auto" }, shown(each.text)), each.finished === false && make("span", { class: "cut" }, "cut off"),
    score, make("span", { class: "badges" }));
  item.classList.toggle("scored", hasScore);
  if (hasScore) item.style.setProperty("--likely", Math.exp(each.score - best).toFixed(3));
  return item;
}

function paintBeams({ items, known, winners }) {
  for (const direction of DIRECTIONS) {
    items[direction].forEach((item, place) => {
      const names = winners.filter((each) => each.direction === direction && each.place === place);
      item.classList.toggle("few", place < FEW || names.length > 0);
      item.querySelector(".badges").replaceChildren(...names.map(({ system, isChanged }) =>
        make("span", { class: `badge${system === known.system ? " own" : ""}${isChanged ? " new" : ""}` }, system)));
    });
  }
}

// The hypothesis with its closest in the other beam.
function pinHypothesis(view, direction, place) {
  const { matrix } = view;
  const values = direction === "regular" ? matrix[place] ?? [] : matrix.map((row) => row[place]);
  const partner = findHighest(values);
  if (partner !== null) pin(view, direction === "regular" ? [place, partner] : [partner, place]);
}

// The matrix as a heat map with one stop for the keyboard, and the pair that is looked at.

function makeMatrix(view) {
  const { known, parts } = view;
  if (!known.regular.length || !known.reverse.length) return null;
  const isDense = known.reverse.length > FEW;
  const heads = known.reverse.map((each, column) => make("th", { scope: "col", title: shown(each.text) }, make("span", {}, String(column + 1))));
  const rows = known.regular.map((each, row) => make("tr", {},
    make("th", { scope: "row", title: shown(each.text) }, make("span", { class: "number" }, String(row + 1)), make("span", { class: "name", dir: "auto" }, shown(each.text))),
    view.cells[row] = known.reverse.map((_, column) => makeCell(view, row, column))));
  parts.caption = make("p", { class: "hint" });
  parts.grid = make("table", { role: "grid", class: isDense ? "dense" : null, onkeydown: (event) => walk(view, event), onpointerleave: () => select(view, view.pair) },
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, make("span", { class: "corner" }, "regular \\ reverse")), heads)), make("tbody", {}, rows));
  parts.pair = make("div", { class: "pair" });
  return section("matrix", "How alike they are", make("p", { class: "hint" }, "Point at a cell, or walk with the arrow keys, to see what the two have in common."), parts.caption,
    make("div", { class: "columns" }, scrollBox(parts.grid, "matrix of similarities"), parts.pair));
}

function makeCell(view, row, column) {
  return make("td", { role: "gridcell", tabindex: "-1", onpointerenter: () => select(view, [row, column]),
    onfocus: () => pin(view, [row, column]), onclick: () => pin(view, [row, column]) }, make("span", {}));
}

// A box that scrolls sideways and shows it.
function scrollBox(content, label) {
  const box = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${label}, scrolls sideways` }, content);
  return make("div", { class: "framed" }, box, make("p", { class: "more", "aria-hidden": "true" }, "scrolls sideways \u2194"));
}

function paintMatrix(view) {
  const { known, cells, matrix, pairs, parts, rows } = view;
  if (!cells.length) return;
  const values = matrix.flat();
  const [low, high] = [Math.min(0, ...values), Math.max(...values)];
  parts.grid.setAttribute("aria-label", `${known.similarity.name} of every pair`);
  parts.caption.replaceChildren(`${known.similarity.name} of each ${rows} hypothesis with each ${other(rows)} one, at most ${round(high)}; ringed: pairs that strategies choose by`);
  cells.forEach((row, i) => row.forEach((cell, j) => {
    const level = high > low ? Math.round((100 * (matrix[i][j] - low)) / (high - low)) : 0;
    const names = pairs.filter(({ pair }) => pair[0] === i && pair[1] === j).map(({ system }) => system);
    cell.style.setProperty("--level", `${level}%`);
    cell.classList.toggle("middle", level >= 49); // where text must turn in the dark, and below in the light
    cell.classList.toggle("high", level >= 65);
    cell.classList.toggle("ringed", names.length > 0);
    cell.classList.toggle("own", names.includes(known.system));
    cell.setAttribute("aria-label", `regular ${i + 1} with reverse ${j + 1}: ${round(matrix[i][j])}${names.length ? `, chosen by ${names.join(", ")}` : ""}`);
    cell.firstChild.replaceChildren(round(matrix[i][j]).replace(/^(-?)0\./u, "$1."));
  }));
}

function walk(view, event) {
  const [row, column] = view.pair;
  const [last, end] = [view.cells.length - 1, view.cells[0].length - 1];
  const steps = { ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? last : row, end] };
  const to = steps[event.key];
  if (!to) return;
  event.preventDefault();
  view.cells[Math.min(last, Math.max(0, to[0]))][Math.min(end, Math.max(0, to[1]))].focus();
}

function pin(view, pair) {
  view.pair = pair;
  view.state.pair = pair;
  select(view, pair);
  view.changed();
}

// Lights up a pair everywhere.
function select(view, pair) {
  const { cells, items, parts } = view;
  const mark = (element, isMarked, name = "selected") => element.classList.toggle(name, isMarked);
  cells.forEach((row, i) => row.forEach((cell, j) => {
    const isPair = pair[0] === i && pair[1] === j;
    mark(cell, isPair);
    cell.setAttribute("aria-selected", String(isPair));
    cell.tabIndex = view.pair[0] === i && view.pair[1] === j ? 0 : -1;
  }));
  DIRECTIONS.forEach((direction, side) => items[direction].forEach((item, place) => mark(item, pair !== null && pair[side] === place)));
  if (!pair || !parts.pair) return;
  parts.pair.replaceChildren(...describePair(view, pair));
  parts.trees?.querySelectorAll("[data-pair]").forEach((link) => mark(link, link.dataset.pair === pair.join(",")));
  parts.trees?.querySelectorAll("[data-place]").forEach((rank) => mark(rank, rank.dataset.place === `regular,${pair[0]}` || rank.dataset.place === `reverse,${pair[1]}`));
}

function describePair(view, [row, column]) {
  const { known, marks } = view;
  const pair = [known.regular[row], known.reverse[column]];
  const pieces = pair.map((each) => readHypothesis(each, marks));
  const { order, transports } = known.similarity;
  const shared = shareGrams(...pair.map(tokensOf), order ?? 1);
  const lines = DIRECTIONS.map((direction, side) => make("div", { class: `line ${direction}` },
    make("span", { class: "label" }, `${direction} ${[row, column][side] + 1}`), makeTokens(pieces[side], shared.reach[side])));
  const details = transports ? describeTransport(view, row, column) : order ? [listShared(shared, pieces[0])] : [];
  return [make("h4", {}, tellValue(view, row, column)), ...lines, ...details];
}

function tellValue({ known, state, matrix, rows }, row, column) {
  const term = known.similarity.length_term;
  const value = `${known.similarity.name} ${round(matrix[row][column], 3)}`;
  if (!term) return value;
  const own = rows === "regular" ? row : column;
  const plain = rows === "regular" ? known.similarity.without_length[row][column] : known.similarity.reverse_by_regular[column][row];
  const T = state.T ?? term.T[other(rows)];
  const penalty = lengthTerm(known[rows][own].tokens.length, T);
  return term.form === "similarity" ? `${value} = ${round(plain, 3)} \u00d7 BP_T ${round(penalty, 3)}` : `${value} (BP_T ${round(penalty, 3)})`;
}

function makeTokens(pieces, reach) {
  if (!pieces.length) return make("span", { class: "none" }, NOTHING);
  return make("span", { class: "tokens", dir: "auto" }, pieces.map(({ text, goesOn }, place) =>
    make("span", { class: `token${reach[place] ? ` shared n${Math.min(4, reach[place])}` : ""}${goesOn ? " on" : ""}` }, text.trim() || "\u2423")));
}

function listShared({ orders }, pieces) {
  const rows = orders.filter(({ total }) => total).map(({ n, shared, matches, total }) => make("tr", {}, make("th", { scope: "row" }, `${n}-grams`),
    make("td", {}, `${matches} of ${total}`), make("td", { class: "text" }, shared.slice(0, 8).map(({ start, count }) =>
      make("span", { class: "gram", dir: "auto" }, joinPieces(pieces.slice(start, start + n)), count > 1 && ` \u00d7${count}`)), shared.length > 8 && "\u2026")));
  return make("table", { class: "grams" }, make("caption", {}, "Shared n-grams, each counted as often as both have it"), rows);
}

function describeTransport({ known, marks }, row, column) {
  const found = known.similarity.transports.find(([i, j]) => i === row && j === column);
  if (!found) return [make("p", { class: "hint" }, "The transport of words is known for the most similar pairs, and this is none of them.")];
  const [, , moves] = found;
  if (!moves.length) return [make("p", { class: "hint" }, "One of them has no word with a vector, so that only equal tokens would be alike.")];
  const read = (word) => make("bdi", {}, readTokens([word], marks)[0].text);
  const rows = moves.map(([word, to, share, distance]) => {
    const line = make("tr", { class: distance ? null : "stays" }, make("td", { class: "text" }, read(word), " \u2192 ", read(to)),
      make("td", {}, `${round(100 * share, 0)} %`), make("td", { class: "far" }, distance ? round(distance) : "stays"));
    line.style.setProperty("--share", `${100 * share}%`);
    return line;
  });
  const distance = moves.reduce((sum, [, , share, far]) => sum + share * far, 0);
  return [make("table", { class: "moves" }, make("caption", {}, `Transport of words: word mover's distance ${round(distance, 3)}`),
    make("thead", {}, make("tr", {}, ["words", "share", "distance"].map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, rows))];
}

// The trees.

function makeTrees({ parts, known }) {
  if (!known.regular.length && !known.reverse.length) return null;
  parts.trees = make("div", { class: "drawing" });
  parts.words = make("ul", {});
  const inWords = make("details", {}, make("summary", {}, "The links in words"), parts.words);
  const least = DIRECTIONS.some((direction) => known[direction].length > SHOWN) ? ` Of each beam the best ${SHOWN}, and those that a strategy chooses.` : "";
  return section("trees", "Where the beams meet", make("p", { class: "hint" }, `Common beginnings grow from the left, common ends from the right; links join what is alike.${least}`),
    scrollBox(parts.trees, "trees of both beams"), known.regular.length && known.reverse.length ? inWords : null);
}

function paintTrees(view) {
  const { parts, known, marks, matrix, winners, pairs, ownPair, pairs: all } = view;
  if (!parts.trees) return;
  const isFirst = !parts.trees.firstChild;
  parts.trees.replaceChildren(drawTrees({ known, marks, matrix, winners, pairs: all.map(({ pair }) => pair), own: ownPair }));
  const links = pickLinks(matrix, pickShown(known, winners), pairs.map(({ pair }) => pair)).reverse();
  parts.words.replaceChildren(...links.map(({ row, column, value }) => make("li", {}, `${round(value)}: regular ${row + 1}, `, quote(textOf(known, "regular", row)), ` \u2013 reverse ${column + 1}, `, quote(textOf(known, "reverse", column)))));
  if (isFirst) requestAnimationFrame(() => {
    centre(parts.trees.querySelector(".link.own, .rank"));
    if (view.pair && view.cells.length) centre(view.cells[view.pair[0]][view.pair[1]]);
    showOverflow(document);
  });
}

// Scrolls the middle of something to the middle of its box, and the page nowhere.
function centre(element) {
  const box = element.closest(".scroll");
  const [inner, outer] = [element, box].map((each) => each.getBoundingClientRect());
  box.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
  box.scrollTop += inner.top + inner.height / 2 - outer.top - outer.height / 2;
}

function showOverflow(root) {
  for (const box of root.querySelectorAll(".scroll")) box.parentElement.classList.toggle("overflows", box.scrollWidth > box.clientWidth + 1);
}

function makeNotes({ known }) {
  const notes = (known.notes ?? []).map((note) => make("li", {}, clean(note)));
  const signature = known.signature && make("details", {}, make("summary", {}, "Signature"), make("code", {}, clean(known.signature)));
  return notes.length || signature ? make("footer", {}, notes.length > 0 && make("ul", { class: "notes" }, notes), signature) : null;
}
