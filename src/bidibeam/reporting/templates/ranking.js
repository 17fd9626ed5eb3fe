// Who answers, by the formulas of bidibeam/strategies: sums of what the document holds. A test compares the
// winners with Python's. `settings` are the sliders' T, lambda and exponent; null leaves what was in force.

const other = (direction) => (direction === "regular" ? "reverse" : "regular");
const TIE = 1e-12; // sums in another order than Python's differ by less

function rankAgain(known, settings) {
  const isMoved = Object.values(settings).some((value) => value !== null);
  return known.choices.map((choice) => {
    const before = { ...choice, place: (choice.rank ?? 0) - 1, partner: choice.partner ? choice.partner - 1 : null };
    if (!isMoved || !FORMULAS[choice.formula]) return { ...before, isKept: isMoved };
    const [first, ...others] = sortEntries(FORMULAS[choice.formula](known, choice, settings));
    const isChanged = first.direction !== before.direction || first.place !== before.place;
    if (!isChanged && Math.abs(first.score - before.score) < TIE) return before; // its reason still holds
    const isSame = (each) => choice.formula === "loglinear" && each.text === first.text; // as a candidate
    const next = others.find((each) => !isSame(each));
    const reason = tellReason(first, next, choice);
    return { ...before, ...first, isChanged, before, isTied: isTie(first, next), reason };
  });
}

// Finished ones first, then the highest; the sort is stable, so ties keep their order, as in Python.
function sortEntries(entries) {
  return [...entries].sort((a, b) => b.isFinished - a.isFinished || b.score - a.score);
}

const isTie = (first, next) => first.isFinished === next?.isFinished && Math.abs(first.score - next.score) < TIE;

function tellReason(first, next, choice) {
  const name = (entry) => `${entry.direction} hypothesis ${entry.place + 1}`;
  const partner =
    first.partner !== null && choice.formula === "bidia"
      ? `, closest to ${other(first.direction)} hypothesis ${first.partner + 1}`
      : "";
  const digits = [3, 4, 5].find((each) => round(first.score, each) !== round(next?.score ?? 0, each)) ?? 6;
  const most = `${name(first)} now has the most, ${round(first.score, isTie(first, next) ? 3 : digits)}${partner}`;
  if (!next) return `${most}; there is no other.`;
  if (first.isFinished !== next.isFinished) return `${most}; all others were cut off, and rank behind it.`;
  if (!isTie(first, next)) return `${most}; the next, ${name(next)}, has ${round(next.score, digits)}.`;
  const goesTo = first.direction === next.direction ? "better rank" : "regular beam";
  return `${most}; ${name(next)} has as much, and ties go to the ${goesTo}.`;
}

// Whether a slider can change what a strategy chooses.
const MOVES = {
  T: ({ formula, compares, agreement, options }, known) =>
    Boolean(known.similarity.length_term && formula && compares && !agreement && options.agreement_weight !== 0),
  lambda: ({ formula }) => formula === "bidis",
  exponent: ({ formula, options }) =>
    formula === "loglinear"
      ? options.regular_weight !== 0 || options.reverse_weight !== 0
      : ["vbs", "reverse-vbs", "bidis", "vbs-tuned"].includes(formula),
};

const round = (value, digits = 2) => (Math.round(value * 10 ** digits) === 0 ? 0 : value).toFixed(digits);

function entriesOf(known, direction, score, partners = []) {
  return known[direction].map((hypothesis, place) => ({
    direction,
    place,
    text: hypothesis.text,
    score: score(hypothesis, place),
    partner: partners[place] ?? null,
    isFinished: hypothesis.finished !== false,
  }));
}

const FORMULAS = {
  vbs: (known, choice, settings) => entriesOf(known, "regular", (each) => scoreOf(each, known, settings)),
  "reverse-vbs": (known, choice, settings) =>
    entriesOf(known, "reverse", (each) => scoreOf(each, known, settings)),
  longest: (known) => entriesOf(known, "regular", (each) => each.tokens.length),
  "vbs-tuned": (known, { options }, settings) =>
    entriesOf(
      known,
      "regular",
      (each) =>
        each.log_prob * invertGnmt(each.length, settings.exponent ?? options.length_exponent) +
        options.word_reward * each.length,
    ),
  bidis: (known, { options }, settings) => {
    const weight = settings.lambda ?? options.lambda;
    const total = (each) =>
      scoreOf(each, known, settings) + weight * each.other_log_prob * normalisation(each, known, settings);
    return entriesOf(known, "regular", total).filter(
      ({ place }) => known.regular[place].other_log_prob !== null,
    );
  },
  bidia: (known, { options }, settings) => {
    const directions = options.answer === "either" ? ["regular", "reverse"] : ["regular"];
    return directions.flatMap((direction) => agreementOf(known, direction, options.agreement, settings));
  },
  mbr: (known, { options }, settings) => {
    const matrix = compare(known, "regular", "regular", settings);
    const sums = sumAgreement(matrix, known.regular, options.agreement);
    return entriesOf(known, "regular", (each, place) => sums[place]);
  },
  loglinear: (known, choice, settings) => {
    const { candidates } = choice.options;
    const directions = candidates === "both" ? ["regular", "reverse"] : [candidates];
    return directions.flatMap((direction) => weigh(known, choice, direction, settings));
  },
};

function agreementOf(known, direction, how, settings) {
  const matrix = compare(known, direction, other(direction), settings);
  const sums = sumAgreement(matrix, known[other(direction)], how);
  return entriesOf(known, direction, (each, place) => sums[place], matrix.map(findHighest));
}

function weigh(known, { options, compares, agreement }, direction, settings) {
  const shared = compares && !agreement ? agreementOf(known, direction, options.agreement, settings) : [];
  const agreed = agreement?.[direction] ?? shared.map((entry) => [entry.score, entry.partner]);
  const exponent = settings.exponent ?? options.length_exponent;
  const total = (each, place) => {
    const [regular, reverse] =
      direction === "regular" ? [each.log_prob, each.other_log_prob] : [each.other_log_prob, each.log_prob];
    return (
      (options.regular_weight * regular + options.reverse_weight * reverse) *
        invertGnmt(each.length, exponent) +
      options.length_weight * each.length +
      (compares ? options.agreement_weight * agreed[place][0] : 0)
    );
  };
  return entriesOf(
    known,
    direction,
    total,
    agreed.map(([, partner]) => partner),
  );
}

const findHighest = (values) => (values.length ? values.indexOf(Math.max(...values)) : null);

function sumAgreement(matrix, references, how) {
  if (!references.length) return matrix.map(() => 0);
  if (how === "closest") return matrix.map((line) => Math.max(...line));
  const add = (values) => values.reduce((sum, value) => sum + value, 0);
  if (how === "mean") return matrix.map((line) => add(line) / line.length);
  const best = Math.max(...references.map((each) => each.log_prob));
  const posterior = references.map((each) => Math.exp(each.log_prob - best));
  const whole = add(posterior);
  return matrix.map((line) => add(line.map((value, place) => value * (posterior[place] / whole))));
}

// The matrix of one beam (rows) compared with another (columns), with the length term of T where there is one.
function compare(known, rows, columns, settings) {
  const { length_term: term, ...similarity } = known.similarity;
  const plain =
    rows === "reverse"
      ? similarity.reverse_by_regular
      : columns === "regular"
        ? similarity.regular_by_regular
        : term
          ? similarity.without_length
          : similarity.matrix;
  if (!term) return plain;
  const T = settings.T ?? term.T[columns];
  return plain.map((line, place) => {
    const penalty = lengthTerm(known[rows][place].tokens.length, T);
    return line.map((value) => withLength(value, penalty, term.form));
  });
}

// BP_T, as in similarities/bleu.py.
function lengthTerm(length, T) {
  if (length === 0) return 0;
  return length >= T ? 1 : Math.exp(1 - T / length);
}

// What becomes of a similarity without the length term, as in similarities/transport.py: forms of WMD turn it
// back into the distance that it was made of; 0 is infinitely far.
function withLength(value, penalty, form) {
  if (form === "similarity") return value * penalty;
  if (value === 0) return 0;
  if (form === "literal-max") {
    const product = (value / (1 - value)) * penalty;
    return product / (1 + product);
  }
  const distance = 1 / value - 1;
  if (distance === 0) return 1;
  return form === "ratio" ? penalty / (penalty + distance) : 1 / (1 + distance * penalty);
}

const invertGnmt = (length, exponent) => ((5 + length) / 6) ** -exponent;

function invertPenalty(length, known, exponent) {
  const isPower = known.length_penalty?.formula === "power";
  return isPower ? Math.max(length, 1) ** -exponent : invertGnmt(length, exponent);
}

function scoreOf(each, known, settings) {
  if (settings.exponent === null || each.log_prob === null) return each.score;
  return each.log_prob * invertPenalty(each.length, known, settings.exponent);
}

// Score / log-probability: what the other direction's is normalised by, too.
function normalisation(each, known, settings) {
  if (settings.exponent !== null) return invertPenalty(each.length, known, settings.exponent);
  return each.log_prob === 0 ? 1 : each.score / each.log_prob;
}
