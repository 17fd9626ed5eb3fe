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
    root.querySelectorAll(`.link.own, [role=gridcell].${state.pair ? "selected" : "own"}`).forEach(centre);
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
  view.places = pickShown(known, view.winners);
  view.links = pickLinks(view.matrix, view.places, view.pairs.map(({ pair }) => pair));
  view.pair = state.pair ?? view.ownPair ?? findClosest(view, view.own) ?? findBest(view.matrix);
  paintHead(view);
  paintIdle(view);
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

// A hypothesis together with its closest in the other beam.
function findClosest({ matrix }, { direction, place } = {}) {
  const isRegular = direction === "regular";
  const partner = direction && findHighest(isRegular ? matrix[place] : matrix.map((line) => line[place]));
  return Number.isInteger(partner) ? (isRegular ? [place, partner] : [partner, place]) : null;
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

function paintHead({ root, known, own, state }) {
  const reply = root.querySelector(".reply");
  const isNone = !own && !known.reply;
  const text = isNone ? "(no reply)" : shown(own ? own.text : known.reply);
  reply.classList.toggle("long", text.length > 100);
  const changed = own?.isChanged ? [" ", make("span.changed", "changed")] : [];
  reply.replaceChildren(make("span", { dir: "auto" }, text), ...changed);
  root.querySelector(".why").replaceChildren(...tellWhy(known, own));
  root.querySelector(".decides").replaceChildren(...tellLength(known, state, own));
}

function tellWhy(known, own) {
  if (own) return [make("b", own.system), own.reason ? ` answers so, since ${clean(own.reason)}` : " answers so."];
  if (known.reply || !known.choices.length) return [];
  return [`${known.system} could not choose, since something that it needs is missing.`];
}

// That the length term decides, where it does.
function tellLength(known, state, own) {
  if (!own || !MOVES.T(own, known)) return [];
  const plain = rankAgain(known, { ...settingsOf(state), T: 1 }).find((each) => each.system === own.system);
  if (plain.text === own.text) return [];
  return [make("b", "Length decides: "), `without the length term BP_T, ${own.system} would choose `, quote(plain.text),
    plain.isTied ? ", which is first of several that agree as much." : "."];
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
    const { min, max, start } = (slider.range = ranges[slider.dataset.name]);
    const input = slider.querySelector("input");
    Object.assign(input, { min: min ?? input.min, max });
    input.addEventListener("input", () => {
      const isBack = Math.abs(input.value - start) < Number(input.step) / 2;
      state[slider.dataset.name] = isBack ? null : Number(input.value);
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
  const isMoved = (name) => known.choices.some((each) => MOVES[name](each, known));
  const options = Object.assign({}, ...known.choices.map((each) => each.options));
  const hypotheses = [...known.regular, ...known.reverse];
  const longest = Math.max(1, ...hypotheses.map((each) => tokensOf(each).length));
  const ranges = {};
  if (isMoved("T")) {
    const start = known.similarity.length_term.T.reverse;
    ranges.T = { start, max: Math.max(2 * longest, Math.ceil(1.5 * start)) };
  }
  const weight = options.lambda;
  if (isMoved("lambda")) ranges.lambda = { start: weight, min: Math.min(0, weight), max: Math.max(3, 2 * weight) };
  if (isMoved("exponent") && hypotheses.some((each) => each.log_prob !== null)) {
    const start = known.length_penalty?.exponent ?? 0.6;
    const before = known.length_penalty ? undefined : "as the scores are";
    ranges.exponent = { start, before, min: Math.min(0, start), max: Math.max(2, 1.5 * start) };
  }
  return ranges;
}

// Which sliders are nothing to the strategy that answers.
function paintIdle({ root, known, own, sliders }) {
  const idle = sliders.filter(({ dataset }) => own && !MOVES[dataset.name](own, known));
  const names = idle.map((slider) => slider.querySelector("b").textContent).join(" and ");
  const which = idle.length === sliders.length ? "These do" : `${names} ${idle.length > 1 ? "do" : "does"}`;
  const told = `${which} not change what answers here, ${own?.system}, only what others choose.`;
  root.querySelector(".idle").replaceChildren(idle.length ? told : "");
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
  beam.querySelector("h4 .score").hidden = !hypotheses.some((each) => typeof each.score === "number");
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
    item.classList.toggle("own", choosers.some(({ system }) => system === known.system));
    item.classList.toggle("few", place < FEW || choosers.length > 0);
    item.lastChild.replaceChildren(...choosers.map(({ system, isChanged }) =>
      make(`span.badge${system === known.system ? ".own" : ""}${isChanged ? ".new" : ""}`, system)));
  }
}

function pinHypothesis(view, direction, place) {
  const pair = findClosest(view, { direction, place });
  if (pair) pin(view, pair);
}

// The trees, and what stands under all.

function paintTrees(view) {
  const { root, known, links } = view;
  const section = root.querySelector(".trees");
  section.hidden = !known.regular.length && !known.reverse.length;
  if (section.hidden) return;
  section.querySelector(".drawing").replaceChildren(drawTrees(view));
  const text = (direction, place) => [`${direction} ${place + 1}, `, quote(known[direction][place].text)];
  section.querySelector(".words").hidden = !links.length;
  section.querySelector("ul").replaceChildren(...[...links].reverse().map(({ i, j, value }) =>
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
