// One explanation, in the parts of explanation.html: the reply and why, sliders, each strategy's winner, both
// beams, the matrix, a pair, the trees.

const DIRECTIONS = ["regular", "reverse"];
const FEW = 12; // hypotheses of a beam that are shown at once, besides those that are chosen

// Shows `known`, a document of Explanation.to_dict(), in `root`. `state` has T, lambda, exponent and pair, which
// the reader changes; `changed` is called then.
function showExplanation(root, known, state, changed = () => {}) {
  const view = { root, known, state, changed, mark: findMark(known) };
  root.classList.add("explanation");
  root.replaceChildren(document.getElementById("explanation-parts").content.cloneNode(true));
  makeHead(view);
  makeSliders(view);
  DIRECTIONS.forEach((direction) => makeBeam(view, direction));
  makeMatrix(view);
  makeNotes(view);
  update(view);
  requestAnimationFrame(() => {
    root.querySelectorAll(".link.own, [role=gridcell].selected").forEach(centre);
    showOverflow();
  });
}

const settingsOf = ({ T = null, lambda = null, exponent = null }) => ({ T, lambda, exponent });

function update(view) {
  const { known, state } = view;
  const settings = settingsOf(state);
  view.winners = rankAgain(known, settings);
  view.own = view.winners.find((each) => each.system === known.system);
  view.judged = view.own?.direction === "reverse" && view.own.partner !== null ? "reverse" : "regular";
  view.matrix = orientMatrix(known, settings, view.judged);
  view.pairs = view.winners.filter((each) => each.partner !== null).map(({ system, direction, place, partner }) =>
    ({ system, pair: direction === "regular" ? [place, partner] : [partner, place] }));
  view.ownPair = view.pairs.find(({ system }) => system === known.system)?.pair;
  view.pair = state.pair ?? view.ownPair ?? view.pairs[0]?.pair ?? findBest(view.matrix);
  paintHead(view);
  paintChoices(view);
  paintBadges(view);
  paintMatrix(view);
  paintTrees(view);
  select(view, view.pair);
}

// Always (regular, reverse), compared from the side of the reply: a similarity need not be symmetric.
function orientMatrix(known, settings, judged) {
  const matrix = compare(known, judged, other(judged), settings);
  return judged === "regular" ? matrix : known.regular.map((_, i) => matrix.map((line) => line[i]));
}

function findBest(matrix) {
  const [highest, columns] = [Math.max(...matrix.flat()), matrix[0]?.length];
  const place = matrix.flat().indexOf(highest);
  return place < 0 ? null : [Math.floor(place / columns), place % columns];
}

// The source, the reply, and a sentence why.

function makeHead({ root, known }) {
  root.querySelector(".source").replaceChildren(shown(known.source));
  root.querySelector(".dialogue").append(...(known.references ?? []).flatMap((each) =>
    [make("span.label", "reference"), make("p.source", { dir: "auto" }, shown(each))]));
}

function paintHead({ root, known, own, winners, state }) {
  const reply = root.querySelector(".reply");
  const isNone = !own && !known.reply;
  const text = isNone ? "(no reply)" : shown(own ? own.text : known.reply);
  reply.classList.toggle("long", text.length > 100);
  const changed = own?.isChanged ? [" ", make("span.changed", "changed")] : [];
  reply.replaceChildren(make("span", { dir: "auto" }, text), ...changed);
  root.querySelector(".why").replaceChildren(...tellWhy(known, own));
  root.querySelector(".decides").replaceChildren(...tellLength(known, winners, state, own));
}

function tellWhy(known, own) {
  if (own) return [make("b", own.system), own.reason ? ` answers so, since ${clean(own.reason)}` : " answers so."];
  if (known.reply || !known.choices.length) return [];
  return [`${known.system} could not choose, since something that it needs is missing.`];
}

// Whether the length term decides, or agreement by itself.
function tellLength(known, winners, state, own) {
  const compares = (each) => ["bidia", "mbr"].includes(each?.formula);
  const one = compares(own) ? own : winners.find((each) => each.formula === "bidia");
  if (!known.similarity.length_term || !one) return [];
  const plain = rankAgain(known, { ...settingsOf(state), T: 1 }).find((each) => each.system === one.system);
  const without = `without the length term BP_T, ${one.system}`;
  if (plain.text === one.text) return [make("b", "Agreement decides: "), `${without} chooses the same.`];
  return [make("b", "Length decides: "), `${without} would choose `, quote(plain.text), "."];
}

// Sliders, which rank again what the search found.

function makeSliders(view) {
  const { root, state } = view;
  const ranges = findRanges(view.known);
  const section = root.querySelector(".sliders");
  section.hidden = !Object.keys(ranges).length;
  view.sliders = [...section.querySelectorAll(".slider")].filter((slider) => {
    slider.hidden = !ranges[slider.dataset.name];
    return !slider.hidden;
  });
  for (const slider of view.sliders) {
    const { name } = slider.dataset;
    const { min, max, start } = (slider.range = ranges[name]);
    const input = slider.querySelector("input");
    Object.assign(input, { min: min ?? input.min, max });
    input.addEventListener("input", () => {
      const isBack = Math.abs(input.value - start) < Number(input.step) / 2;
      state[name] = isBack ? null : Number(input.value);
      slid(view);
    });
  }
  root.querySelector(".reset").addEventListener("click", () => {
    view.sliders.forEach(({ dataset }) => { state[dataset.name] = null; });
    slid(view);
  });
  refreshSliders(view);
}

// Where each slider starts and ends, if some strategy has a use for it.
function findRanges(known) {
  const has = (...formulas) => known.choices.some((each) => formulas.includes(each.formula));
  const options = Object.assign({}, ...known.choices.map((each) => each.options));
  const hypotheses = [...known.regular, ...known.reverse];
  const longest = Math.max(1, ...hypotheses.map((each) => tokensOf(each).length));
  const ranges = {};
  const T = known.similarity.length_term?.T.reverse;
  if (T && has("bidia", "mbr")) ranges.T = { start: T, max: Math.max(2 * longest, Math.ceil(1.5 * T)) };
  const weight = options.lambda;
  if (has("bidis")) ranges.lambda = { start: weight, min: Math.min(0, weight), max: Math.max(3, 2 * weight) };
  const isScored = has("vbs", "reverse-vbs", "bidis", "vbs-tuned", "loglinear");
  if (isScored && hypotheses.some((each) => each.log_prob !== null)) {
    const start = known.length_penalty?.exponent ?? 0.6;
    const before = known.length_penalty ? undefined : "as the scores are";
    ranges.exponent = { start, before, min: Math.min(0, start), max: Math.max(2, 1.5 * start) };
  }
  return ranges;
}

function refreshSliders({ sliders, state }) {
  for (const { dataset, range, children } of sliders) {
    const value = state[dataset.name] ?? null;
    children[1].value = value ?? range.start;
    const before = range.before ?? `${Number(range.start.toFixed(3))}, as it was`;
    children[0].querySelector("output").replaceChildren(value === null ? before : String(value));
  }
}

function slid(view) {
  view.state.pair = null;
  refreshSliders(view);
  update(view);
  const changes = view.winners.filter((each) => each.isChanged).map((each) => `${each.system}: ${shown(each.text)}`);
  const isMoved = Object.values(settingsOf(view.state)).some((value) => value !== null);
  const told = isMoved ? `With these settings, ${changes.join("; ") || "no winner changes"}.` : "As it was.";
  view.root.querySelector(".status").replaceChildren(told);
  view.changed();
}

// Each strategy's winner.

function paintChoices({ root, known, winners }) {
  const table = root.querySelector(".choices table");
  table.hidden = !winners.length;
  root.querySelector(".choices .none").hidden = !table.hidden;
  table.tHead.rows[0].cells[2].hidden = !winners.some((each) => each.reason);
  table.tBodies[0].replaceChildren(...winners.map((each) => {
    const isOwn = each.system === known.system;
    const line = row(make("th", { scope: "row" }, each.system, isOwn && [" ", make("small", "answers")]),
      make("td.text", make("span", { dir: "auto" }, shown(each.text)),
        ...(each.isChanged ? [" ", make("span.changed", "changed, was ", quote(each.before.text))] : [])),
      make("td.since", clean(each.reason ?? ""), each.isKept && " (The page cannot ask this one again.)"));
    line.classList.toggle("own", isOwn);
    return line;
  }));
}

// Both beams in reading order.

function makeBeam(view, direction) {
  const hypotheses = view.known[direction];
  const beam = view.root.querySelector(`.beam.${direction}`);
  const [list, none, all] = ["ol", ".none", ".all"].map((part) => beam.querySelector(part));
  none.hidden = hypotheses.length > 0;
  all.hidden = hypotheses.length <= FEW;
  all.replaceChildren(`Show all ${hypotheses.length}`);
  all.addEventListener("click", () => { list.classList.add("open"); all.remove(); });
  const best = Math.max(...hypotheses.map((each) => each.score ?? -Infinity));
  list.append(...hypotheses.map((each, place) => makeItem(view, direction, place, best)));
}

function makeItem(view, direction, place, best) {
  const { text, score, finished } = view.known[direction][place];
  const hasScore = typeof score === "number";
  const item = make("li", { "data-place": `${direction},${place}`, click: () => pinHypothesis(view, direction, place) },
    make("span.place", String(place + 1)),
    make("span.text", { dir: "auto" }, shown(text)),
    finished === false && make("span.cut", "cut off"),
    make("span.score", { title: hasScore ? "length-normalised log-probability" : null }, hasScore && round(score)),
    make("span.badges"));
  item.classList.toggle("scored", hasScore);
  if (hasScore) item.style.setProperty("--likely", Math.exp(score - best).toFixed(3));
  return item;
}

function paintBadges({ root, known, winners }) {
  for (const item of root.querySelectorAll(".beam li")) {
    const [direction, place] = item.dataset.place.split(",");
    const choosers = winners.filter((each) => each.direction === direction && each.place === Number(place));
    item.classList.toggle("few", place < FEW || choosers.length > 0);
    item.lastChild.replaceChildren(...choosers.map(({ system, isChanged }) =>
      make(`span.badge${system === known.system ? ".own" : ""}${isChanged ? ".new" : ""}`, system)));
  }
}

// Pins a hypothesis together with its closest in the other beam.
function pinHypothesis(view, direction, place) {
  const isRegular = direction === "regular";
  const partner = findHighest(isRegular ? view.matrix[place] : view.matrix.map((line) => line[place]));
  if (partner !== null) pin(view, isRegular ? [place, partner] : [partner, place]);
}

// The trees, and what stands under all.

function paintTrees(view) {
  const { root, known, matrix, winners, pairs } = view;
  const section = root.querySelector(".trees");
  section.hidden = !known.regular.length && !known.reverse.length;
  if (section.hidden) return;
  section.querySelector(".drawing").replaceChildren(drawTrees(view));
  const links = pickLinks(matrix, pickShown(known, winners), pairs.map(({ pair }) => pair)).reverse();
  const text = (direction, place) => [`${direction} ${place + 1}, `, quote(known[direction][place].text)];
  section.querySelector(".words").hidden = !links.length;
  section.querySelector("ul").replaceChildren(...links.map(({ i, j, value }) =>
    make("li", `${round(value)}: `, text("regular", i), " \u2013 ", text("reverse", j))));
}

function makeNotes({ root, known }) {
  const longest = Math.max(known.regular.length, known.reverse.length);
  const told = longest > SHOWN ? ` Of each beam the best ${SHOWN}, and those that a strategy chooses.` : "";
  root.querySelector(".trees .hint").append(told);
  root.querySelector(".notes").append(...(known.notes ?? []).map((note) => make("li", clean(note))));
  root.querySelector(".signature").hidden = !known.signature;
  root.querySelector("code").append(clean(known.signature ?? ""));
}
