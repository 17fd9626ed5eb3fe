// The matrix as a heat map with one stop for the keyboard, and what the pair that is looked at has in common.

const MANY = 12; // columns above which cells are too small for numbers

function makeMatrix(view) {
  const { known, root } = view;
  const table = root.querySelector("[role=grid]");
  root.querySelector(".matrix").hidden = !known.regular.length || !known.reverse.length;
  table.classList.toggle("dense", known.reverse.length > MANY);
  table.querySelector("thead tr").append(...known.reverse.map((each, j) =>
    make("th", { scope: "col", title: shown(each.text) }, String(j + 1))));
  view.cells = known.regular.map((_, i) => known.reverse.map((__, j) => makeCell(view, i, j)));
  table.tBodies[0].append(...known.regular.map((each, i) => {
    const text = shown(each.text);
    const name = make("span.name", { dir: "auto" }, text);
    return make("tr", make("th", { scope: "row", title: text }, String(i + 1), name), view.cells[i]);
  }));
  table.addEventListener("keydown", (event) => walk(view, event));
  table.addEventListener("pointerleave", () => select(view, view.pair));
}

function makeCell(view, i, j) {
  const choose = () => pin(view, [i, j]);
  const look = () => select(view, [i, j]);
  return make("td", { role: "gridcell", tabindex: -1, pointerenter: look, focus: choose, click: choose }, make("span"));
}

function paintMatrix({ known, cells, matrix, pairs, judged, root }) {
  if (!cells[0]?.length) return;
  const values = matrix.flat();
  const [low, high] = [Math.min(0, ...values), Math.max(...values)];
  const { name } = known.similarity;
  const ringed = [...new Set(pairs.map(({ pair: [i, j] }) => `${i + 1} with ${j + 1}`))];
  root.querySelector("[role=grid]").setAttribute("aria-label", `${name} of every pair`);
  root.querySelector(".caption").replaceChildren(`${name} of each ${judged} hypothesis with each ${other(judged)} `
    + `one, at most ${round(high)}`, ringed.length && `; ringed, as strategies choose by them: ${ringed.join(", ")}`);
  cells.forEach((line, i) => line.forEach((cell, j) => {
    const level = high > low ? Math.round((100 * (matrix[i][j] - low)) / (high - low)) : 0;
    const names = pairs.filter(({ pair }) => pair[0] === i && pair[1] === j).map(({ system }) => system);
    cell.style.setProperty("--level", `${level}%`);
    cell.classList.toggle("middle", level >= 49); // where text must turn in the dark, and below in the light
    cell.classList.toggle("high", level >= 65);
    cell.classList.toggle("ringed", names.length > 0);
    cell.classList.toggle("own", names.includes(known.system));
    const chosen = names.length ? `, chosen by ${names.join(", ")}` : "";
    cell.setAttribute("aria-label", `regular ${i + 1} with reverse ${j + 1}: ${round(matrix[i][j])}${chosen}`);
    cell.firstChild.replaceChildren(round(matrix[i][j]).replace(/^(-?)0\./u, "$1."));
  }));
}

function walk({ cells, pair: [i, j] }, event) {
  const [bottom, end] = [cells.length - 1, cells[0].length - 1];
  const to = {
    ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
    Home: [event.ctrlKey ? 0 : i, 0], End: [event.ctrlKey ? bottom : i, end],
  }[event.key];
  if (!to) return;
  event.preventDefault();
  cells[Math.min(bottom, Math.max(0, to[0]))][Math.min(end, Math.max(0, to[1]))].focus();
}

function pin(view, pair) {
  view.pair = view.state.pair = pair;
  select(view, pair);
  view.changed();
}

// Lights a pair up everywhere.
function select(view, pair) {
  const light = (selector, isPair) => view.root.querySelectorAll(selector)
    .forEach((element) => element.classList.toggle("selected", isPair(element.dataset)));
  view.cells.forEach((line, i) => line.forEach((cell, j) => {
    const isPair = pair?.[0] === i && pair?.[1] === j;
    cell.classList.toggle("selected", isPair);
    cell.setAttribute("aria-selected", String(isPair));
    cell.tabIndex = view.pair?.[0] === i && view.pair?.[1] === j ? 0 : -1;
  }));
  const places = pair ? [`regular,${pair[0]}`, `reverse,${pair[1]}`] : [];
  light("[data-place]", ({ place }) => places.includes(place));
  light("[data-pair]", (data) => data.pair === String(pair));
  view.root.querySelector(".pair").replaceChildren(...(pair ? describePair(view, ...pair) : []));
}

function describePair(view, i, j) {
  const { known, mark, judged } = view;
  const { order, transports } = known.similarity;
  const both = [known.regular[i], known.reverse[j]];
  const pieces = both.map((each) => readHypothesis(each, mark));
  const tokens = both.map(tokensOf);
  const shared = shareGrams(...tokens, order ?? 1, tokens[DIRECTIONS.indexOf(judged)].length);
  const lines = DIRECTIONS.map((direction, side) => make(`div.line.${direction}`,
    make("span.label", `${direction} ${[i, j][side] + 1}`), makeTokens(pieces[side], shared.reach[side])));
  const details = transports ? listMoves(view, i, j) : order ? listShared(known, shared, pieces[0]) : null;
  return [make("h4", tellValue(view, i, j)), make("p.hint", tellPair(view, i, j)), ...lines, details].filter(Boolean);
}

// Who chooses by a pair, or that it is the reply's.
function tellPair({ pairs, own }, i, j) {
  const names = pairs.filter(({ pair }) => String(pair) === `${i},${j}`).map(({ system }) => system);
  if (names.length) return `chosen by ${names.join(", ")}`;
  return own && own.place === (own.direction === "regular" ? i : j) ? `the reply of ${own.system} is one of them` : "";
}

// The value, and the length term that is in it.
function tellValue({ known, state, matrix, judged }, i, j) {
  const { name, length_term: term, without_length: plain, reverse_by_regular: turned } = known.similarity;
  const value = `${name} ${round(matrix[i][j], 3)}`;
  if (!term) return value;
  const isRegular = judged === "regular";
  const penalty = lengthTerm(known[judged][isRegular ? i : j].tokens.length, state.T ?? term.T[other(judged)]);
  if (term.form !== "similarity") return `${value} (BP_T ${round(penalty, 3)})`;
  return `${value} = ${round(isRegular ? plain[i][j] : turned[j][i], 3)} \u00d7 BP_T ${round(penalty, 3)}`;
}

function makeTokens(pieces, reach) {
  if (!pieces.length) return make("span.none", "(nothing)");
  return make("span.tokens", { dir: "auto" }, pieces.map(({ text, goesOn }, place) => {
    const shared = reach[place] ? `.shared.n${Math.min(4, reach[place])}` : "";
    return make(`span.token${shared}${goesOn ? ".on" : ""}`, text.trim() || "\u2423");
  }));
}

function listShared({ similarity: { smoothing } }, { orders }, pieces) {
  const gram = ({ start, count }, n) => make("span.gram", { dir: "auto" },
    joinPieces(pieces.slice(start, start + n)), count > 1 && ` \u00d7${count}`);
  const lines = orders.map(({ n, shared, matches, total }) =>
    row(head(`${n}-grams`), `${matches} of ${total}`, make("td.text", shared.map((each) => gram(each, n)))));
  const isFloored = smoothing === "floor" && orders[0].matches && orders.some(({ matches }) => !matches);
  return make("table.grams", make("caption", "Shared n-grams, each counted as often as both have it",
    isFloored && "; where none is shared, a tenth of one counts"), lines);
}

function listMoves({ known, mark }, i, j) {
  const moves = known.similarity.transports.find((each) => each[0] === i && each[1] === j)?.[2];
  if (!moves) return make("p.hint", "The transport of words is known for the most similar pairs, not for this one.");
  if (!moves.length) return make("p.hint", "One has no word with a vector, so only equal tokens would be alike.");
  const read = (word) => make("bdi", readTokens([word], mark)[0].text);
  const lines = moves.map(([word, to, share, distance]) => {
    const line = row(make("td.text", read(word), " \u2192 ", read(to)), `${round(100 * share, 0)} %`,
      distance ? round(distance) : "stays");
    line.style.setProperty("--share", `${100 * share}%`);
    return line;
  });
  const whole = moves.reduce((sum, [, , share, distance]) => sum + share * distance, 0);
  return make("table.moves", make("caption", `Transport of words: word mover's distance ${round(whole, 3)}`),
    make("thead", make("tr", ["words", "share", "distance"].map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", lines));
}
